"""The columns of a table as tensors, one for each: [rows] or [rows, 1], named as the column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.errors import InvalidContent, InvalidRequest
from service.predictions.datatypes import NUMBERS
from service.predictions.inference.tensors import from_bytes, invalid, typed
from service.rows.columns import Columns
from service.rows.faults import Faults, too_many

BYTES = "BYTES"
"""The datatype of texts."""
DATATYPES = {"text": BYTES, "category": BYTES, "date": BYTES, "boolean": "BOOL"}
"""Of tensors by the kind of their column, but for numbers."""
LENGTH_BYTES = 4
"""Before each text in binary, little-endian."""


def rows_of(
    tensors: list[dict[str, Any]], binary: memoryview, columns: Columns, most_rows: int
) -> list[list[Any]]:
    """The cells of each row, as JSON would have them. `binary`: the bytes behind the JSON part.

    The tensor of a model of one column may have any name. Raises InvalidRequest, InvalidContent,
    TooLarge.
    """
    names = [str(tensor.get("name")) for tensor in tensors]
    if columns.n_features == 1 == len(names):
        names = [str(columns.column(0))]
    order = columns.order("the list of inputs", names)
    cells: list[list[Any]] = []
    for i, (name, tensor) in enumerate(zip(names, tensors, strict=True)):
        n_rows = _n_rows(tensor.get("shape"), i)
        if n_rows > most_rows:
            raise too_many("rows to predict", most_rows)
        if cells and n_rows != len(cells[0]):
            raise invalid(("inputs", i, "shape"), f"give {len(cells[0])} rows, as the first input")
        values, binary = _cells(tensor, i, n_rows, name, binary)
        cells.append(values)
    if binary:
        detail = "there are bytes behind the JSON part that no tensor claims"
        raise InvalidRequest("malformed-request", detail)
    return list(map(list, zip(*(cells[i] for i in order), strict=True)))


def _n_rows(shape: Any, i: int) -> int:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise invalid(("inputs", i, "shape"), "give a list of whole numbers")
    if len(shape) not in (1, 2) or shape[1:] not in ([], [1]):
        raise invalid(("inputs", i, "shape"), f"give [rows] or [rows, 1], not {shape}")
    if shape[0] == 0:
        raise InvalidContent("empty-data", "the tensor holds no row")
    n_rows: int = shape[0]
    return n_rows


def _cells(
    tensor: dict[str, Any], i: int, n_rows: int, name: str, binary: memoryview
) -> tuple[list[Any], memoryview]:
    """The cells of a column, and the bytes behind those of its tensor."""
    datatype = tensor.get("datatype")
    if datatype != BYTES and datatype not in NUMBERS:
        raise invalid(("inputs", i, "datatype"), f"give one of {', '.join([BYTES, *NUMBERS])}")
    size = (tensor.get("parameters") or {}).get("binary_data_size")
    if size is None and "data" not in tensor:
        size = len(binary)  # as for a tensor of numbers
    if size is None:
        flat = _flat(tensor.get("data"), i, n_rows)
        if datatype == BYTES:
            return flat, binary
        values = typed(flat, 0, datatype, Columns(1, [name]))
    else:
        if "data" in tensor:
            raise invalid(("inputs", i, "data"), "the data are behind the JSON part already")
        if type(size) is not int or not 0 <= size <= len(binary):
            path = ("inputs", i, "parameters", "binary_data_size")
            raise invalid(path, f"there are {len(binary)} bytes left behind the JSON part")
        part, binary = binary[:size], binary[size:]
        if datatype == BYTES:
            return list(_texts(part, n_rows, name)), binary
        values = from_bytes(part, datatype, (n_rows, 1))
    # NaN is a missing cell, as in a tensor of numbers.
    return [None if cell != cell else cell for cell in values.ravel().tolist()], binary


def _flat(data: Any, i: int, n_rows: int) -> list[Any]:
    if isinstance(data, list) and data and all(type(row) is list for row in data):
        data = [cell for row in data for cell in row]
    if not isinstance(data, list) or len(data) != n_rows:
        raise invalid(("inputs", i, "data"), f"give a list of {n_rows} cells, as `shape` says")
    return data


def _texts(part: memoryview, n_rows: int, name: str) -> Iterator[str]:
    """Texts behind their lengths."""
    faults = Faults()
    start = 0
    for row in range(1, n_rows + 1):
        length = int.from_bytes(part[start : start + LENGTH_BYTES], "little")
        start += LENGTH_BYTES
        if start + length > len(part):
            raise InvalidRequest("malformed-request", f"row {row} of {name!r} ends too early")
        try:
            yield str(part[start : start + length], "utf-8")
        except UnicodeDecodeError:
            hint = "send texts in UTF-8"
            faults.add("invalid-field", "is not UTF-8 text", hint=hint, row=row, column=name)
            yield ""
        start += length
    if start != len(part):
        detail = f"there are bytes behind the {n_rows} texts of {name!r}"
        raise InvalidRequest("malformed-request", detail)
    faults.check()
