"""The directory at the end of a Parquet file, looked through before a library believes it.

It is a structure of Thrift's compact protocol, whose lists begin with their length. Libraries make
room for what a list announces before they read it: seven bytes cost them a gigabyte.
Source: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from pathlib import Path

from service.errors import InvalidContent
from service.rows.faults import refuse, too_many

MAGIC = b"PAR1"
ENCRYPTED = b"PARE"
MAX_BYTES = 16 * 1024 * 1024
"""20,000 columns take 4 MiB, with what pandas writes about each 8."""
STRUCTS_PER_COLUMN = 6
"""In one row group a column has its type, its piece, and two or three counts of pages."""
MIN_STRUCTS = 10_000
"""Allowed in any case: a few columns in many row groups."""
MAX_DEPTH = 16

_SCHEMA = 2
"""The field of the list of columns, and of what contains them."""
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_TAIL_BYTES = 8


def check_footer(path: Path, max_columns: int) -> None:
    """Raises InvalidContent `columnar-unsupported`, and TooLarge for too many columns.

    Nothing is said of what the directory means, only that its parts are there and not too many.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
        if tail[4:] == ENCRYPTED:
            raise unsupported("the file is encrypted", "write it without encryption")
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or length > size - _TAIL_BYTES - len(MAGIC):
            raise unsupported("the file has no directory at its end", "is it whole?")
        if length > MAX_BYTES:
            message = f"the directory of the file has {length:,} bytes; {MAX_BYTES:,} are read"
            raise unsupported(message, "write larger row groups, or fewer columns")
        file.seek(size - _TAIL_BYTES - length)
        footer = file.read(length)
    try:
        _Footer(footer, max_columns).check()
    except IndexError:
        raise _broken() from None


def unsupported(message: str, hint: str) -> InvalidContent:
    return refuse("columnar-unsupported", message, hint=hint)


class _Footer:
    def __init__(self, data: bytes, max_columns: int) -> None:
        self._data = data
        self._at = 0
        self._structs = 0
        self._max_columns = max_columns
        self._max_structs = max(MIN_STRUCTS, STRUCTS_PER_COLUMN * max_columns)

    def check(self) -> None:
        """Raises IndexError where it ends too early."""
        self._struct(0)

    def _struct(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _broken()
        data, field = self._data, 0
        while head := data[self._at]:
            self._at += 1
            if head >> 4:
                field += head >> 4
            else:
                field = self._varint() >> 1
            kind = head & 15
            if kind in (_LIST, _SET):
                self._list(depth, is_schema=depth == 0 and field == _SCHEMA)
            elif kind not in (_TRUE, _FALSE):  # which stand in the head
                self._value(kind, depth)
        self._at += 1

    def _value(self, kind: int, depth: int) -> None:
        if kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _BINARY:
            self._skip(self._varint())
        elif kind == _STRUCT:
            self._struct(depth + 1)
        elif kind in (_LIST, _SET):
            self._list(depth + 1)
        elif kind in (_TRUE, _FALSE, _BYTE):
            self._skip(1)
        elif kind == _DOUBLE:
            self._skip(8)
        else:  # maps stand in no directory
            raise _broken()

    def _list(self, depth: int, *, is_schema: bool = False) -> None:
        head = self._data[self._at]
        self._at += 1
        kind, size = head & 15, head >> 4
        if size == 15:
            size = self._varint()
        # Besides the columns: what contains them, and that of the labels.
        if is_schema and size > self._max_columns + 2:
            raise too_many("columns", self._max_columns)
        if size > len(self._data) - self._at:
            raise _broken()
        if kind == _STRUCT:
            self._structs += size
            if self._structs > self._max_structs:
                message = "the file has too many columns, or is cut into too many row groups"
                raise unsupported(message, "write larger row groups")
        if depth > MAX_DEPTH:
            raise _broken()
        for _ in range(size):
            self._value(kind, depth)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise _broken()

    def _skip(self, count: int) -> None:
        if count > len(self._data) - self._at:
            raise _broken()
        self._at += count


def _broken() -> InvalidContent:
    return unsupported("the directory of the file is damaged", "write the file again")
