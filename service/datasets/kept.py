"""Datasets as a worker reads them: small ones stay in memory, as many jobs are about the same."""

from __future__ import annotations

from functools import lru_cache

from service.datasets.dataset import Dataset, LoadedData
from service.datasets.store import DatasetStore
from service.storage.blobs import Blobs
from service.storage.database import Database

KEPT = 4
KEPT_BYTES = 4 * 1024 * 1024
"""Of each."""


class KeptDatasets(DatasetStore):
    """The values of a dataset never change; its name and tags may be older than in the table."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        super().__init__(database, blobs)
        self._kept = lru_cache(KEPT)(self._read)

    def get(self, dataset_id: str) -> Dataset:
        return self._kept(dataset_id)[0]

    def load(self, dataset: Dataset) -> LoadedData:
        return self._kept(dataset.id)[1] or super().load(dataset)

    def _read(self, dataset_id: str) -> tuple[Dataset, LoadedData | None]:
        dataset = super().get(dataset_id)
        # The arrays of a table are smaller than its matrix.
        matrix_bytes = 0 if dataset.sparse else 8 * dataset.n_samples * dataset.n_features
        is_small = max(dataset.size_bytes, matrix_bytes) <= KEPT_BYTES
        return dataset, super().load(dataset) if is_small else None
