"""NPY: NumPy's own format. The header is compared with the file before anything is read."""

from __future__ import annotations

import io
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent
from service.rows.cell_faults import add_not_finite
from service.rows.columns import Columns
from service.rows.faults import Faults, refuse, too_many
from service.rows.spec import ParseSpec, RowLimits, Rows
from service.rows.table.layout import make_layout
from service.rows.table.writers import DenseWriter, Table, dense_table, labels_of

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
    path = Path(spec.data)
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
    labels = labels_of(layout, faults)
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
    return dense_table(layout, shape[0], labels)


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
