"""Reading a prediction body the slow way, which says what is wrong and where."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.errors import (
    MAX_FAULTS,
    Fault,
    InvalidContent,
    InvalidRequest,
    TooLarge,
    pointer_to_member,
)
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import DEFAULT_OUTPUTS, OUTPUTS
from service.rows.formats.json_rows import NUMBERS
from service.rows.number_text import number_hint
from service.rows.text import decode_text
from service.web.bodies.strict_json import decode_json
from service.web.bodies.validation import MAX_VALUE_CHARACTERS
from svm.data.matrices import Matrix

WIDTH_HINT = "send one number for each feature, without the label"
_CHOICES = " or ".join(f"'{output}'" for output in OUTPUTS)


class Instances(NamedTuple):
    """Rows to predict, (n_samples, n_features), finite; and which of `OUTPUTS` to answer."""

    X: Matrix
    outputs: tuple[str, ...]


def decode_carefully(body: bytes, model: LoadedModel, row_limit: int) -> Instances:
    """The rows of `{"instances": [[…], …] or [{…}, …], "outputs": […]}`, or an error with one
    fault for each bad row."""
    instances, outputs = _members(decode_json(body))
    if not instances:
        raise InvalidContent("empty-data", "`instances` holds no row")
    return Instances(_read_rows(instances, model, row_limit), outputs)


def decode_lines(body: bytes, model: LoadedModel, row_limit: int) -> Instances:
    """The same of NDJSON: a list or an object a line; blank lines are skipped."""
    rows: list[Any] = []
    for line in decode_text(body).split("\n"):
        if not line.strip():
            continue
        if len(rows) == row_limit:
            raise too_many_rows(row_limit)
        try:
            rows.append(decode_json(line.encode()))
        except InvalidRequest as error:
            row = len(rows) + 1
            message = f"row {row}: {error.detail}"
            fault = Fault(code=error.code, message=message, row=row)
            raise InvalidRequest(error.code, message, (fault,)) from None
    if not rows:
        raise InvalidContent("empty-data", "the body holds no row")
    return Instances(_read_rows(rows, model, row_limit, place=None), DEFAULT_OUTPUTS)


def _read_rows(
    instances: list[Any], model: LoadedModel, row_limit: int, place: str | None = "/instances"
) -> NDArray[np.float64]:
    """`place`: a JSON pointer to the list, if the body is one document."""
    if len(instances) > row_limit:
        raise too_many_rows(row_limit)
    _check_length(instances, model)
    rows = [_read_row(number, row, model, place) for number, row in enumerate(instances, start=1)]
    faults = tuple(row for row in rows if isinstance(row, Fault))
    if not faults:
        return np.array(rows, dtype=np.float64)
    first = faults[0]
    extra = {}
    if first.code == "feature-mismatch" and first.row is not None and model.columns is not None:
        extra = _difference(list(instances[first.row - 1]), model.columns, first.column)
    others = f"; {len(faults)} rows are bad" if len(faults) > 1 else ""
    raise InvalidContent(first.code, first.message + others, faults, extra=extra)


def check_names(names: list[str], model: LoadedModel) -> None:
    """Raises InvalidContent `feature-mismatch` unless they are the model's, in any order."""
    assert model.columns is not None
    if sorted(names) == sorted(model.columns):
        return
    fault = _names_fault("the header", names, model.columns)
    extra = _difference(names, model.columns, fault.column)
    raise InvalidContent("feature-mismatch", fault.message, (fault,), extra=extra)


def _difference(names: list[str], expected: list[str], first: str | int | None) -> dict[str, Any]:
    got = [name[:MAX_VALUE_CHARACTERS] for name in names[:MAX_FAULTS]]
    return {"expected": expected, "got": got, "first_difference": first}


def too_many_rows(limit: int) -> TooLarge:
    detail = f"more than {limit} rows; send them in several requests"
    return TooLarge("too-many-rows", detail, extra={"limit": limit})


def _members(document: Any) -> tuple[list[Any], tuple[str, ...]]:
    """`instances` and `outputs` of a body. Raises InvalidContent `invalid-field`."""
    if type(document) is not dict:
        raise _invalid_fields([("", f"give an object with `instances`, not {_shown(document)}")])
    wrong = [
        (pointer_to_member((), name), "unknown; known are `instances` and `outputs`")
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
    return instances or [], tuple(dict.fromkeys(outputs))


def _check_length(instances: list[Any], model: LoadedModel) -> None:
    """All rows of one wrong length: one thing is wrong, not every row."""
    lengths = {len(row) if type(row) is list else None for row in instances}
    got = lengths.pop()
    if lengths or got is None or got == model.n_features:
        return
    raise wrong_width(got, model)


def wrong_width(got: int, model: LoadedModel) -> InvalidContent:
    """The error for rows that all have `got` numbers."""
    column = model.column(got) if got < model.n_features else model.n_features
    message = f"each row has {got} numbers, the model takes {model.n_features}"
    return InvalidContent(
        "feature-mismatch",
        message,
        (Fault(code="feature-mismatch", message=message, row=1, column=column, hint=WIDTH_HINT),),
        extra={"expected": model.n_features, "got": got, "first_difference": column},
    )


def _read_row(number: int, row: Any, model: LoadedModel, place: str | None) -> list[Any] | Fault:
    """The row's numbers in feature order, or the first thing that is wrong with it."""
    cells = row
    if type(row) is dict:
        cells = _in_feature_order(number, row, model)
        if isinstance(cells, Fault):
            return cells
    elif type(row) is not list:
        message = f"row {number} is {_shown(row)}; give a list of numbers, or an object"
        single = "[[1.4, 0.2]], not [1.4, 0.2]" if place else "[1.4, 0.2], alone on its line"
        return Fault(
            code="invalid-field",
            message=message,
            row=number,
            value=_shown(row),
            pointer=None if place is None else f"{place}/{number - 1}",
            hint=f"a single row is {single}",
        )
    elif len(row) != model.n_features:
        message = f"row {number} has {len(row)} numbers, the model takes {model.n_features}"
        return Fault(code="ragged-row", message=message, row=number, hint=WIDTH_HINT)
    if not _all_numbers(cells):
        position = next(i for i, cell in enumerate(cells) if not _all_numbers([cell]))
        return _cell_fault(number, model.column(position), cells[position])
    return cells  # type: ignore[no-any-return]  # looked at above


def _in_feature_order(number: int, row: dict[str, Any], model: LoadedModel) -> list[Any] | Fault:
    columns = model.columns
    if columns is None:
        message = (
            f"row {number} has names, but the model was trained on features without names; "
            f"give lists of {model.n_features} numbers"
        )
        hint = "leave the names out; text/x-libsvm names those features that are not 0, from 1"
        return Fault(code="feature-mismatch", message=message, row=number, hint=hint)
    if len(row) == len(columns):
        try:
            return [row[name] for name in columns]
        except KeyError:
            pass
    return replace(_names_fault(f"row {number}", list(row), columns), row=number)


def _names_fault(what: str, names: list[str], expected: list[str]) -> Fault:
    known, given = set(expected), set(names)
    missing = [name for name in expected if name not in given]
    unknown = [name for name in names if name not in known]
    twice = [name for name, count in Counter(names).items() if count > 1]
    parts = [
        f"{how} {', '.join(map(_shown, some[:5]))}{' …' if len(some) > 5 else ''}"
        for how, some in (("lacks", missing), ("has the unknown", unknown), ("repeats", twice))
        if some
    ]
    return Fault(
        code="feature-mismatch",
        message=f"{what} {' and '.join(parts)}",
        column=(missing + unknown + twice)[0][:MAX_VALUE_CHARACTERS],
        hint="send each of the model's features once, in any order",
    )


def _all_numbers(cells: list[Any]) -> bool:
    if not set(map(type, cells)) <= NUMBERS:
        return False
    try:
        return all(map(math.isfinite, cells))
    except OverflowError:  # an integer beyond float64
        return False


def _cell_fault(row: int, column: str | int, cell: Any) -> Fault:
    code, what, hint = "not-a-number", "is not a number", None
    if type(cell) in NUMBERS:
        code, what = "non-finite-value", "is too large to be finite"
        hint = "numbers reach up to 1.8e308"
    elif cell is None:
        code, what, hint = "missing-value", "is missing", "nothing is imputed"
    else:
        hint = number_hint(cell) if type(cell) is str else None
        hint = hint or "send numbers or booleans, without quotes"
    shown = _shown(cell)
    name = column if type(column) is int else _shown(column)
    message = f"row {row}, column {name}: {shown} {what}"
    value = cell[:MAX_VALUE_CHARACTERS] if type(cell) is str else shown
    return Fault(code=code, message=message, row=row, column=column, value=value, hint=hint)


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
        Fault(code="invalid-field", message=message, pointer=place, hint=hint or None)
        for place, what in wrong
        for message, _, hint in [what.partition("; ")]
    )
    place, what = wrong[0]
    return InvalidContent("invalid-field", f"{place or 'the body'}: {what}", faults)
