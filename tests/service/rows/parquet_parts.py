"""Parquet files put together by hand, so that they can lie.

Values are those of Thrift's compact protocol: an int, a text, a list, or a struct, which is a dict
by field number. Only what the tests need is written.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

DOUBLE, BYTE_ARRAY = 5, 6
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
GZIP = 2
DATA_PAGE, DICTIONARY_PAGE = 0, 2


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


class Long(int):
    """An integer that is declared with 64 bits."""


@dataclass(frozen=True)
class Announced:
    """A list of structs that says how long it is, and is something else."""

    size: int
    content: bytes = b""


def thrift(value: Any) -> bytes:
    """One value, without its type."""
    if isinstance(value, Announced):
        return b"\xfc" + varint(value.size) + value.content
    if isinstance(value, int):
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if isinstance(value, (str, bytes)):
        content = value.encode() if isinstance(value, str) else value
        return varint(len(content)) + content
    if isinstance(value, list):
        return bytes([0xF0 | _kind(value[0])]) + varint(len(value)) + b"".join(map(thrift, value))
    fields, last = b"", 0
    for number, member in value.items():
        assert 0 < number - last < 16
        fields += bytes([number - last << 4 | _kind(member)]) + thrift(member)
        last = number
    return fields + b"\0"


def _kind(value: Any) -> int:
    if isinstance(value, int):
        return 6 if isinstance(value, Long) else 5
    if isinstance(value, (str, bytes)):
        return 8
    return 12 if isinstance(value, dict) else 9


def page(
    kind: int, content: bytes, *, count: int, encoding: int, says_bytes: int | None = None
) -> bytes:
    """A page compressed by gzip, of `count` values; `says_bytes` is how long it claims to be."""
    deflater = zlib.compressobj(9, wbits=31)
    packed = deflater.compress(content) + deflater.flush()
    header: dict[int, Any] = {1: kind, 2: says_bytes or len(content), 3: len(packed)}
    if kind == DATA_PAGE:
        header[5] = {1: count, 2: encoding, 3: RLE, 4: RLE}
    else:
        header[7] = {1: count, 2: encoding}
    return thrift(header) + packed


@dataclass(frozen=True)
class Chunk:
    """A column in the only row group."""

    type: int
    pages: list[bytes]
    dictionary: bytes = b""
    n_values: int = 0


def file(columns: dict[str, Chunk], n_rows: int) -> bytes:
    """A file of required columns."""
    content, chunks = b"PAR1", []
    for name, column in columns.items():
        start = len(content)
        content += column.dictionary + b"".join(column.pages)
        meta: dict[int, Any] = {
            1: column.type,
            2: [PLAIN, RLE_DICTIONARY],
            3: [name],
            4: GZIP,
            5: Long(column.n_values or n_rows),
            6: Long(len(content) - start),
            7: Long(len(content) - start),
            9: Long(start + len(column.dictionary)),
        }
        if column.dictionary:
            meta[11] = Long(start)
        chunks.append({2: Long(start), 3: meta})
    elements: list[Any] = [{4: "schema", 5: len(columns)}]
    for name, column in columns.items():
        element: dict[int, Any] = {1: column.type, 3: 0, 4: name}
        elements.append(element | ({6: 0} if column.type == BYTE_ARRAY else {}))
    group = {1: chunks, 2: Long(len(content)), 3: Long(n_rows)}
    return with_footer(content, thrift({1: 1, 2: elements, 3: Long(n_rows), 4: [group]}))


def with_footer(content: bytes, footer: bytes) -> bytes:
    return content + footer + struct.pack("<I", len(footer)) + b"PAR1"


def texts(*values: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def always_first(count: int) -> bytes:
    """Codes of a dictionary: `count` times the first value."""
    return b"\1" + varint(count << 1) + b"\0"


def numbers(count: int, value: float = 1.0) -> Chunk:
    """The same number many times."""
    return Chunk(
        DOUBLE,
        [page(DATA_PAGE, always_first(count), count=count, encoding=RLE_DICTIONARY)],
        page(DICTIONARY_PAGE, struct.pack("<d", value), count=1, encoding=PLAIN),
    )


def labels(count: int, text: bytes = b"x") -> Chunk:
    """The same text many times."""
    return Chunk(
        BYTE_ARRAY,
        [page(DATA_PAGE, always_first(count), count=count, encoding=RLE_DICTIONARY)],
        page(DICTIONARY_PAGE, texts(text), count=1, encoding=PLAIN),
    )
