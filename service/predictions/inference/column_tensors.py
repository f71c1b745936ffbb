"""The columns of a table as tensors, one for each: [rows] or [rows, 1], named as the column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.common.strict_json import decode_json
from service.errors import MAX_VALUE_CHARACTERS, InvalidContent, InvalidRequest, pointer
from service.predictions.datatypes import NUMBERS
from service.predictions.inference.tensors import Tensor, from_bytes, invalid, typed
from service.rows.columns import PYTHON_MISSING, Columns
from service.rows.faults import Faults, too_many
from service.rows.formats.json_to_predict import explained_matrix, in_row
from service.rows.spec import CellsAgain
from svm.data.matrices import Vector
from svm.data.texts import TextList, with_texts

BYTES = "BYTES"
"""The datatype of texts."""
DATATYPES = {"text": BYTES, "category": BYTES, "date": BYTES, "boolean": "BOOL"}
"""Of tensors by the kind of their column, but for numbers."""
LENGTH_BYTES = 4
"""Before each text in binary, little-endian."""
JSON_TEXTS = "pd_json"
"""The content type of texts that are JSON, as PandasCodec of MLServer writes mixed columns."""

Cells: TypeAlias = list[Any] | NDArray[Any]
"""Those of a column as JSON has them, or numbers, of which NaN is a missing cell."""


def described(inputs: list[dict[str, Any]], columns: Columns, most_rows: int) -> tuple[Tensor, ...]:
    """What the JSON part says of the tensors. That of a model of one column may have any name.

    Raises InvalidContent, TooLarge.
    """
    tensors: list[Tensor] = []
    for i, (place, given) in enumerate(zip(_places(inputs, columns), inputs, strict=True)):
        n_rows = _n_rows(given.get("shape"), i)
        if n_rows > most_rows:
            raise too_many("rows to predict", most_rows)
        shape = tensors[0].shape if tensors else (n_rows, 1)
        if n_rows != shape[0]:
            message = f"give {shape[0]} rows, as the first input"
            raise invalid(("inputs", i, "shape"), message)
        datatype = given.get("datatype")
        if not isinstance(datatype, str) or (datatype != BYTES and datatype not in NUMBERS):
            raise invalid(("inputs", i, "datatype"), f"give one of {', '.join([BYTES, *NUMBERS])}")
        parameters = given.get("parameters") or {}
        is_json = datatype == BYTES and parameters.get("content_type") == JSON_TEXTS
        data = "data" in given, given.get("data")
        tensors.append(Tensor(place, datatype, shape, *data, is_json))
    return tuple(tensors)


def _places(inputs: list[dict[str, Any]], columns: Columns) -> list[int]:
    """The place of each tensor's column among the features."""
    if columns.n_features == 1 == len(inputs):
        return [0]
    names: list[str] = [given.get("name", "") for given in inputs]
    for i, name in enumerate(names):
        if type(name) is not str or not name:
            raise invalid(("inputs", i, "name"), "give the name of a column")
    if columns.names is None:
        message = f"give a list with one tensor, [rows, {columns.n_features}]"
        raise invalid(("inputs",), f"{message}: the columns of the model have no names")
    try:
        order = columns.order("the list of inputs", names)
    except InvalidContent as error:
        (fault,) = error.faults
        at = [i for i, name in enumerate(names) if name[:MAX_VALUE_CHARACTERS] == fault.column]
        place = pointer(("inputs", at[-1], "name") if at else ("inputs",))
        hint = "send a tensor for each column of the model, in any order, named as the column"
        fault = replace(fault, pointer=place, hint=hint)
        raise InvalidContent(error.code, error.detail, (fault,), extra=error.extra) from None
    return sorted(range(len(order)), key=order.__getitem__)


def _n_rows(shape: Any, i: int) -> int:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise invalid(("inputs", i, "shape"), "give a list of whole numbers")
    if len(shape) not in (1, 2) or shape[1:] not in ([], [1]):
        raise invalid(("inputs", i, "shape"), f"give [rows] or [rows, 1], not {shape}")
    if shape[0] == 0:
        raise InvalidContent("empty-data", "the tensor holds no row")
    n_rows: int = shape[0]
    return n_rows


def raw_rows(
    tensors: tuple[Tensor, ...], sizes: Sequence[Any], binary: memoryview, columns: Columns
) -> tuple[Vector, CellsAgain]:
    """The raw values of a table, (rows, n_features), and what gives the cells of each row as JSON
    has them. `sizes`: of the tensors in bytes, if given; `binary`: the bytes behind the JSON part.

    Raises InvalidRequest, and InvalidContent as for rows in JSON.
    """
    given: list[Cells] = [[]] * len(tensors)
    start = 0
    for i, (tensor, size) in enumerate(zip(tensors, sizes, strict=True)):
        assert tensor.column is not None
        given[tensor.column], start = _cells(tensor, i, size, binary, start, columns)
    if start < len(binary):
        detail = "there are bytes behind the JSON part that no tensor claims"
        raise InvalidRequest("malformed-request", detail)
    n_rows = tensors[0].shape[0]
    try:
        X = _at_once(given, columns)
    except (ValueError, TypeError, OverflowError):  # then row by row, to say what is wrong
        X, _ = explained_matrix([list(_rows(given))], columns, n_rows, None)
    return X, partial(_shown_rows, given)


def _at_once(given: list[Cells], columns: Columns) -> Vector:
    """Raises one of ValueError, TypeError, OverflowError if a cell may be wrong."""
    values: list[Cells] = []
    texts: list[str] = []
    for cells, kind, read in zip(given, columns.kinds, columns.value_readers, strict=True):
        if isinstance(cells, np.ndarray):
            if kind == "number" or (kind == "boolean" and cells.dtype == bool):
                values.append(cells)
                continue
            cells = _as_in_json(cells)
        raw = map(read, cells)
        values.append(list(_positions(raw, texts) if kind == "text" else raw))
    X = np.ascontiguousarray(np.array(values, np.float64).T)
    flat = X.ravel()
    # A value that is not finite shows in the sum of squares, which may overflow besides.
    if not math.isfinite(flat.dot(flat)) and (columns.refuses_missing or np.isinf(X).any()):
        raise ValueError("a number is missing or not finite")
    return with_texts(X, TextList(texts)) if columns.text_columns else X


def _positions(cells: Iterable[Any], texts: list[str]) -> Iterator[float]:
    """The raw values of a column of texts, which are put with those of the columns before."""
    for cell in cells:
        if type(cell) is str:
            texts.append(cell)
            yield len(texts) - 1
        else:
            yield cell


def _rows(given: list[Cells]) -> Iterator[list[Any]]:
    columns = (_as_in_json(cells) if isinstance(cells, np.ndarray) else cells for cells in given)
    return map(list, zip(*columns, strict=True))


def _shown_rows(given: list[Cells]) -> Iterator[list[Any]]:
    """As unknown cells are shown."""
    for row in _rows(given):
        yield [None if cell in PYTHON_MISSING else cell for cell in row]


def _as_in_json(numbers: NDArray[Any]) -> list[Any]:
    return [None if cell != cell else cell for cell in numbers.tolist()]


def _cells(
    tensor: Tensor, i: int, size: Any, binary: memoryview, start: int, columns: Columns
) -> tuple[Cells, int]:
    """The cells of a column, and where in `binary` those of the next one start."""
    datatype, n_rows, left = tensor.datatype, tensor.shape[0], len(binary) - start
    if size is None and not tensor.has_data and left:
        size = left  # as for a matrix
    if size is None:
        cells = _flat(tensor.data, i, n_rows)
        if datatype != BYTES:
            return _numbers(cells, tensor, columns), start
    else:
        if tensor.has_data:
            raise invalid(("inputs", i, "data"), "the data are behind the JSON part already")
        if type(size) is not int or not 0 <= size <= left:
            path = ("inputs", i, "parameters", "binary_data_size")
            raise invalid(path, f"there are {left} bytes left behind the JSON part")
        part, start = binary[start : start + size], start + size
        if datatype != BYTES:
            return from_bytes(part, datatype, tensor.shape).ravel(), start
        cells = _texts(bytes(part), n_rows, columns.column(tensor.column or 0))
    if tensor.is_json:
        cells = [_from_json(cell, row) for row, cell in enumerate(cells, 1)]
    return cells, start


def _flat(data: Any, i: int, n_rows: int) -> list[Any]:
    if isinstance(data, list) and data and all(type(row) is list for row in data):
        data = [cell for row in data for cell in row]
    if not isinstance(data, list) or len(data) != n_rows:
        raise invalid(("inputs", i, "data"), f"give a list of {n_rows} cells, as `shape` says")
    return data


def _numbers(cells: list[Any], tensor: Tensor, columns: Columns) -> Cells:
    """Numbers of the datatype, and null."""
    if None not in cells:
        return typed(cells, 0, tensor.datatype, columns, tensor.column)
    fill = False if tensor.datatype == "BOOL" else 0
    filled = [fill if cell is None else cell for cell in cells]
    numbers = typed(filled, 0, tensor.datatype, columns, tensor.column).tolist()
    return [None if cell is None else one for cell, one in zip(cells, numbers, strict=True)]


def _from_json(cell: Any, row: int) -> Any:
    with in_row(row):
        return decode_json(cell.encode()) if type(cell) is str else cell


def _texts(part: bytes, n_rows: int, column: str | int) -> list[str]:
    """Texts behind their lengths. Raises InvalidRequest, InvalidContent."""
    source: str | bytes = part.decode() if part.isascii() else part
    texts: list[Any] = []
    start = 0
    try:
        for _ in range(n_rows):
            first = start + LENGTH_BYTES
            start = first + part[start]
            texts.append(source[first:start])
        if source is part:
            texts = list(map(bytes.decode, texts))
    except (IndexError, UnicodeDecodeError):
        return list(_explained_texts(part, n_rows, column))
    # These are the texts if no length has more than one byte: all others of a length are zeros,
    # and a text has none.
    zeros = (LENGTH_BYTES - 1) * n_rows + texts.count("")
    if start == len(part) and part.count(0) == zeros and "\0" not in "".join(texts):
        return texts
    return list(_explained_texts(part, n_rows, column))


def _explained_texts(part: bytes, n_rows: int, column: str | int) -> Iterator[str]:
    """The same of any length, one by one."""
    faults = Faults()
    start = 0
    for row in range(1, n_rows + 1):
        length = int.from_bytes(part[start : start + LENGTH_BYTES], "little")
        start += LENGTH_BYTES
        if start + length > len(part):
            raise InvalidRequest("malformed-request", f"row {row} of {column!r} ends too early")
        try:
            yield part[start : start + length].decode()
        except UnicodeDecodeError:
            hint = "send texts in UTF-8"
            faults.add("invalid-field", "is not UTF-8 text", hint=hint, row=row, column=column)
            yield ""
        start += length
    if start != len(part):
        detail = f"there are bytes behind the {n_rows} texts of {column!r}"
        raise InvalidRequest("malformed-request", detail)
    faults.check()
