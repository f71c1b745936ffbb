"""The models that are asked, in the service's store, and like ones for the peers."""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy as np
from sklearn.svm import SVC, LinearSVC

from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from service.storage.database.tables import ModelOrigin
from svm.data.columns import Column
from svm.kernel.kernels import GaussianKernel
from svm.model.calibration import Calibration
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.solvers import Newton
from svm.training.training import Training
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling

VECTORS = 5000
LEVELS = [f"level {i}" for i in range(8)]
"""Of columns of texts."""
NAMES = {
    "linear64": "64, linear",
    "linear256": "256, linear",
    "classes10": "64, ten classes",
    "calibrated": "64, with probabilities",
    "mixed20": "20, ten of them texts",
    "gaussian64": f"64, Gaussian, {VECTORS:,} vectors",
}
"""By the model's name: what a row has, and what scores it."""


def keep_models(folder: Path, peer: bool, database_url: str | None = None) -> dict[str, int]:
    """Put models where the service finds them, and like ones for the peers; their features."""
    settings = Settings(data_dir=folder / "var")
    if database_url is not None:
        settings = settings.model_copy(update={"database_url": database_url})
    settings.data_dir.mkdir()
    database, blobs = Database(settings.database_url), open_blobs(settings)
    database.migrate()
    registry = ModelRegistry(database, blobs)
    kept = {
        "linear64": fitted_linear(64),
        "linear256": fitted_linear(256),
        "classes10": fitted_linear(64, n_classes=10),
        "calibrated": fitted_linear(64, calibrated=True),
        "gaussian64": fitted_gaussian(64),
        "mixed20": fitted_mixed(),
    }
    for name, fitted in kept.items():
        columns = [f"x{i}" for i in range(fitted.n_features)]
        prepared = registry.files.prepare(fitted, columns)
        with database.write() as connection:
            origin = ModelOrigin(
                job_id="job_0", dataset_id="ds_0", dataset_digest="0", spec={}, seed=0, result={}
            )
            registry.register(connection, name, prepared, origin)
        if peer and fitted.encoder.is_plain:
            joblib.dump(_peer(fitted), folder / f"{name}.joblib")
    database.close()
    return {name: fitted.n_features for name, fitted in kept.items()}


def _peer(fitted: FittedPipeline) -> LinearSVC | SVC:
    random = np.random.default_rng(0)
    if fitted.kernel is None:
        X = random.normal(size=(500, fitted.n_features))
        return LinearSVC().fit(X, random.choice(fitted.classes, size=len(X)))
    # Noise, of which every row becomes a support vector.
    X = random.normal(size=(VECTORS, fitted.n_features))
    labels = random.choice(fitted.classes, size=VECTORS)
    return SVC(gamma=1 / fitted.n_features).fit(X, labels)


def fitted_linear(d: int, n_classes: int = 2, calibrated: bool = False) -> FittedPipeline:
    random = np.random.default_rng(d)
    scaling = Scaling("standardize", random.normal(size=d), random.uniform(0.5, 2, d))
    n_problems = len(splits_of("one-vs-one", n_classes))
    classes = ["no", "yes"] if n_classes == 2 else [f"class {i}" for i in range(n_classes)]
    return FittedPipeline(
        classes=np.array(classes),
        scaling=scaling,
        features=FeatureMap(Identity(), d),
        coefficients=random.normal(size=(n_problems, d)),
        intercepts=np.zeros(n_problems),
        calibration=Calibration("sigmoid", np.array([[-1.0, 0.0]])) if calibrated else None,
    )


def fitted_mixed() -> FittedPipeline:
    """Of ten numbers, then ten categories."""
    random = np.random.default_rng(20)
    columns = tuple(
        Column(f"x{i}", "category", tuple(LEVELS)) if i >= 10 else Column(f"x{i}", "number")
        for i in range(20)
    )
    X = random.normal(size=(500, 20))
    X[:, 10:] = random.integers(len(LEVELS), size=(500, 10))
    training = Training(
        Pipeline(solver=Newton(C=1.0)),
        X,
        np.where(X[:, 0] > 0, "yes", "no"),
        seed=0,
        columns=columns,
    )
    for _ in training:
        pass
    return training.result().fitted


def fitted_gaussian(d: int) -> FittedPipeline:
    random = np.random.default_rng(d)
    return FittedPipeline(
        classes=np.array(["no", "yes"]),
        scaling=Scaling(),
        features=FeatureMap(Identity(), d),
        kernel=GaussianKernel(gamma=1 / d),
        support_vectors=random.normal(size=(VECTORS, d)),
        coefficients=random.normal(size=(1, VECTORS)),
        intercepts=np.zeros(1),
    )
