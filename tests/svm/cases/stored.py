"""Rows in files, as the service stores them, made from rows in memory."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from svm.data.matrices import Matrix, is_sparse
from svm.data.stored_rows import StoredArray, StoredRows


def stored(X: Matrix, folder: Path) -> StoredRows:
    """The same matrix in files of `folder`, after some other bytes."""
    arrays = [X.data, X.indices] if is_sparse(X) else [X]
    files = [_file(folder / f"{k}.bin", array) for k, array in enumerate(arrays)]
    return StoredRows(
        data=files[0],
        indices=files[1] if is_sparse(X) else None,
        indptr=X.indptr if is_sparse(X) else None,
        n_rows=X.shape[0],
        n_features=X.shape[1],
        digest=sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest(),
        scratch=folder,
    )


def _file(path: Path, array: Any) -> StoredArray:
    path.write_bytes(b"header" + np.ascontiguousarray(array).tobytes())
    with path.open("rb") as file:
        return StoredArray(file, array.dtype, offset=6)
