"""Which rows of a dataset: conditions for cells, and an order, as addresses have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from service.errors import InvalidRequest
from service.rows.cell_texts.dates import days

MOST_CONDITIONS = 10
_SHOWN = 40
Test: TypeAlias = Literal["is", "contains", "at-least", "at-most", "missing"]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a cell must be."""

    column: str
    test: Test
    value: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """Rows by a column, missing cells last; equal ones by their number."""

    column: str
    descending: bool = False


_WHERE = TypeAdapter(list[tuple[str, Test, str]])


def conditions_of(text: str) -> list[Condition]:
    """From JSON: [[column, test, value], …]. Raises InvalidRequest."""
    try:
        return [Condition(*one) for one in _WHERE.validate_json(text)]
    except ValidationError:
        message = "`where` is a list in JSON of conditions: [[column, test, value], …]"
        raise invalid(message) from None


def text_test(condition: Condition) -> Callable[[str], bool]:
    """Whether a text meets a condition. Raises InvalidRequest."""
    wanted = condition.value
    if condition.test == "is":
        return lambda text: text == wanted
    if condition.test == "contains":
        folded = wanted.casefold()
        return lambda text: folded in text.casefold()
    raise invalid(f"{short(condition.column)} has texts: say is, contains or missing")


def bounds(condition: Condition, kind: str) -> tuple[float, float]:
    """The smallest and the largest value that meets a condition. Raises InvalidRequest."""
    if condition.test == "contains":
        raise invalid(
            f"{short(condition.column)} has no texts: say is, at-least, at-most or missing"
        )
    low, high = _VALUES[kind](condition.value.strip(), condition.column)
    if condition.test == "at-least":
        high = math.inf
    elif condition.test == "at-most":
        low = -math.inf
    return low, high


def _number(text: str, name: str) -> tuple[float, float]:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise invalid(f"{short(name)} has numbers, and {short(text)} is not a finite number")
    return value, value


def _boolean(text: str, name: str) -> tuple[float, float]:
    value = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}.get(text.casefold())
    if value is None:
        raise invalid(f"{short(name)} is true or false, not {short(text)}")
    return value, value


def _date(text: str, name: str) -> tuple[float, float]:
    """A moment, or a whole day."""
    value = days(text)
    if value is None:
        raise invalid(f"{short(name)} has dates, and {short(text)} is none such as 2024-12-31")
    whole_day = value.is_integer() and len(text) <= 10
    return value, math.nextafter(value + 1, value) if whole_day else value


_VALUES: dict[str, Callable[[str, str], tuple[float, float]]] = {
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}


def short(text: str) -> str:
    """A name or value as messages quote it."""
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def invalid(message: str) -> InvalidRequest:
    """That a filter, an order or a row cannot be."""
    return InvalidRequest("invalid-parameter", message)
