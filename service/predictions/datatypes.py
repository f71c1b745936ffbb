"""Types of tensors of the Open Inference Protocol, and values as their bytes."""

from __future__ import annotations

import struct
from typing import Any

from numpy.typing import NDArray

NUMBERS: dict[str, str] = {
    "FP64": "<f8",
    "FP32": "<f4",
    "FP16": "<f2",
    "INT64": "<i8",
    "INT32": "<i4",
    "INT16": "<i2",
    "INT8": "<i1",
    "UINT64": "<u8",
    "UINT32": "<u4",
    "UINT16": "<u2",
    "UINT8": "<u1",
    "BOOL": "?",
}
"""Types of tensors that are read, and NumPy's names for them."""


def datatype_of(values: NDArray[Any]) -> str:
    """The protocol's name for the type of labels or values."""
    kinds = {"U": "BYTES", "S": "BYTES", "b": "BOOL", "i": "INT64", "u": "INT64"}
    return kinds.get(values.dtype.kind, "FP64")


def to_bytes(values: NDArray[Any]) -> bytes:
    """A tensor as the protocol has it: texts each behind its length in four bytes."""
    datatype = datatype_of(values)
    if datatype != "BYTES":
        return values.astype(NUMBERS[datatype]).tobytes()
    parts: list[bytes] = []
    for text in values.ravel().tolist():
        encoded = text.encode()
        parts += (struct.pack("<I", len(encoded)), encoded)
    return b"".join(parts)
