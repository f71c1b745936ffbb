"""Tensors of the Open Inference Protocol: JSON, or bytes behind the JSON part of the body."""

from __future__ import annotations

import json
import re
import secrets
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from service.common.strict_json import decode_json
from service.errors import InvalidContent, InvalidRequest, pointer
from service.predictions.datatypes import NUMBERS
from service.rows.cell_faults import CellFault, fault_of_value
from service.rows.columns import Columns
from service.rows.faults import Faults, invalid_field
from service.rows.json_reading import numbers as json_numbers
from service.rows.json_reading.stream import Span, beginning, members, raw_elements

MARK = secrets.token_hex(16)
"""Replaces the list that was cut out of a document; no document is known to hold it."""

HEAD_BYTES = 64 * 1024
"""A longer document is not decoded as a whole, and has no more than this beside the numbers."""
BLOCK_BYTES = 32 * 1024
_KINDS: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in NUMBERS.items()}
_PATH = ("inputs", 0, "data")
_MARK = b'"%b"' % MARK.encode()
_DATA = re.compile(rb'"data"[ \t\r\n]*:[ \t\r\n]*(\[)[ \t\r\n]*(\[?)')
_END_OF_LISTS = re.compile(rb"\][ \t\r\n]*\]")


class Tensor(NamedTuple):
    """What the JSON part says of a tensor, checked against a model."""

    column: int | None
    """Its place among the features; None for a matrix of all of them."""
    datatype: str
    shape: tuple[int, int]
    has_data: bool
    data: Any
    """MARK, if the numbers were cut out."""
    is_json: bool = False
    """Its texts are JSON, as PandasCodec of MLServer writes those of mixed columns."""


def cut_data(
    text: bytes, n_features: int, most_rows: int
) -> tuple[bytes, NDArray[np.float64]] | None:
    """A document with its first member `data` replaced by MARK, and that member's numbers: (1, n)
    of a list of numbers, (n_samples, n_features) of a list of lists. None if these are not of this
    width, or the document is longer than HEAD_BYTES without them; TooLarge is raised for more than
    `most_rows`."""
    match = _DATA.search(text)
    if match is None:
        return None
    start, nested = match.start(1), bool(match[2])
    if nested:
        last = _END_OF_LISTS.search(text, start)
        end = 0 if last is None else last.end()
    else:
        end = text.find(b"]", start) + 1
    if end == 0 or _head_bytes(text, start, end) > HEAD_BYTES:
        return None
    large = end - start > json_numbers.PIECE_BYTES  # which is read in parts, without a copy
    data = memoryview(text)[start:end] if large else text[start:end]
    if nested:
        X = json_numbers.read_lists(data, n_features, most_rows)
    else:
        values = json_numbers.read_list(data, most_rows * n_features)
        X = None if values is None else values[None]
    return None if X is None else (_head(text, start, end), X)


def _head_bytes(text: bytes, start: int, end: int) -> int:
    return len(text) - (end - start) + len(_MARK)


def _head(text: bytes, start: int, end: int) -> bytes:
    return b"".join((text[:start], _MARK, text[end:]))


def cut_span(text: bytes) -> tuple[bytes, Span]:
    """A large document with the member `data` of its one tensor replaced by MARK, and where that
    member is. Raises InvalidRequest, and InvalidContent for a large document without it."""
    inputs = members(text).get("inputs")
    if inputs is None:
        raise invalid(("inputs",), "give a list with one tensor")
    start = text.find(b"[", inputs.start, inputs.end) + 1
    tensor = Span(start, max(start, text.rfind(b"]", start, inputs.end)))
    if not beginning(text, inputs).startswith(b"[") or not beginning(text, tensor).startswith(b"{"):
        raise invalid(("inputs",), "give a list with one tensor, an object")
    try:
        data = members(text, tensor).get("data")
    except InvalidRequest as error:
        message = f"give a list with one tensor; {error.detail}"
        raise invalid(("inputs",), message) from None
    if data is None:
        raise invalid(_PATH, "give a list of numbers")
    if _head_bytes(text, data.start, data.end) > HEAD_BYTES:
        message = f"beside the `data` of its tensor the document has more than {HEAD_BYTES:,} bytes"
        raise invalid((), message)
    return _head(text, data.start, data.end), data


def from_span(
    text: bytes, span: Span, datatype: str, shape: tuple[int, int], columns: Columns
) -> NDArray[Any]:
    """As `from_json`, of the list at `span`, which is not decoded as a whole."""
    if not beginning(text, span).startswith(b"["):
        raise invalid(_PATH, "give a list of numbers")
    expected, parts, done = prod(shape), [], 0
    for some in map(decode_json, raw_elements(text, span, BLOCK_BYTES)):
        flat = _flat(some, shape, len(some))
        if done + len(flat) > expected:
            raise invalid(_PATH, f"`shape` says {expected} numbers, there are more")
        parts.append(typed(flat, done, datatype, columns))
        done += len(flat)
    if done != expected:
        raise invalid(_PATH, f"`shape` says {expected} numbers, there are {done}")
    return np.concatenate(parts).reshape(shape)


def invalid(path: tuple[str | int, ...], message: str) -> InvalidContent:
    """The error for a member of the JSON part."""
    return invalid_field(pointer(path), message)


def check_shape(shape: Any, columns: Columns) -> tuple[int, int]:
    """Raises InvalidContent."""
    path = ("inputs", 0, "shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise invalid(path, "give a list of whole numbers")
    if len(shape) == columns.n_features == 1:
        shape = [*shape, 1]
    if len(shape) != 2:
        raise invalid(path, f"give [rows, {columns.n_features}], not {len(shape)} dimensions")
    columns.check_width(shape[1])
    if shape[0] == 0:
        raise InvalidContent("empty-data", "the tensor holds no row")
    return shape[0], shape[1]


def from_bytes(data: memoryview, datatype: str, shape: tuple[int, int]) -> NDArray[Any]:
    """The tensor in its bytes behind the JSON part, in C order. Raises InvalidRequest."""
    kind = _KINDS[datatype]
    expected = shape[0] * shape[1] * kind.itemsize
    if len(data) != expected:
        detail = f"{datatype} of shape {list(shape)} is {expected} bytes, the body has {len(data)}"
        raise InvalidRequest("malformed-request", detail)
    if datatype == "BOOL" and (np.frombuffer(data, np.uint8) > 1).any():
        raise InvalidRequest("malformed-request", "a byte of BOOL is 0 or 1")
    values = np.frombuffer(data, kind)
    if not values.flags.aligned:  # NumPy would copy number by number
        values = np.frombuffer(bytes(data), kind)
    return values.reshape(shape)


def from_json(data: Any, datatype: str, shape: tuple[int, int], columns: Columns) -> NDArray[Any]:
    """The tensor in a flat or nested JSON list of numbers. Raises InvalidContent."""
    if not isinstance(data, list):
        raise invalid(_PATH, "give a list of numbers")
    flat = _flat(data, shape, shape[0])
    if len(flat) != prod(shape):
        raise invalid(_PATH, f"`shape` says {prod(shape)} numbers, there are {len(flat)}")
    return typed(flat, 0, datatype, columns).reshape(shape)


def _flat(data: list[Any], shape: tuple[int, int], n_rows: int) -> list[Any]:
    """The cells of a list that is flat, or nested with this number of rows."""
    if not data or not isinstance(data[0], list):
        return data
    if [type(row) is list and len(row) for row in data] != [shape[1]] * n_rows:
        raise invalid(_PATH, f"give {shape[0]} lists of {shape[1]} numbers, as `shape` says")
    return [value for row in data for value in row]


def typed(
    flat: list[Any], first: int, datatype: str, columns: Columns, column: int | None = None
) -> NDArray[Any]:
    """Cells of a tensor, a matrix or this column, from number `first` on. Raises InvalidContent for
    one of another type."""
    allowed = {bool} if datatype == "BOOL" else {int, float}
    if not set(map(type, flat)) <= allowed:
        at = next(i for i, value in enumerate(flat) if type(value) not in allowed)
        _refuse_cell(flat[at], first + at, columns, datatype, column)
    kind = _KINDS[datatype]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        for at, value in enumerate(flat):
            if not limits.min <= value <= limits.max or value != int(value):
                _refuse_cell(value, first + at, columns, datatype, column)
        return np.array([int(value) for value in flat], dtype=kind)
    try:
        with np.errstate(over="ignore"):  # what is infinite now is found later
            return np.array(flat, dtype=np.float64).astype(kind)
    except OverflowError:  # an integer beyond float64
        largest = max(flat, key=abs)
        _refuse_cell(largest, first + flat.index(largest), columns, datatype, column)


def from_numbers(
    numbers: NDArray[np.float64], datatype: str, shape: tuple[int, int]
) -> NDArray[Any]:
    """The same of numbers that are read already, (1, n) if the list was flat. Raises InvalidContent
    if `from_json` has to look at each: for whole numbers, and a shape that does not fit."""
    flat = len(numbers) == 1 and numbers.size == shape[0] * shape[1]
    if not datatype.startswith("FP") or not (flat or numbers.shape == shape):
        raise invalid(_PATH, "look at each number")
    if datatype != "FP64":
        with np.errstate(over="ignore"):
            numbers = numbers.astype(NUMBERS[datatype])
    return numbers.reshape(shape)


def _refuse_cell(
    value: Any, at: int, columns: Columns, datatype: str, column: int | None
) -> NoReturn:
    row, position = divmod(at, columns.n_features) if column is None else (at, column)
    fault = None
    if value is None or (type(value) is int and datatype.startswith("FP")):
        fault = fault_of_value(value)
    if fault is None:
        text = value if isinstance(value, str) else json.dumps(value)
        hint = "send numbers without quotes, in the range of their datatype"
        fault = CellFault("not-a-number", f"is not of type {datatype}", text, hint)
    faults = Faults()
    faults.add(*fault, row=row + 1, column=columns.column(position))
    faults.check()
    raise AssertionError  # there is a fault
