"""The models that are asked, in the service's store, and like ones for the peers."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import joblib
import numpy as np
from sklearn.svm import SVC, LinearSVC

from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from service.storage.database.tables import ModelOrigin
from svm.data.columns import Column, Columns
from svm.data.matrices import Vector
from svm.encoding.encoder import Encoding
from svm.encoding.fitting import fit_encoder
from svm.kernel.kernels import GaussianKernel
from svm.model.calibration import Calibration
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline
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
    "passengers": "7 of a table",
}
"""By the model's name: what a row has, and what scores it."""


_NAMES = ("Braund", "Cumings", "Heikkinen", "Futrelle", "Allen", "Moran", "McCarthy")
_TITLES = ("Mr. Owen Harris", "Mrs. John Bradley", "Miss. Laina", "Master. Gosta Leonard")
PASSENGERS: Columns = (
    Column("pclass", "category", ("1", "2", "3")),
    Column(
        "name",
        "category",
        tuple(sorted(f"{name}, {title}" for name in _NAMES for title in _TITLES)),
    ),
    Column("sex", "category", ("female", "male")),
    Column("age"),
    Column("sibsp"),
    Column("fare"),
    Column("embarked", "category", ("C", "Q", "S")),
)


def keep_models(folder: Path, peer: bool) -> dict[str, int]:
    """Put models where the service finds them, and like ones for the peers; their features."""
    settings = Settings(data_dir=folder / "var")
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
        "passengers": fitted_passengers(),
    }
    for name, fitted in kept.items():
        columns = [f"x{i}" for i in range(fitted.n_features)]
        if name == "passengers":
            columns = [column.name for column in PASSENGERS]
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
    return _fitted_table(X, columns)


def _fitted_table(X: Vector, columns: Columns) -> FittedPipeline:
    """A linear model of such rows."""
    encoder, scaling = fit_encoder(Encoding(), "standardize", X, columns)
    return FittedPipeline(
        classes=np.array(["no", "yes"]),
        scaling=scaling,
        features=FeatureMap(Identity(), encoder.n_outputs),
        coefficients=np.random.default_rng(7).normal(size=(1, encoder.n_outputs)),
        intercepts=np.zeros(1),
        encoder=encoder,
    )


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


def passengers(n: int, seed: int = 0) -> list[list[Any]]:
    """Rows like those of Titanic, in the order of PASSENGERS."""
    draw = Random(seed)
    return [
        [
            draw.choice(column.levels) if column.levels else draw.randint(0, 640) / 8
            for column in PASSENGERS
        ]
        for _ in range(n)
    ]


def fitted_passengers() -> FittedPipeline:
    """A linear model of such rows."""
    rows = [
        [column.levels.index(cell) if column.levels else cell for column, cell in pairs]
        for pairs in (zip(PASSENGERS, row, strict=True) for row in passengers(900))
    ]
    return _fitted_table(np.array(rows, float), PASSENGERS)
