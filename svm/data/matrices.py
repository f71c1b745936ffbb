"""The two forms of a data matrix: C-contiguous dense, and CSR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from svm.errors import InvalidData

if TYPE_CHECKING:  # SciPy is imported only for sparse matrices
    from scipy.sparse import csr_array
    from typing_extensions import TypeIs

Vector: TypeAlias = npt.NDArray[np.float64]
Array: TypeAlias = npt.NDArray[Any]
"""An array of any type, such as labels."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = Array
"""An array of float64 or float32."""
Indices: TypeAlias = npt.NDArray[np.int64]
Signs: TypeAlias = npt.NDArray[np.int8]
"""Numbers -1 and +1."""
Counts: TypeAlias = npt.NDArray[np.int8]
"""Small numbers, 0 … 127."""
Matrix: TypeAlias = "Floats | csr_array[Any, tuple[int, int]]"
"""(n_samples, n_features), float64 or float32."""

CACHED_VALUES = 1 << 16
"""Values that stay in the processor's cache between two passes."""

LARGEST = 1e100
"""Larger values are refused in training: their squares come near the limit of float64."""


def is_sparse(X: object) -> TypeIs[csr_array[Any, tuple[int, int]]]:
    """Whether X is a CSR matrix, without importing SciPy for a dense one."""
    return not isinstance(X, np.ndarray)


def dense(X: Matrix) -> Vector:
    """The rows with their zeros."""
    return X.toarray() if is_sparse(X) else X


def matrix_bytes(X: Matrix) -> int:
    """Memory of the values, and of the indices of a sparse matrix."""
    if is_sparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return X.nbytes


def cuts(sizes: int | Indices, n: int, limit: int) -> Indices:
    """Positions 0 … n that cut n rows of `sizes` values each into parts of about `limit` values.

    A part has at least one row, and at most `limit` values without its last row.
    """
    if isinstance(sizes, int):
        inner = np.arange(0, n, max(1, limit // max(1, sizes)))
    else:
        ends = np.cumsum(sizes)
        inner = np.flatnonzero(np.diff((ends - sizes) // limit, prepend=-1))
    return np.append(inner, n) if n else np.zeros(1, dtype=np.int64)


def as_matrix(X: Any, dtype: npt.DTypeLike) -> Matrix:
    """X as a C-contiguous array or a canonical CSR matrix of `dtype`; copies only if necessary.

    Raises InvalidData (`bad-shape`, `not-a-number`, `non-finite-value`).
    """
    matrix = in_layout(X, dtype)
    require_finite(matrix)
    return matrix


def in_layout(X: Any, dtype: npt.DTypeLike) -> Matrix:
    """X in the layout of `as_matrix`, but this allows numbers that are not finite."""
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InvalidData("not-a-number", "X has complex numbers; give real ones")
    if hasattr(X, "tocsr"):
        from scipy.sparse import csr_array

        with np.errstate(over="ignore"):  # reported by require_finite
            sparse = csr_array(X, dtype=dtype)
        if not sparse.has_canonical_format:  # sorted column indices, no duplicates
            sparse = sparse.copy()
            sparse.sum_duplicates()
        if max(*sparse.shape, sparse.nnz) <= np.iinfo(np.int32).max:  # half the memory traffic
            indices = sparse.indices.astype(np.int32, copy=False)
            indptr = sparse.indptr.astype(np.int32, copy=False)
            sparse = csr_array((sparse.data, indices, indptr), shape=sparse.shape)
        return sparse
    try:
        with np.errstate(over="ignore"):
            dense = np.require(X, dtype, ["C_CONTIGUOUS", "ALIGNED"])
    except (TypeError, ValueError) as error:
        raise InvalidData("not-a-number", "X must be a table of numbers") from error
    if np.ndim(X) != 2:
        raise InvalidData("bad-shape", f"X must have two dimensions, got {np.ndim(X)}")
    return dense


def read_only(X: Vector) -> Vector:
    """X as a read-only view: compiled code then exists for one type only."""
    view = X.view()
    view.flags.writeable = False
    return view


def as_sparse(X: Floats) -> csr_array[Any, tuple[int, int]]:
    """The non-zeros of a dense matrix."""
    from scipy.sparse import csr_array

    return csr_array(X)


def require_finite(X: Matrix) -> None:
    """Raises InvalidData (`non-finite-value`)."""
    values = X.data if is_sparse(X) else X
    # A sum of finite values may overflow, but an infinite or undefined value always shows in it:
    # the exact test runs only if the cheap one fails.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum())
    if suspicious and not np.isfinite(values).all():
        at = ", ".join(str(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InvalidData("non-finite-value", f"a value is not finite (first at {at})")


def require_moderate(X: Matrix) -> None:
    """Raises InvalidData (`non-finite-value`) if sums of squares may leave float64."""
    values = (X.data if is_sparse(X) else X).reshape(-1)
    largest = 0.0
    for start in range(0, len(values), CACHED_VALUES):
        some = values[start : start + CACHED_VALUES]  # in the cache for the second pass
        largest = max(largest, float(some.max()), -float(some.min()))
    if largest > LARGEST:
        raise InvalidData(
            "non-finite-value", f"a value of size {largest:g} is too large to train on; scale it"
        )
