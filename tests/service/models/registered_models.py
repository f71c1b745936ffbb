"""Small real models, stored as a worker stores them: by its own registry on the same files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from service.jobs.core.store import job_with_model
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.arrays import Arrays
from service.storage.blobs import open_blobs
from service.storage.database import Database
from service.storage.database.signals import POLL_S
from service.storage.database.tables import ModelOrigin, ModelVersion, model_versions
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling

RESULT: dict[str, Any] = {
    "metrics": {"train": {"accuracy": 1.0}},
    "certificate": {
        "primal": 0.5,
        "dual": 0.4,
        "gap": 0.1,
        "relative_gap": 0.2,
        "excess": 0.25,
        "status": "open",
        "kernel": None,
        "pairs": [],
        "summary": "Not converged: its cost may be up to 25 % above the lowest possible.",
    },
    "converged": True,
    "stop_reason": "gap-reached",
    "epochs": 7,
    "updates": 70,
}


@dataclass(frozen=True)
class Source:
    """The training data that a version names."""

    id: str = "ds_00000000000000000000000000000001"
    matrix_digest: str = "d1" * 32


def fitted_pipeline(
    classes: Sequence[str | int | float | bool] = ("no", "yes"),
    n_features: int = 3,
    seed: int = 0,
    scaled: bool = False,
) -> FittedPipeline:
    """A linear model with random weights."""
    random = np.random.default_rng(seed)
    n_pairs = len(splits_of("one-vs-one", len(classes)))
    scaling = Scaling()
    if scaled:
        scaling = Scaling(
            "standardize", random.normal(size=n_features), random.uniform(0.5, 2, n_features)
        )
    return FittedPipeline(
        classes=np.asarray(classes),
        scaling=scaling,
        features=FeatureMap(Identity(), n_features),
        coefficients=random.normal(size=(n_pairs, n_features)),
        intercepts=random.normal(size=n_pairs),
    )


class RegisteredModels:
    """Stores versions for the running service."""

    def __init__(self, settings: Settings) -> None:
        self.database = Database(settings.database_url)
        self.blobs = open_blobs(settings)
        self._copies = settings.data_dir / "s3" / "copies"
        self.registry = ModelRegistry(self.database, self.blobs, job_with_model)

    def add(
        self,
        name: str = "iris",
        fitted: FittedPipeline | None = None,
        columns: list[str] | None = None,
        set_alias: str | None = None,
        warm_start: Arrays | None = None,
        small_in_rows: bool = False,
    ) -> ModelVersion:
        """Store a model as the next version of `name`."""
        prepared = self.registry.files.prepare(
            fitted or fitted_pipeline(), columns, warm_start, small_in_rows=small_in_rows
        )
        with self.database.write() as connection:
            version = self.registry.register(
                connection,
                name,
                prepared,
                ModelOrigin(
                    job_id="job_00000000000000000000000000000001",
                    dataset_id=Source.id,
                    dataset_digest=Source.matrix_digest,
                    spec={"solver": {"name": "pegasos"}},
                    seed=42,
                    result=RESULT,
                    n_support_vectors=5,
                ),
                set_alias=set_alias,
            )
        time.sleep(POLL_S)  # then every service knows of it
        return self.registry.get_version(name, version)

    def move(self, name: str, version: int) -> None:
        """Move the alias `default`; every service knows of it then."""
        self.registry.set_alias(name, "default", version, lambda _: None)
        time.sleep(POLL_S)

    def set_metrics(self, version: ModelVersion, metrics: dict[str, Any]) -> None:
        """As if its job had measured these."""
        self.set_result(version, {**version.result, "metrics": metrics})

    def set_result(self, version: ModelVersion, result: dict[str, Any]) -> None:
        """As if its job had ended with this."""
        statement = model_versions.update().where(
            model_versions.c.artifact_key == version.artifact_key
        )
        with self.database.write() as connection:
            connection.execute(statement.values(result=result))

    def content(self, version: ModelVersion) -> bytes:
        """The content of the version's file."""
        return self.blobs.read(version.artifact_key, version.artifact_sha256)

    def has_file(self, version: ModelVersion) -> bool:
        return version.artifact_key in list(self.blobs.keys())

    def replace_file(self, version: ModelVersion, content: bytes | None) -> None:
        """Replace the content of the file, or delete it, with all cached copies."""
        if content is None:
            self.blobs.delete(version.artifact_key)
        else:
            self.blobs.write(version.artifact_key, content)
        for copy in self._copies.glob("*"):
            copy.unlink()


@pytest.fixture
def registered(settings: Settings) -> Iterator[RegisteredModels]:
    """Uses the same database and files as the service."""
    registered = RegisteredModels(settings)
    yield registered
    registered.database.close()
