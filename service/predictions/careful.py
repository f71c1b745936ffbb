"""Reading a prediction body the slow way, which says what is wrong and where."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import MAX_FAULTS, Fault, InvalidContent, TooLarge
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import DEFAULT_OUTPUTS, OUTPUTS
from service.web.bodies import decode_json
from service.web.validation import MAX_VALUE_CHARACTERS, pointer

_CHOICES = " or ".join(f"'{output}'" for output in OUTPUTS)


@dataclass(frozen=True, slots=True)
class Instances:
    """Rows to predict, (n_samples, n_features), finite; and which of `OUTPUTS` to answer."""

    X: NDArray[np.float64]
    outputs: tuple[str, ...]


def decode_carefully(body: bytes, model: LoadedModel, row_limit: int) -> Instances:
    """As `codecs.decode`: the same rows, or an error with one fault for each bad row."""
    instances, outputs = _members(decode_json(body))
    if len(instances) > row_limit:
        raise too_many_rows(row_limit)
    if not instances:
        raise InvalidContent("empty-data", "`instances` holds no row")
    _check_length(instances, model)
    rows = [_read_row(number, row, model) for number, row in enumerate(instances, start=1)]
    faults = tuple(row for row in rows if isinstance(row, Fault))
    if not faults:
        return Instances(np.array(rows, dtype=np.float64), outputs)
    first = faults[0]
    extra = {}
    if first.code == "feature-mismatch" and first.row is not None and model.columns is not None:
        got = [name[:MAX_VALUE_CHARACTERS] for name in list(instances[first.row - 1])[:MAX_FAULTS]]
        extra = {"expected": model.columns, "got": got, "first_difference": first.column}
    others = f"; {len(faults)} rows are bad" if len(faults) > 1 else ""
    raise InvalidContent(first.code, first.message + others, faults, extra=extra)


def too_many_rows(limit: int) -> TooLarge:
    detail = f"more than {limit} rows; send them in several requests"
    return TooLarge("too-many-rows", detail, extra={"limit": limit})


def _members(document: Any) -> tuple[list[Any], tuple[str, ...]]:
    """`instances` and `outputs` of a body. Raises InvalidContent `invalid-field`."""
    if type(document) is not dict:
        raise _invalid_fields([("", f"give an object with `instances`, not {_shown(document)}")])
    wrong = [
        (pointer((name[:MAX_VALUE_CHARACTERS],)), "unknown; known are `instances` and `outputs`")
        for name in document
        if name not in ("instances", "outputs")
    ]
    instances = document.get("instances")
    if "instances" not in document:
        wrong.append(("/instances", "missing; give the rows to predict"))
    elif type(instances) is not list:
        wrong.append(("/instances", f"give a list of rows, not {_shown(instances)}"))
    outputs = document.get("outputs", DEFAULT_OUTPUTS)
    if not isinstance(outputs, (list, tuple)):
        wrong.append(("/outputs", f"give a list of {_CHOICES}, not {_shown(outputs)}"))
    else:
        wrong += [
            (f"/outputs/{i}", f"give {_CHOICES}, not {_shown(output)}")
            for i, output in enumerate(outputs)
            if output not in OUTPUTS
        ]
    if wrong:
        raise _invalid_fields(wrong)
    return instances or [], tuple(outputs)


def _check_length(instances: list[Any], model: LoadedModel) -> None:
    """All rows of one wrong length: one thing is wrong, not every row."""
    lengths = {len(row) if type(row) is list else None for row in instances}
    got = lengths.pop()
    if lengths or got is None or got == model.n_features:
        return
    column = _column(model, got) if got < model.n_features else model.n_features
    message = f"each row has {got} numbers, the model takes {model.n_features}"
    raise InvalidContent(
        "feature-mismatch",
        message,
        (Fault(code="feature-mismatch", message=message, row=1, column=column),),
        extra={"expected": model.n_features, "got": got, "first_difference": column},
    )


def _read_row(number: int, row: Any, model: LoadedModel) -> list[Any] | Fault:
    """The row's numbers in feature order, or the first thing that is wrong with it."""
    cells = row
    if type(row) is dict:
        cells = _in_feature_order(number, row, model)
        if isinstance(cells, Fault):
            return cells
    elif type(row) is not list:
        message = f"row {number} is {_shown(row)}; give a list of numbers, or an object"
        return Fault(
            code="invalid-field",
            message=message,
            row=number,
            value=_shown(row),
            pointer=f"/instances/{number - 1}",
            hint="a single row is [[1.4, 0.2]], not [1.4, 0.2]",
        )
    elif len(row) != model.n_features:
        message = f"row {number} has {len(row)} numbers, the model takes {model.n_features}"
        return Fault(code="ragged-row", message=message, row=number)
    if not _all_numbers(cells):
        position = next(i for i, cell in enumerate(cells) if not _all_numbers([cell]))
        return _cell_fault(number, _column(model, position), cells[position])
    return cells  # type: ignore[no-any-return]  # looked at above


def _in_feature_order(number: int, row: dict[str, Any], model: LoadedModel) -> list[Any] | Fault:
    columns = model.columns
    if columns is None:
        message = (
            f"row {number} has names, but the model was trained on features without names; "
            f"give lists of {model.n_features} numbers"
        )
        return Fault(code="feature-mismatch", message=message, row=number)
    if len(row) == len(columns):
        try:
            return [row[name] for name in columns]
        except KeyError:
            pass
    known = set(columns)
    missing = [name for name in columns if name not in row]
    unknown = [name for name in row if name not in known]
    parts = [
        f"{what} {', '.join(map(_shown, names[:5]))}{' …' if len(names) > 5 else ''}"
        for what, names in (("lacks", missing), ("has the unknown", unknown))
        if names
    ]
    return Fault(
        code="feature-mismatch",
        message=f"row {number} {' and '.join(parts)}",
        row=number,
        column=(missing + unknown)[0][:MAX_VALUE_CHARACTERS],
    )


def _all_numbers(cells: list[Any]) -> bool:
    if not set(map(type, cells)) <= {float, int}:
        return False
    try:
        return all(map(math.isfinite, cells))
    except OverflowError:  # an integer beyond float64
        return False


def _cell_fault(row: int, column: str | int, cell: Any) -> Fault:
    code, what, hint = "not-a-number", "is not a number", None
    if type(cell) in (float, int):
        code, what = "non-finite-value", "is too large to be finite"
    elif cell is None:
        code, what, hint = "missing-value", "is missing", "nothing is imputed"
    elif type(cell) is str:
        hint = "send numbers, without quotes"
    value = _shown(cell)
    name = column if type(column) is int else _shown(column)
    message = f"row {row}, column {name}: {value} {what}"
    return Fault(code=code, message=message, row=row, column=column, value=value, hint=hint)


def _column(model: LoadedModel, position: int) -> str | int:
    return position if model.columns is None else model.columns[position]


def _shown(value: Any) -> str:
    """A value as JSON, shortened; of a list or an object only what it is."""
    if type(value) in (list, dict):
        return f"{'a list' if type(value) is list else 'an object'} of {len(value)}"
    if type(value) is float and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    text = value if type(value) is str else json.dumps(value)
    if len(text) > MAX_VALUE_CHARACTERS - 2:
        text = text[: MAX_VALUE_CHARACTERS - 3] + "…"
    return f"'{text}'" if type(value) is str else text


def _invalid_fields(wrong: list[tuple[str, str]]) -> InvalidContent:
    faults = tuple(
        Fault(code="invalid-field", message=message, pointer=place) for place, message in wrong
    )
    detail = f"{faults[0].pointer or 'the body'}: {faults[0].message}"
    return InvalidContent("invalid-field", detail, faults)
