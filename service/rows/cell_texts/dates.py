"""Dates in texts: ISO 8601, and other forms that a whole column decides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone

_TIME = (
    r"(?:(?:T|,? )(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?P<part>\.[0-9]{1,9})?)?"
    r"\s?(?P<half>[AaPp][Mm])?\s?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_YEAR, _MONTH, _DAY = "(?P<year>[0-9]{4})", "(?P<month>[0-9]{1,2})", "(?P<day>[0-9]{1,2})"
_YY, _MM, _DD = "(?P<year>[0-9]{2})", "(?P<month>[0-9]{2})", "(?P<day>[0-9]{2})"
_NAME = "(?P<name>[A-Za-z]{3,9})"
_GAP = "[ ./-]{1,2}"
_MONTHS = {
    text: number
    for number, name in enumerate(
        (
            *("january", "february", "march", "april", "may", "june", "july", "august"),
            *("september", "october", "november", "december"),
        ),
        1,
    )
    for text in (name[:3], name)
} | {"sept": 9}
ISO, COMPACT = "YYYY-MM-DD", "YYYYMMDD"
_FORMS = {
    ISO: f"{_YEAR}-{_MM}-{_DD}",
    "YYYY/MM/DD": f"{_YEAR}/{_MONTH}/{_DAY}",
    "DD.MM.YYYY": rf"{_DAY}\.{_MONTH}\.{_YEAR}",
    "DD/MM/YYYY": f"{_DAY}/{_MONTH}/{_YEAR}",
    "MM/DD/YYYY": f"{_MONTH}/{_DAY}/{_YEAR}",
    "DD-MM-YYYY": f"{_DAY}-{_MONTH}-{_YEAR}",
    "MM-DD-YYYY": f"{_MONTH}-{_DAY}-{_YEAR}",
    "DD Mon YYYY": f"{_DAY}{_GAP}{_NAME}{_GAP}{_YEAR}",
    "DD Mon YY": f"{_DAY}{_GAP}{_NAME}{_GAP}{_YY}",
    "Mon DD, YYYY": rf"{_NAME}\.? {_DAY},? {_YEAR}",
    "DD.MM.YY": rf"{_DD}\.{_MM}\.{_YY}",
    "DD/MM/YY": f"{_DAY}/{_MONTH}/{_YY}",
    "MM/DD/YY": f"{_MONTH}/{_DAY}/{_YY}",
    "YYYY-MM": f"(?P<year>(?:19|20)[0-9]{{2}})-{_MM}",
    COMPACT: f"{_YEAR}{_MM}{_DD}",
}
FORMS = {form: re.compile(pattern + _TIME) for form, pattern in _FORMS.items()}
"""`Mon` is an English name of a month. COMPACT is a number, unless a date is demanded."""
FIRST_YY = 69
"""Two digits from here on are a year of the last century, as POSIX has it."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST = 40


def days(text: str, form: str = ISO) -> float | None:
    """Days since 1970-01-01 (UTC if the text has no offset); None if the text is not a date."""
    match = FORMS[form].fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    given = match.groupdict()
    hour, minute, second = (int(given[name] or 0) for name in ("hour", "minute", "second"))
    zone, year = given["zone"], int(given["year"])
    if len(given["year"]) == 2:
        year += 1900 if year >= FIRST_YY else 2000
    month = int(given["month"]) if "month" in given else _MONTHS.get(given["name"].lower(), 0)
    if given["half"] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if given["half"].lower() == "pm" else 0)
    try:
        day = datetime(year, month, int(given.get("day", 1)), tzinfo=UTC)
        part = round(float(given["part"] or 0) * 1e6) % 1_000_000
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
