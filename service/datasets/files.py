"""The arrays of datasets among the blobs; their rows of the table are not needed here."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from io import BufferedReader
from typing import Any

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import Dataset
from service.errors import Corrupt
from service.rows.table.arrays import BLOCK_BYTES, blocks_of
from service.rows.table.raw import category_positions, raw_values
from service.storage.blobs import BlobDamaged, Blobs
from svm.data.stored_rows import StoredArray, StoredRows


class DatasetFiles:
    """Files `datasets/<id>/<array>`."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def rows_in_files(self, dataset: Dataset) -> StoredRows:
        """X, of which only what is needed to read it is in memory. Raises Corrupt."""
        arrays = ["data", "indices"] if dataset.sparse else ["X"]
        if "codes" in dataset.arrays:
            data, indices = self._raw_in_file(dataset), []
        else:
            data, *indices = (self._array_in_file(dataset, name) for name in arrays)
        return StoredRows(
            data=data,
            indices=indices[0] if indices else None,
            indptr=self._array(dataset, "indptr") if dataset.sparse else None,
            n_rows=dataset.n_samples,
            n_features=dataset.n_features,
            digest=dataset.matrix_digest,
            scratch=self._blobs.scratch,
        )

    def _dense(self, dataset: Dataset) -> npt.NDArray[np.float64]:
        """(n_samples, n_features): numbers, or raw values."""
        arrays = [self._array(dataset, name) for name in ("X", "codes") if name in dataset.arrays]
        return raw_values(arrays, category_positions(dataset.table))

    def _raw_in_file(self, dataset: Dataset) -> StoredArray:
        """Raw values in a file without a name."""
        rows = max(1, BLOCK_BYTES // (8 * dataset.n_features))
        categories = category_positions(dataset.table)
        with ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile(dir=self._blobs.scratch))
            names = [name for name in ("X", "codes") if name in dataset.arrays]
            opened = [stack.enter_context(self._open(dataset, name)) for name in names]
            for parts in zip(*(blocks_of(one, rows) for one in opened), strict=True):
                file.write(raw_values(parts, categories).data)
            file.flush()
            return StoredArray(file, np.dtype("<f8"))

    def _array_if_any(self, dataset: Dataset, name: str) -> npt.NDArray[Any] | None:
        return self._array(dataset, name) if name in dataset.arrays else None

    def _array(self, dataset: Dataset, name: str) -> npt.NDArray[Any]:
        with self._open(dataset, name) as file:
            array: npt.NDArray[Any] = np.load(file, allow_pickle=False)
            return array

    def _array_in_file(self, dataset: Dataset, name: str) -> StoredArray:
        with self._open(dataset, name) as file:
            np.lib.format.read_magic(file)
            _, _, dtype = np.lib.format.read_array_header_1_0(file)
            return StoredArray(file, dtype, file.tell())

    def _open(self, dataset: Dataset, name: str) -> BufferedReader:
        try:
            return self._blobs.open(f"datasets/{dataset.id}/{name}", dataset.arrays[name])
        except BlobDamaged:
            detail = f"a file of {dataset.id} is not what was stored; upload the same data again"
            raise Corrupt("dataset-corrupt", detail) from None
