"""Dates as text: ISO 8601, to days since 1970-01-01."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_FIRST = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_OF_DAY = 86_400_000_000


def days_of(text: str) -> float | None:
    """Of a date, or a date and a time; the time is in UTC if no offset is given. None for other
    texts."""
    if not _DATE.fullmatch(text):
        return None
    try:
        if len(text) == 10:
            return float(date.fromisoformat(text).toordinal() - _FIRST)
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return (time - _EPOCH) // _MICROSECOND / _MICROSECONDS_OF_DAY
    except (ValueError, OverflowError):  # such as February 30
        return None
