"""How a worker of Dask gets the rows of a training: by the names and digests of their files."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetFiles
from service.jobs.spread.access import check_store
from service.settings import Settings
from service.storage.blobs import open_blobs
from svm.data.matrices import Indices, Matrix
from svm.data.stored_rows import StoredRows
from svm.encoding import AnyEncoder
from svm.model.pipeline import Pipeline
from svm.training.preparation import Prepared, transformed
from svm.transforms.features import FeatureMap
from svm.transforms.scaling import Scaling


@dataclass(frozen=True, slots=True)
class DatasetRecipe:
    """Rows of a stored dataset, as the solver sees them."""

    dataset: Dataset
    """What is needed to read its files: their digests and their form."""
    chosen: npt.NDArray[np.uint8] | None
    """A bit for each row, whether it is one of the training; None for all."""
    encoder: AnyEncoder
    scaling: Scaling
    features: FeatureMap
    pipeline: Pipeline

    @classmethod
    def of(
        cls, dataset: Dataset, rows: Indices, prepared: Prepared, pipeline: Pipeline
    ) -> DatasetRecipe:
        """`rows`: numbers in the dataset of those that the training was given."""
        if prepared.kept is not None:
            rows = rows[prepared.kept]
        chosen = None
        if len(rows) < dataset.n_samples:
            mask = np.zeros(dataset.n_samples, dtype=bool)
            mask[rows] = True
            chosen = np.packbits(mask)
        small = replace(dataset, tags={}, warnings=[], statistics=None, class_counts=None)
        steps = prepared.encoder, prepared.scaling, prepared.features
        return cls(small, chosen, *steps, pipeline)

    def open(self) -> OpenRows:
        """Raises NoAccess, and what the store raises."""
        settings = Settings()
        check_store(settings)
        X = DatasetFiles(open_blobs(settings)).rows_in_files(self.dataset)
        if self.chosen is not None:
            bits = np.unpackbits(self.chosen, count=self.dataset.n_samples)
            X = X[np.flatnonzero(bits)]
        return OpenRows(X, self.encoder, self.scaling, self.features, self.pipeline)


@dataclass(frozen=True, slots=True)
class OpenRows:
    """Rows in local files."""

    X: StoredRows
    encoder: AnyEncoder
    scaling: Scaling
    features: FeatureMap
    pipeline: Pipeline

    def read(self, rows: Indices) -> Matrix:
        """As the solver sees them."""
        steps = self.encoder, self.scaling, self.features
        return transformed(*steps, self.pipeline, self.X.read(rows))
