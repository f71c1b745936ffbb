"""Model files: a joblib dump of plain arrays, numbers and strings. Nothing else here unpickles.

Files contain no classes of this project, so upgrades can still read them. The sha-256 of the bytes
is checked against the model's row first. If an attacker replaces a file together with its digest,
the reader still knows only the few operations that such a dump needs, and calls nothing that the
file names.

Large arrays are mapped from files, so that only the part in use is in memory.
"""

from __future__ import annotations

import hashlib
import io
import math
import mmap
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import Corrupt
from svm.model.pipeline import FittedPipeline
from svm.model.serialization import from_arrays, to_arrays

Content = Mapping[str, NDArray[Any] | str | int | float]

SMALL_BYTES = 1024 * 1024
"""Smaller arrays are read at once."""
BLOCK_VALUES = 1 << 17

_PLAIN_KINDS = "biufU"  # booleans, integers, floats and fixed-width text: no objects, no records


def dump(fitted: FittedPipeline, target: Path | io.BytesIO) -> str:
    """Write the model's file and return `digest` of its content."""
    content = {name: _little_endian(value) for name, value in to_arrays(fitted).items()}
    arrays = (value for value in content.values() if isinstance(value, np.ndarray))
    import joblib  # workers only: the API reads these files without it

    if isinstance(target, io.BytesIO):
        joblib.dump(content, target)
    else:
        with ReleasingWriter(target, arrays) as file:
            joblib.dump(content, file)
    return digest(content)


def digest(content: Content) -> str:
    """Canonical sha-256 (hex): equal models have equal digests on every machine.

    It covers the name, type, shape and C-order little-endian bytes of each entry, in the order of
    the names; Python numbers as float64 or int64, text as UTF-8.
    """
    canonical = hashlib.sha256()
    for name in sorted(content):
        value = _little_endian(content[name])
        if isinstance(value, str):
            text = value.encode()
            canonical.update(f"{name}\0text\0()\0{len(text)}\0".encode() + text)
            continue
        array = np.asarray(value)
        canonical.update(f"{name}\0{array.dtype.str}\0{array.shape}\0{array.nbytes}\0".encode())
        for block in blocks(array):
            canonical.update(block.view(np.uint8).data)
    return canonical.hexdigest()


def load(content: bytes, expected_sha256: str) -> FittedPipeline:
    """The model in a file's bytes. Raises Corrupt `model-corrupt` for any other bytes."""
    if hashlib.sha256(content).hexdigest() != expected_sha256:
        raise Corrupt("model-corrupt", "the model's file does not match its digest")
    try:
        return from_arrays(_PlainUnpickler(content).load())
    except MemoryError:  # not the file's fault: sizes are checked before memory is allocated
        raise
    except Exception as error:  # the parsers can raise anything
        raise Corrupt("model-corrupt", "the model's file cannot be read") from error


def _little_endian(value: NDArray[Any] | str | int | float) -> NDArray[Any] | str | int | float:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _PLAIN_KINDS:
            raise TypeError(f"an array of {value.dtype} is not plain content")
        # joblib would write a Fortran array in its own order, and a subclass by name.
        return np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<")).reshape(value.shape)
    if type(value) not in (str, int, float, bool):
        raise TypeError(f"{type(value).__name__} is not plain content")
    return value


class _PlainArray:
    """Type and shape of an array, as joblib writes them before its bytes, in C order."""

    dtype: object
    shape: object
    order: object

    def read(self, file: io.BytesIO) -> NDArray[Any]:
        if not isinstance(self.dtype, np.dtype) or self.dtype.kind not in _PLAIN_KINDS:
            raise pickle.UnpicklingError("not a plain array")
        if not isinstance(self.shape, tuple) or self.order != "C":
            raise pickle.UnpicklingError("not a plain array")
        padding = file.read(1)[0]
        file.seek(padding, io.SEEK_CUR)
        # Before memory is allocated: the array cannot be larger than the rest of the file.
        size = math.prod(self.shape) * self.dtype.itemsize
        if min(self.shape, default=0) < 0 or size > len(file.getbuffer()) - file.tell():
            raise pickle.UnpicklingError("an array larger than its file")
        values = np.frombuffer(bytearray(file.read(size)), self.dtype).reshape(self.shape)
        return values.astype(self.dtype.newbyteorder("="), copy=False)


class _NotCallable:
    """Replaces `numpy.ndarray`, which the dump names but must not call."""

    def __new__(cls, *_: object) -> _NotCallable:
        raise pickle.UnpicklingError("not a plain dump")


def _plain_dtype(code: str, *_: object) -> np.dtype[Any]:
    if not isinstance(code, str) or not re.fullmatch(rf"[{_PLAIN_KINDS}][1-9]\d{{0,4}}", code):
        raise pickle.UnpicklingError("not a plain array")
    return np.dtype(f"<{code}")


_GLOBALS: dict[tuple[str, str], object] = {
    ("joblib.numpy_pickle", "NumpyArrayWrapper"): _PlainArray,
    ("numpy", "ndarray"): _NotCallable,
    ("numpy", "dtype"): _plain_dtype,
}

# All operations in a dump of a flat dict of arrays, numbers and text. Excluded are operations that
# allocate by a number in the file (BYTEARRAY8), and persistent ids, extensions and buffers.
_OPERATIONS = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.MEMOIZE, pickle.BINGET),
    *(pickle.LONG_BINGET, pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS, pickle.EMPTY_TUPLE),
    *(pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.NONE, pickle.NEWTRUE),
    *(pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1),
    *(pickle.BINFLOAT, pickle.SHORT_BINUNICODE, pickle.BINUNICODE),
    *(pickle.STACK_GLOBAL, pickle.NEWOBJ, pickle.REDUCE, pickle.BUILD),
)


_Unpickler: Any = pickle._Unpickler  # the one in Python, whose operations can be chosen


class _PlainUnpickler(_Unpickler):  # type: ignore[misc]  # it has no types
    """Reads files of `dump`, and raises on anything else."""

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)
        super().__init__(self._file)

    def find_class(self, module: str, name: str) -> object:
        try:
            return _GLOBALS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed") from None

    def load_build(self) -> None:
        if isinstance(self.stack[-2], np.dtype):
            # `dump` fixes the byte order; the state in the file could change it.
            self.stack.pop()
            return
        super().load_build()
        if isinstance(self.stack[-1], _PlainArray):
            self.stack[-1] = self.stack[-1].read(self._file)

    dispatch = {code[0]: _Unpickler.dispatch[code[0]] for code in _OPERATIONS}  # noqa: RUF012
    dispatch[pickle.BUILD[0]] = load_build


def map_array(
    path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int = 0
) -> NDArray[Any]:
    """The array at `offset` of the file, in C order, read-only."""
    if dtype.itemsize * math.prod(shape) <= SMALL_BYTES:
        small = np.fromfile(path, dtype, math.prod(shape), offset=offset).reshape(shape)
        small.flags.writeable = False
        return small
    return np.memmap(path, dtype, "r", offset, shape).view(np.ndarray)


def blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The values of a contiguous array in C order, in blocks."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, BLOCK_VALUES):
        yield flat[start : start + BLOCK_VALUES]
        release(array)


def release(array: NDArray[Any]) -> None:
    """Release the memory of a mapped array; its values stay in the file."""
    owner: Any = array
    while owner is not None:
        if isinstance(owner, mmap.mmap):
            owner.madvise(mmap.MADV_DONTNEED)
        owner = getattr(owner, "base", None)


class ReleasingWriter(io.BufferedWriter):
    """A new file that releases the memory of mapped arrays as it writes them."""

    def __init__(self, path: Path, arrays: Iterable[NDArray[Any]]) -> None:
        super().__init__(io.FileIO(path, "wb"))
        self._arrays = list(arrays)

    def write(self, content: Any) -> int:
        written = super().write(content)
        for array in self._arrays:
            release(array)
        return written
