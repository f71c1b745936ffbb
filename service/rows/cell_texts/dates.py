"""Dates in texts: ISO 8601, and other forms that a whole column decides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone

_TIME = (
    r"(?:[T ](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?P<part>\.[0-9]{1,9})?)?"
    r"\s?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_YEAR, _MONTH, _DAY = "(?P<year>[0-9]{4})", "(?P<month>[0-9]{1,2})", "(?P<day>[0-9]{1,2})"
ISO = "YYYY-MM-DD"
FORMS = {
    ISO: re.compile("(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})" + _TIME),
    "YYYY/MM/DD": re.compile(f"{_YEAR}/{_MONTH}/{_DAY}{_TIME}"),
    "DD.MM.YYYY": re.compile(rf"{_DAY}\.{_MONTH}\.{_YEAR}{_TIME}"),
    "DD/MM/YYYY": re.compile(f"{_DAY}/{_MONTH}/{_YEAR}{_TIME}"),
    "MM/DD/YYYY": re.compile(f"{_MONTH}/{_DAY}/{_YEAR}{_TIME}"),
    "DD-MM-YYYY": re.compile(f"{_DAY}-{_MONTH}-{_YEAR}{_TIME}"),
    "MM-DD-YYYY": re.compile(f"{_MONTH}-{_DAY}-{_YEAR}{_TIME}"),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST = 40


def days(text: str, form: str = ISO) -> float | None:
    """Days since 1970-01-01 (UTC if the text has no offset); None if the text is not a date."""
    found = FORMS[form].fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    zone = found["zone"]
    try:
        day = datetime(int(found["year"]), int(found["month"]), int(found["day"]), tzinfo=UTC)
        part = round(float(found["part"] or 0) * 1e6) % 1_000_000
        moment = day.replace(hour=hour, minute=minute, second=second, microsecond=part)
        if zone and zone != "Z":
            offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
            moment = moment.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset))
        return (moment - EPOCH) / timedelta(days=1)
    except (ValueError, OverflowError):
        return None


def forms_of(texts: Iterable[str]) -> list[str]:
    """The forms in which all of these texts are dates."""
    forms = list(FORMS)
    for text in texts:
        forms = [form for form in forms if days(text, form) is not None]
        if not forms:
            break
    return forms


def any_form(text: str) -> bool:
    """Whether a text is a date in some form."""
    return any(days(text, form) is not None for form in FORMS)


def iso(value: float) -> str:
    """The ISO text of days since 1970-01-01; without a time at midnight."""
    moment = EPOCH + timedelta(microseconds=round(value * 86_400_000_000))
    if moment.time() == datetime.min.time():
        return moment.date().isoformat()
    return moment.isoformat().replace("+00:00", "Z")
