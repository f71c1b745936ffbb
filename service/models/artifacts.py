"""Model files: a joblib dump of plain arrays, numbers and strings. Nothing else here unpickles.

No class of ours stands in a file, so no upgrade breaks one. Its bytes are compared with the
sha-256 of the model's row before they are looked at; and should somebody plant a file together
with its digest, the reader knows only the few operations that such a dump needs, and runs
nothing that the file names.
"""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from joblib.numpy_pickle import NumpyArrayWrapper, NumpyUnpickler
from numpy.typing import NDArray

from service.errors import Corrupt
from service.models.mapped import ForgettingWriter, blocks
from svm.model.pipeline import FittedPipeline
from svm.model.serialization import from_arrays, to_arrays

Content = Mapping[str, NDArray[Any] | str | int | float]

_PLAIN_KINDS = "biufU"  # booleans, integers, floats and fixed-width text: no objects, no records


def dump(fitted: FittedPipeline, path: Path) -> str:
    """Write the model's file and return `digest` of its content."""
    content = {name: _little_endian(value) for name, value in to_arrays(fitted).items()}
    arrays = (value for value in content.values() if isinstance(value, np.ndarray))
    with ForgettingWriter(path, arrays) as file:
        joblib.dump(content, file)
    return digest(content)


def digest(content: Content) -> str:
    """Canonical sha-256 (hex): equal models have equal digests, whenever and wherever trained.

    Each entry, in the order of the names, counts with its name, type, shape and C-order
    little-endian bytes; Python numbers count as float64 or int64, text as UTF-8.
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
        raise Corrupt("model-corrupt", "The model's file is not the one that was stored.")
    try:
        return from_arrays(_PlainUnpickler(content).load())
    except MemoryError:  # says nothing about the file: sizes are checked before they are allocated
        raise
    except Exception as error:  # whatever garbage makes the parsers raise
        raise Corrupt("model-corrupt", "The model's file cannot be read.") from error


def _little_endian(value: NDArray[Any] | str | int | float) -> NDArray[Any] | str | int | float:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _PLAIN_KINDS:
            raise TypeError(f"an array of {value.dtype} is no plain content")
        # joblib would write a Fortran array in its own order, and a subclass by name.
        return np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<")).reshape(value.shape)
    if type(value) not in (str, int, float, bool):
        raise TypeError(f"{type(value).__name__} is no plain content")
    return value


class _PlainArray(NumpyArrayWrapper):  # type: ignore[misc]  # joblib has no types
    """What joblib writes in place of an array: its type and shape; the bytes follow."""

    def read_array(self, unpickler: _PlainUnpickler, ensure_native_byte_order: bool) -> Any:
        plain = isinstance(self.dtype, np.dtype) and self.dtype.kind in _PLAIN_KINDS
        if not plain or type(self.shape) is not tuple:
            raise pickle.UnpicklingError("not a plain array")
        # Before anything is allocated: the array cannot be larger than what is left of the file.
        if min(self.shape, default=0) < 0 or (
            math.prod(self.shape) * self.dtype.itemsize > unpickler.bytes_left()
        ):
            raise pickle.UnpicklingError("an array larger than its file")
        return super().read_array(unpickler, ensure_native_byte_order)


class _NotCallable:
    """Stands for `numpy.ndarray`, which the dump names, but which a file must not call."""

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

# Everything that a dump of a flat dict of arrays, numbers and text consists of. What is left out
# includes every operation that allocates by a number in the file (BYTEARRAY8), or asks for
# persistent ids, extensions or buffers.
_OPERATIONS = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.MEMOIZE, pickle.BINGET),
    *(pickle.LONG_BINGET, pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS, pickle.EMPTY_TUPLE),
    *(pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.NONE, pickle.NEWTRUE),
    *(pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1),
    *(pickle.BINFLOAT, pickle.SHORT_BINUNICODE, pickle.BINUNICODE),
    *(pickle.STACK_GLOBAL, pickle.NEWOBJ, pickle.REDUCE, pickle.BUILD),
)


class _PlainUnpickler(NumpyUnpickler):  # type: ignore[misc]  # joblib has no types
    """Reads what `dump` writes, and raises on anything else."""

    def __init__(self, content: bytes) -> None:
        self._size = len(content)
        super().__init__("", io.BytesIO(content), ensure_native_byte_order=True)

    def bytes_left(self) -> int:
        return self._size - int(self.file_handle.tell())

    def find_class(self, module: str, name: str) -> object:
        try:
            return _GLOBALS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed") from None

    def load_build(self) -> None:
        if isinstance(self.stack[-2], np.dtype):
            # Its state repeats the byte order, which `dump` fixes, and could say anything else.
            self.stack.pop()
        else:
            super().load_build()

    dispatch = {code[0]: NumpyUnpickler.dispatch[code[0]] for code in _OPERATIONS}  # noqa: RUF012
    dispatch[pickle.BUILD[0]] = load_build
