"""NumPy's own formats: NPY, and NPZ, an archive of the arrays `X` and, for the labels, `y`, as
`numpy.savez` writes it, or of a sparse matrix, as `scipy.sparse.save_npz` does.

The header of an array is compared with the file before anything is read.
"""

from __future__ import annotations

import io
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent, InvalidRequest
from service.rows.cell_faults import HINT, CellFault, add_not_finite
from service.rows.columns import Columns
from service.rows.faults import Faults, refuse, too_many
from service.rows.formats.archive import Archive, BadArchive
from service.rows.spec import NPY, ParseSpec, RowLimits, Rows, SentFile
from service.rows.table.joining import expect_rows
from service.rows.table.labels import Labels, Target
from service.rows.table.layout import NO_TARGET, check_n_features, make_layout
from service.rows.table.writers import (
    DenseWriter,
    SparseWriter,
    Table,
    dense_table,
    fill_if_full,
    labels_of,
)

MAGIC = b"\x93NUMPY"
HEADER_BYTES = 10_000
"""Longer headers are refused, by NumPy too; one of two dimensions has 128."""
MOST_DIMENSIONS = 32
BLOCK_BYTES = 1024 * 1024
_BROKEN_HEADER = (
    *(ValueError, TypeError, EOFError),
    *(SyntaxError, tokenize.TokenError, RecursionError, MemoryError),  # it is a Python literal
)
WRITE_AGAIN = "was it cut off, or written as text? write the file again"
MAX_TEXT_BYTES = 4 * 4096
"""Of one label."""
MIN_BLOCK_ROWS = 512
"""In Fortran order fewer rows would read every page of the file many times."""
MEMBERS = {"X.npy", "y.npy"}
SPARSE = {"data.npy", "indices.npy", "indptr.npy", "shape.npy", "format.npy"}
"""Those of a compressed sparse matrix."""
ROWS_AT_ONCE = 4096
MOST_TRANSPOSED = 8_000_000
"""Values of a matrix by columns, which is turned in memory."""
_WRITE = "write it with savez(file, X=X, y=y) or savez_compressed, a sparse matrix with save_npz"


@dataclass(frozen=True, slots=True)
class Header:
    """What an NPY file says of itself."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[np.generic]
    size: int
    """Bytes before the first element."""


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError with every number that is not finite."""
    path = Path(spec.file.path)
    header = header_of(path)
    shape = header.shape
    if len(shape) == 1 and spec.labels is not None:
        shape = (shape[0], 1)
    if len(shape) != 2:
        raise _not_two_dimensions(shape, "reshape it to (rows, columns)")
    if 0 in shape:
        raise InvalidContent("empty-data", f"the array has shape {shape}: no row or no column")
    layout = make_layout(spec, shape[1], None)
    faults = Faults()
    labels = labels_of(spec, layout, faults)
    positions = [i for i in range(layout.n_cells) if i != layout.target]
    with DenseWriter(Path(spec.out), layout.n_features, spec.limits) as writer:
        writer.check(shape[0])
        for block in blocks(path, header, shape):
            X: npt.NDArray[Any] = block
            if layout.target is not None and labels is not None:
                labels.add_numbers(block[:, layout.target])
                X = np.delete(block, layout.target, axis=1)
            X = X.astype(np.float64)
            add_not_finite(X, positions.__getitem__, writer.n_samples + 1, faults)
            writer.add(X)
        faults.check()
        writer.finish()
    return dense_table(layout, shape[0], None if labels is None else labels.finish())


def read_labels(path: Path, *, text_bytes: int = 0) -> Iterator[npt.NDArray[np.generic]]:
    """Blocks of a vector of labels, numbers or texts up to `text_bytes`. Raises InvalidContent."""
    header = header_of(path, text_bytes)
    if header.shape[1:] not in ((), (1,)) or not header.shape:
        message = f"the labels have shape {header.shape}"
        raise refuse("npy-unsupported", message, hint="reshape them to (rows,)")
    shape = (header.shape[0], 1)
    for block in blocks(path, header, shape):
        yield block[:, 0]


def read_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """Rows to predict. Raises TooLarge, and InvalidContent with every number that is not finite."""
    head = bytes(body[: _header_bytes(body)])  # a body in a buffer of its own has no hash
    header = _header_of_body(head, len(body))
    shape = header.shape
    if len(shape) != 2:
        raise _not_two_dimensions(shape, "one row is an array of shape (1, features)")
    if shape[0] > limits.rows:
        raise too_many("rows to predict", limits.rows)
    if shape[0] == 0:
        raise InvalidContent("empty-data", "the array holds no row")
    columns.require_numbers()
    columns.check_width(shape[1])
    values = np.frombuffer(body, header.dtype, offset=header.size)
    X = values.reshape(shape, order="F" if header.fortran_order else "C")
    return Rows(columns.checked(np.require(X, np.float64, ["C", "A"])))


def _header_bytes(body: bytes) -> int:
    """The end of the header, at most that of the longest that is read."""
    start = 10 if body[6:7] == b"\x01" else 12
    return start + min(int.from_bytes(body[8:start], "little"), HEADER_BYTES)


@lru_cache(maxsize=256)
def _header_of_body(head: bytes, size: int) -> Header:
    return read_header(io.BytesIO(head), size)


def _not_two_dimensions(shape: tuple[int, ...], hint: str) -> InvalidContent:
    message = f"the array has shape {shape}, not two dimensions"
    return refuse("npy-unsupported", message, hint=hint)


def texts_of(array: npt.NDArray[Any]) -> list[str]:
    """(n,) texts. Raises InvalidContent `npy-corrupt` for what is not a character: NumPy would end
    the conversion with a SystemError, or make texts that cannot be written."""
    number = np.dtype(np.uint32).newbyteorder(array.dtype.byteorder)
    characters = np.ascontiguousarray(array).view(number)
    if ((characters > 0x10FFFF) | ((characters >= 0xD800) & (characters < 0xE000))).any():
        raise refuse("npy-corrupt", "a text holds what is not a character")
    texts: list[str] = array.tolist()
    return texts


def header_of(path: Path, text_bytes: int = 0) -> Header:
    """Raises InvalidContent `npy-corrupt` or `npy-unsupported`."""
    with path.open("rb") as file:
        return read_header(file, path.stat().st_size, text_bytes=text_bytes)


def read_header(file: BinaryIO, file_bytes: int, *, text_bytes: int = 0) -> Header:
    """The header at the beginning of a file of `file_bytes`, compared with that number.

    The elements are numbers or texts of at most `text_bytes`.

    Raises InvalidContent `npy-corrupt` or `npy-unsupported`.
    """
    try:
        version = np.lib.format.read_magic(file)
        _check_length(file, version)
        with warnings.catch_warnings(action="ignore"):  # a header of Python 2
            shape, fortran_order, dtype = _read_header(file, version)
    except _BROKEN_HEADER:
        message = "the header of the NPY file cannot be read"
        raise refuse("npy-corrupt", message, hint=WRITE_AGAIN) from None
    start = file.tell()
    known = dtype.kind in "biuf" and dtype.itemsize <= 8
    if not known and not (dtype.kind == "U" and 0 < dtype.itemsize <= text_bytes):
        raise refuse(
            "npy-unsupported",
            f"elements of type {dtype.str!r} are not read",
            hint="use numbers of at most 64 bits or booleans",
        )
    sound = len(shape) <= MOST_DIMENSIONS and all(type(n) is int and 0 <= n < 2**63 for n in shape)
    expected = start + dtype.itemsize * prod(shape) if sound else -1  # does not overflow
    if not 0 <= expected < 2**63:
        raise refuse("npy-corrupt", "the header says an impossible shape", hint=WRITE_AGAIN)
    if expected != file_bytes:
        message = f"by its header the file has {expected:,} bytes; it has {file_bytes:,}"
        raise refuse("npy-corrupt", message, hint=WRITE_AGAIN)
    return Header(shape, fortran_order, dtype, start)


def _check_length(file: BinaryIO, version: tuple[int, int]) -> None:
    """Raises ValueError for a header so long that NumPy would refuse it after reading it."""
    start = file.tell()
    length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    file.seek(start)
    if length > HEADER_BYTES:
        raise ValueError(length)


def _read_header(
    file: BinaryIO, version: tuple[int, int]
) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version in ((2, 0), (3, 0)):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(version)


def blocks(path: Path, header: Header, shape: tuple[int, int]) -> Iterator[npt.NDArray[np.generic]]:
    """The rows, some MiB at a time."""
    rows = max(1, BLOCK_BYTES // (max(8, header.dtype.itemsize) * shape[1]))
    if header.fortran_order:
        rows = max(rows, MIN_BLOCK_ROWS)
    for start in range(0, shape[0], rows):
        # Mapped again for each block, so that what was read does not stay in memory.
        order: Literal["F", "C"] = "F" if header.fortran_order else "C"
        array = np.memmap(path, header.dtype, "r", header.size, shape, order)
        yield np.array(array[start : start + rows])


def read_npz(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError for what is wrong with the archive or its arrays."""
    arrays = _extract(spec)
    if arrays.keys() == SPARSE:
        return _read_sparse(spec, arrays)
    if "X.npy" not in arrays:
        raise _unsafe("the archive has no member X.npy")
    labeled = "y.npy" in arrays
    if labeled and (spec.labels is not None or spec.asked.target not in (None, NO_TARGET)):
        message = "the labels are in the archive, as y: leave out `labels` and `target`"
        raise InvalidRequest("invalid-parameter", message)
    spec = expect_rows(spec, sparse=False)
    target = NO_TARGET if spec.asked.target is None else spec.asked.target
    table = read(replace(spec, file=SentFile(str(arrays["X.npy"]), NPY)).asking(target=target))
    if not labeled:
        return table
    return replace(table, labels=_labels(spec, arrays["y.npy"], table.n_samples))


def _read_sparse(spec: ParseSpec, arrays: dict[str, Path]) -> Table:
    """Write the CSR arrays, or of nearly full data `X.npy`."""
    from scipy.sparse import csc_array, csr_array

    spec = expect_rows(spec, sparse=True)
    if spec.asked.target not in (None, NO_TARGET):
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
    dense = fill_if_full(spec, shape, writer.n_stored)
    return Table(n_samples=n_rows, n_features=n_features, sparse=not dense)


def _array(path: Path) -> npt.NDArray[Any]:
    """An array of one dimension, or none, on disk."""
    header = header_of(path)
    if len(header.shape) > 1:
        raise _unsafe("an array of the sparse matrix has two dimensions")
    if header.shape == (0,):
        return np.zeros(0, header.dtype)
    return np.memmap(path, header.dtype, "r", header.size, header.shape)


def _check_indices(indices: npt.NDArray[Any], end: int) -> None:
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < end:
        raise _unsafe("an index of the sparse matrix is outside of its shape")


def _labels(spec: ParseSpec, path: Path, n_samples: int) -> Target:
    labels = Labels(Faults(), kind=spec.label_kind)
    for block in read_labels(path, text_bytes=MAX_TEXT_BYTES):
        if block.dtype.kind == "U":
            labels.add_json(texts_of(block))
        else:
            labels.add_numbers(block)
    return labels.finish(n_samples)


def _extract(spec: ParseSpec) -> dict[str, Path]:
    """The members by name, inflated beside the archive. Raises InvalidContent and TooLarge."""
    try:
        archive = Archive(Path(spec.file.path), len(SPARSE) + 1)
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


def _unsafe(message: str, value: str | None = None, hint: str = _WRITE) -> InvalidContent:
    return refuse("npz-unsafe", message, value=value, hint=hint)
