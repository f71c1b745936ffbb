"""Texts of pages: cells, times, faults and ids. Every public function is a filter of templates, as
those of `service.common.figures` and `service.models.measured` are."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from service.common.figures import NOTHING, figure
from service.errors import Fault

LONGEST_CELL = 200
"""Characters of a text in a table of rows."""
_LOCATION = re.compile(r"^(row [0-9]+(, column ('.*?'|[0-9]+))?|/\S*): ")
_TICKED = re.compile(r"`([^`]+)`")


def plain(cell: Any) -> str:
    """A cell of a row as it was sent: all digits of a number, and `true` as data have it."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53
    text = str(int(cell) if whole else cell)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


def cell(text: str) -> str:
    """A cell with a number as `number` shows it, others as they are."""
    try:
        return figure(float(text))
    except ValueError:
        return text


def sentence(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]


def roughly(seconds: float) -> str:
    """One figure of a duration; `1 s` for all shorter ones."""
    if seconds < 90:
        return f"{float(f'{max(1.0, seconds):.1g}'):.0f} s"
    return f"{float(f'{seconds / 60:.1g}'):,.0f} min"


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
