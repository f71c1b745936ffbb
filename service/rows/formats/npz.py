"""NPZ: an archive of the arrays `X` and, for the labels, `y`, as `numpy.savez` writes it; or of a
sparse matrix, as `scipy.sparse.save_npz` does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent, InvalidRequest
from service.rows.cell_faults import HINT, CellFault
from service.rows.faults import Faults, refuse, too_many
from service.rows.formats import npy
from service.rows.formats.shared.archive import Archive, BadArchive
from service.rows.spec import ParseSpec
from service.rows.table.labels import Labels, Target, wrong_count
from service.rows.table.layout import NO_TARGET, check_n_features
from service.rows.table.writers import SparseWriter, Table, fill, is_full

MEMBERS = {"X.npy", "y.npy"}
SPARSE = {"data.npy", "indices.npy", "indptr.npy", "shape.npy", "format.npy"}
"""Those of a compressed sparse matrix."""
ROWS_AT_ONCE = 4096
MOST_TRANSPOSED = 8_000_000
"""Values of a matrix by columns, which is turned in memory."""


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError for what is wrong with the archive or its arrays."""
    arrays = _extract(spec)
    if arrays.keys() == SPARSE:
        return _read_sparse(spec, arrays)
    if "X.npy" not in arrays:
        raise _unsafe("the archive has no member X.npy")
    labeled = "y.npy" in arrays
    if labeled and (spec.labels is not None or spec.target not in (None, NO_TARGET)):
        message = "the labels are in the archive, as y: leave out `labels` and `target`"
        raise InvalidRequest("invalid-parameter", message)
    target = NO_TARGET if spec.target is None else spec.target
    table = npy.read(replace(spec, data=str(arrays["X.npy"]), target=target))
    if not labeled:
        return table
    return replace(table, labels=_labels(arrays["y.npy"], table.n_samples))


def _read_sparse(spec: ParseSpec, arrays: dict[str, Path]) -> Table:
    """Write the CSR arrays, or of nearly full data `X.npy`."""
    from scipy.sparse import csc_array, csr_array

    if spec.target not in (None, NO_TARGET):
        message = "a sparse matrix has no label: send labels as a second file, `labels`"
        raise InvalidRequest("invalid-parameter", message)
    layout = arrays["format.npy"].read_bytes()[-3:].decode("ascii", "replace")
    shape = tuple(_array(arrays["shape.npy"]).astype(np.int64).tolist())
    if layout not in ("csr", "csc") or len(shape) != 2 or min(shape) < 1:
        what = f"a sparse matrix {layout[:20]!r} of shape {shape[:5]} is not read"
        raise _unsafe(what, hint="save it as CSR, with tocsr()")
    n_rows, n_features = shape
    if n_features > spec.limits.sparse_columns:
        raise too_many("columns", spec.limits.sparse_columns)
    if n_rows > spec.limits.rows:
        raise too_many("rows", spec.limits.rows)
    check_n_features(spec, n_features)
    data, indices, indptr = (
        _array(arrays[f"{name}.npy"]) for name in ("data", "indices", "indptr")
    )
    n_major, n_minor = shape if layout == "csr" else (n_features, n_rows)
    fits = indptr.shape == (n_major + 1,) and data.shape == indices.shape == (int(indptr[-1]),)
    fits = fits and indptr.dtype.kind == indices.dtype.kind == "i" and indptr[0] == 0
    if not fits or (np.diff(indptr) < 0).any():
        raise _unsafe("the arrays of the sparse matrix do not fit each other")
    if layout == "csc":
        if len(data) > MOST_TRANSPOSED:
            raise _unsafe("the sparse matrix is stored by columns", hint="save it with tocsr()")
        _check_indices(indices, n_minor)
        turned = csc_array((data, indices, indptr), shape).tocsr()
        data, indices, indptr = turned.data, turned.indices, turned.indptr
    faults = Faults()
    with SparseWriter(Path(spec.out), spec.limits) as writer:
        for start in range(0, n_rows, ROWS_AT_ONCE):
            ends = indptr[start : start + ROWS_AT_ONCE + 1].astype(np.int64)
            some = slice(ends[0], ends[-1])
            _check_indices(indices[some], n_features)
            block = csr_array(
                (data[some].astype(np.float64), indices[some].astype(np.int64), ends - ends[0]),
                (len(ends) - 1, n_features),
            )
            block.sum_duplicates()  # and sorts them
            for i in np.flatnonzero(~np.isfinite(block.data)).tolist():
                row = int(np.searchsorted(block.indptr, i, "right"))
                fault = CellFault("non-finite-value", "is not finite", f"{block.data[i]}", HINT)
                faults.add(*fault, row=start + row, column=int(block.indices[i]))
            lengths, columns = np.diff(block.indptr), block.indices
            writer.add(lengths.astype(np.int64), columns.astype(np.int64), block.data)
        faults.check()
        writer.finish()
    dense = is_full(spec, (n_rows, n_features), writer.n_stored)
    if dense:
        fill(Path(spec.out), n_features, spec.limits)
    return Table(n_samples=n_rows, n_features=n_features, sparse=not dense)


def _array(path: Path) -> npt.NDArray[Any]:
    """An array of one dimension, or none, on disk."""
    header = npy.header_of(path)
    if len(header.shape) > 1:
        raise _unsafe("an array of the sparse matrix has two dimensions")
    if header.shape == (0,):
        return np.zeros(0, header.dtype)
    return np.memmap(path, header.dtype, "r", header.size, header.shape)


def _check_indices(indices: npt.NDArray[Any], end: int) -> None:
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < end:
        raise _unsafe("an index of the sparse matrix is outside of its shape")


def _labels(path: Path, n_samples: int) -> Target:
    labels = Labels(Faults())
    for block in npy.read_labels(path, text_bytes=npy.MAX_TEXT_BYTES):
        if block.dtype.kind == "U":
            labels.add_json(npy.texts_of(block))
        else:
            labels.add_numbers(block)
    if labels.count != n_samples:
        raise wrong_count(labels.count, n_samples)
    return labels.finish()


def _extract(spec: ParseSpec) -> dict[str, Path]:
    """The members by name, inflated beside the archive. Raises InvalidContent and TooLarge."""
    try:
        archive = Archive(Path(spec.data), len(SPARSE) + 1)
        known = SPARSE if "indptr.npy" in archive.names else MEMBERS
        for name in archive.names:
            if name == "_is_array.npy" and known is SPARSE:  # of `csr_array`, not `csr_matrix`
                continue
            if name not in known:
                raise BadArchive(f"the archive has a member {name[:64]!r}", name[:64])
        names = [name for name in archive.names if name in known]
        return archive.unpack(names, Path(spec.out), spec.limits.inflated_bytes)
    except BadArchive as error:
        raise _unsafe(error.message, error.member) from None


_WRITE = "write it with savez(file, X=X, y=y) or savez_compressed, a sparse matrix with save_npz"


def _unsafe(message: str, value: str | None = None, hint: str = _WRITE) -> InvalidContent:
    return refuse("npz-unsafe", message, value=value, hint=hint)
