"""Formats numbers, times and certificates for people."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from service.common.figures import figure
from service.errors import Fault
from service.models.expected import expected_beside as expected_beside
from svm.model.measures import interval

NOTHING = "–"
LONGEST_CELL = 200
"""Characters of a text in a table of rows."""
FILTERS = (
    *("number", "counted", "percent", "duration", "between", "roughly", "size"),
    *(
        "measured_on",
        "expected_beside",
        "hardest_class",
        "sentence",
        "moment",
        "code",
        "without_location",
    ),
    *("faults_csv", "short", "plain", "wrong_pairs", "wrong_count"),
)
"""Functions of this module that templates use."""
_BYTES = ("B", "kB", "MB", "GB", "TB")
_LOCATION = re.compile(r"^(row [0-9]+(, column ('.*?'|[0-9]+))?|/\S*): ")
_TICKED = re.compile(r"`([^`]+)`")


def number(value: float | int | None) -> str:
    """At most four figures; whole numbers with commas."""
    if value is None:
        return NOTHING
    if isinstance(value, int):
        return f"{value:,}"
    return figure(value)


def plain(cell: Any) -> str:
    """A cell of a row as it was sent: all digits of a number, and `true` as data have it."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53
    text = str(int(cell) if whole else cell)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 class`, `2 classes`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def percent(share: float | None) -> str:
    """`0.08 %`, two figures below 1 %, one digit behind the point above."""
    if share is None:
        return NOTHING
    value = 100 * share
    if value in (0, 100):
        return f"{value:.0f} %"
    if abs(value) >= 1:
        return f"{value:.1f} %"
    return (
        f"{float(f'{value:.2g}'):.10f}".rstrip("0") + " %" if abs(value) >= 1e-4 else "< 0.0001 %"
    )


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def between(share: float, n: int) -> str:
    """The interval as `91.4 to 99.6 %`."""
    return "{:.1f} to {:.1f} %".format(*(100 * bound for bound in interval(share, n)))


def measured_on(metrics: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], str] | None:
    """The metrics that say most, and the rows that they were measured on: `validation`, `training`
    or, of an evaluation, `evaluation`; None if nothing was measured."""
    subsets = {"validation": "validation", "train": "training"}
    each = [((metrics or {}).get(subset), rows) for subset, rows in subsets.items()]
    for some, rows in (*each, (metrics, "evaluation")):
        if some and ("accuracy" in some or are_of_numbers(some)):
            return some, rows
    return None


def are_of_numbers(metrics: Any) -> bool:
    """Whether metrics, a mapping or an object, are those of numbers. Replies for both kinds have
    the members of the other one as null."""
    mae = metrics.get("mae") if isinstance(metrics, Mapping) else getattr(metrics, "mae", None)
    return mae is not None


def hardest_class(confusion: Sequence[Sequence[int]], classes: Sequence[str]) -> str:
    """The class with the lowest recall, and what it is taken for; empty if all rows are right."""
    recalls = {i: row[i] / sum(row) for i, row in enumerate(confusion) if sum(row)}
    i = min(recalls, key=recalls.__getitem__)
    if recalls[i] == 1:
        return ""
    row = list(confusion[i])
    total, hits, row[i] = sum(row), row[i], -1
    often = "" if len(classes) == 2 else f", most often as {classes[row.index(max(row))]}"
    return f"{classes[i]} ({total - hits:,} of {counted(total, 'row')} predicted wrongly{often})"


@dataclass(frozen=True, slots=True)
class WrongPair:
    """Rows of one class that are taken for another one."""

    id: str
    """The numbers of both classes."""
    rows: list[Any]
    """Some of them, as an evaluation has them."""
    count: int


def wrong_pairs(metrics: Any) -> list[WrongPair]:
    """The wrong rows of an evaluation by the true and the predicted class, the most frequent pair
    first; empty for other metrics."""
    by_pair: dict[tuple[int, int], list[Any]] = {}
    for one in getattr(metrics, "wrong_rows", None) or ():
        pair = metrics.classes.index(one.actual), metrics.classes.index(one.predicted)
        by_pair.setdefault(pair, []).append(one)
    pairs = [
        WrongPair(f"{i}-{j}", rows, metrics.confusion_matrix[i][j])
        for (i, j), rows in by_pair.items()
    ]
    return sorted(pairs, key=lambda pair: -pair.count)


def wrong_count(confusion: Sequence[Sequence[int]]) -> int:
    return sum(sum(row) - row[i] for i, row in enumerate(confusion))


def sentence(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]


def roughly(seconds: float) -> str:
    """One figure of a duration; `1 s` for all shorter ones."""
    if seconds < 90:
        return f"{float(f'{max(1.0, seconds):.1g}'):.0f} s"
    return f"{float(f'{seconds / 60:.1g}'):,.0f} min"


def size(n_bytes: int) -> str:
    value = float(n_bytes)
    for unit in _BYTES[:-1]:
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} {_BYTES[-1]}"


def moment(seconds: float | str | None) -> Markup | str:
    """A `<time>`: seconds since 1970, or RFC 3339."""
    if seconds is None:
        return NOTHING
    if isinstance(seconds, str):
        time = datetime.fromisoformat(seconds)
    else:
        time = datetime.fromtimestamp(seconds, UTC)
    machine = time.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}">{}</time>').format(machine, f"{time:%d %b %Y, %H:%M} UTC")


def day(days: float) -> str:
    """The date of a number of days since 1970-01-01."""
    return (date(1970, 1, 1) + timedelta(days=int(days // 1))).isoformat()


def faults_csv(faults: Sequence[Fault]) -> str:
    """A link to the faults as CSV that needs no other request."""
    table = io.StringIO()
    rows = csv.writer(table)
    names = ("row", "column", "pointer", "value", "message", "hint")
    rows.writerow(names)
    rows.writerows([getattr(fault, name) for name in names] for fault in faults)
    return "data:text/csv;charset=utf-8," + quote(table.getvalue())


def code(text: str) -> Markup:
    """Text between backticks as code."""
    return Markup(_TICKED.sub(r"<code>\1</code>", str(escape(text))))


def without_location(message: str) -> str:
    """A message without its location, if a table or a marked field shows it."""
    return _LOCATION.sub("", message)


def short(identifier: str) -> str:
    """An id by its last digits."""
    return identifier[-8:]
