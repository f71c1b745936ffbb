"""Dates in texts: ISO 8601, and other forms that a whole column decides; times of day and durations
as numbers of seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import numpy as np

from service.rows.cell_texts.number_text import Digits, Numbers, Plan, Values, number_of

_TIME = (
    r"(?:(?:T|,? |:)(?P<hour>[0-9]{1,2})(?:[:时時]|시 ?)(?P<minute>[0-9]{2})"
    r"(?:(?:[:分]|분 ?)(?P<second>[0-9]{2})(?P<part>\.[0-9]{1,9})?)?[分秒분초]?"
    r"\s?(?P<half>[AaPp][Mm])?\s?(?P<zone>Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_YEAR, _MONTH, _DAY = "(?P<year>[0-9]{4})", "(?P<month>[0-9]{1,2})", "(?P<day>[0-9]{1,2})"
_YY, _MM, _DD = "(?P<year>[0-9]{2})", "(?P<month>[0-9]{2})", "(?P<day>[0-9]{2})"
_NAME = r"(?P<name>[^\W\d_]{3,10})\.?"
_WEEKDAY = r"(?:[^\W\d_]{2,10}\.?,? )?"
_TH = "(?:st|nd|rd|th|er|º)?"
_GAP = "(?: de |[ ./-]{1,2})"
_ENGLISH = "january february march april may june july august september october november december"
_OTHER_NAMES = (
    "januar janvier enero januari janv ene",
    "februar février febrero februari févr fév",
    "märz mars marzo maart mär",
    "avril abril avr abr",
    "mai mayo mei",
    "juni juin junio",
    "juli juillet julio juil",
    "août agosto augustus ago",
    "septembre septiembre sept",
    "oktober octobre octubre okt",
    "novembre noviembre",
    "dezember décembre diciembre dez déc dic",
)
_MONTHS = {
    text: number
    for number, (name, others) in enumerate(zip(_ENGLISH.split(), _OTHER_NAMES, strict=True), 1)
    for text in (name[:3], name, *others.split())
}
"""In English, German, French, Spanish and Dutch."""
ISO, COMPACT = "YYYY-MM-DD", "YYYYMMDD"
DAY_FIRST = ("DD/MM/YYYY", "DD-MM-YYYY", "DD/MM/YY", "DD/MM/YY, DD/MM/YYYY")
MONTHS_ONLY = ("YYYY-MM", "MM/YYYY", "Mon YYYY", "YYYY Mon", "YYYY年MM月")
"""They are the first day of the month."""
_FORMS = {
    ISO: f"{_YEAR}-{_MM}-{_DD}",
    "YYYY/MM/DD": f"{_YEAR}/{_MONTH}/{_DAY}",
    "DD.MM.YYYY": rf"{_DAY}\.{_MONTH}\.{_YEAR}",
    "DD/MM/YYYY": f"{_DAY}/{_MONTH}/{_YEAR}",
    "MM/DD/YYYY": f"{_MONTH}/{_DAY}/{_YEAR}",
    "DD-MM-YYYY": f"{_DAY}-{_MONTH}-{_YEAR}",
    "MM-DD-YYYY": f"{_MONTH}-{_DAY}-{_YEAR}",
    "DD Mon YYYY": f"{_WEEKDAY}{_DAY}{_TH}{_GAP}{_NAME}{_GAP}{_YEAR}",
    "DD Mon YY": f"{_WEEKDAY}{_DAY}{_GAP}{_NAME}{_GAP}{_YY}",
    "Mon DD, YYYY": rf"{_WEEKDAY}{_NAME} {_DAY}{_TH},? {_YEAR}",
    "DD.MM.YY": rf"{_DD}\.{_MM}\.{_YY}",
    "DD/MM/YY": f"{_DAY}/{_MONTH}/{_YY}",
    "MM/DD/YY": f"{_MONTH}/{_DAY}/{_YY}",
    "YYYY年MM月DD日": f"{_YEAR}[年년] ?{_MONTH}[月월] ?{_DAY}[日일]",
    "YYYY-MM": f"{_YEAR}-{_MM}",
    "MM/YYYY": f"{_MONTH}/{_YEAR}",
    "Mon YYYY": f"{_NAME}[ -](?:de )?{_YEAR}",
    "YYYY Mon": f"{_YEAR},? {_NAME}",
    "YYYY年MM月": f"{_YEAR}[年년] ?{_MONTH}[月월]",
    "DD/MM/YY, DD/MM/YYYY": f"{_DAY}/{_MONTH}/(?P<year>(?:[0-9]{{2}})?[0-9]{{2}})",
    "MM/DD/YY, MM/DD/YYYY": f"{_MONTH}/{_DAY}/(?P<year>(?:[0-9]{{2}})?[0-9]{{2}})",
    COMPACT: f"{_YEAR}{_MM}{_DD}",
}
FORMS = {form: re.compile(pattern + _TIME) for form, pattern in _FORMS.items()} | {
    "YYYYMMDDThhmmss": re.compile(
        f"{_YEAR}{_MM}{_DD}T(?P<hour>[0-9]{{2}})(?P<minute>[0-9]{{2}})(?P<second>[0-9]{{2}})"
        r"(?P<part>\.[0-9]{1,9})?(?P<zone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
    )
}
"""`Mon` is the name of a month. COMPACT is a number, unless a date is demanded."""
MIXED = ("DD/MM/YY, DD/MM/YYYY", "MM/DD/YY, MM/DD/YYYY")
_NUMBERED = ("YYYY-MM", "MM/YYYY")
"""They may be other numbers, if the year is not of two centuries."""
FIRST_YY = 69
"""Two digits from here on are a year of the last century, as POSIX has it."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST = 48
_EXACT = 1 << 53
_DAY_SECONDS = 86_400
_CLOCK = (
    r"(?P<hours>[0-9]{1,3}):(?P<minutes>[0-5][0-9])(?::(?P<seconds>[0-5][0-9](?:\.[0-9]{1,9})?))?"
)
_TIMES = {
    "hh:mm": _CLOCK,
    "hh:mm am": r"(?P<hours>0?[1-9]|1[0-2]):(?P<minutes>[0-5][0-9])"
    r"(?::(?P<seconds>[0-5][0-9]))? ?(?P<half>[AaPp])\.?[Mm]\.?",
    "1 days 02:00:00": rf"(?P<days>-?[0-9]+) days? {_CLOCK}",
    "1h 30m": r"(?=.)(?:(?P<days>[0-9]+) ?d(?:ays?)?)? ?(?:(?P<hours>[0-9]+) ?h(?:(?:ou)?rs?)?)? ?"
    r"(?:(?P<minutes>[0-9]+) ?m(?:in(?:ute)?s?)?)? ?(?:(?P<seconds>[0-9]+) ?s(?:ec(?:ond)?s?)?)?",
    "PT1H30M": r"P(?=.)(?:(?P<days>[0-9]+)D)?(?:T(?=.)(?:(?P<hours>[0-9]+)H)?"
    r"(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+(?:\.[0-9]+)?)S)?)?",
}
TIMES = {form: re.compile(pattern) for form, pattern in _TIMES.items()}
_SECONDS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}


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
    if form in _NUMBERED and not 1900 <= year < 2100:
        return None
    month = int(given["month"]) if "month" in given else _MONTHS.get(given["name"].lower(), 0)
    if given.get("half"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if given["half"].lower() == "pm" else 0)
    try:
        day = datetime(year, month, int(given.get("day", 1)), tzinfo=UTC)
        part = round(float(given["part"] or 0) * 1e6) % 1_000_000
        moment = day.replace(hour=hour, minute=minute, second=second, microsecond=part)
        if zone and zone[0] in "+-":
            offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:].lstrip(":") or 0))
            moment = moment.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset))
        return (moment - EPOCH) / timedelta(days=1)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class DateForm:
    """Reads the dates of a column."""

    name: str

    def value(self, text: str) -> float | None:
        return days(text, self.name)

    def plan(self, shape: str) -> Plan | None:
        """What reads all texts of a shape at once, as `days` does."""
        match = FORMS[self.name].fullmatch(shape) if len(shape) <= LONGEST else None
        if match is None:
            return None
        given = match.groupdict()
        places = {name: _digits_of(match, name) for name, part in given.items() if part}
        month = 0 if "month" in given else _MONTHS.get(given["name"].lower(), 0)
        two_digits = len(given["year"]) == 2
        half, zone = (given.get("half") or "").lower(), given["zone"] or ""
        sign = {"+": 1, "-": -1}.get(zone[:1], 0)

        def read(digits: Digits) -> Values:
            def number(name: str) -> Numbers:
                if not given.get(name):
                    return np.zeros(len(digits), np.int64)
                return number_of(digits[:, places[name]])

            year, hour, minute, second = map(number, ("year", "hour", "minute", "second"))
            if two_digits:
                year += np.where(year >= FIRST_YY, 1900, 2000)
            months = number("month") if month == 0 else np.full(len(digits), month)
            day = number("day") if given.get("day") else np.ones(len(digits), np.int64)
            right = (year > 0) & (months >= 1) & (months <= 12)
            right &= (hour < 24) & (minute < 60) & (second < 60)
            if self.name in _NUMBERED:
                right &= (year >= 1900) & (year < 2100)
            if half:
                right &= (hour >= 1) & (hour <= 12)
                hour = hour % 12 + (12 if half == "pm" else 0)
            first = (year * 12 + months - 1 - 1970 * 12).astype("datetime64[M]")
            start = first.astype("datetime64[D]").astype(np.int64)
            end = (first + 1).astype("datetime64[D]").astype(np.int64)
            right &= (day >= 1) & (day <= end - start)
            seconds = (start + day - 1) * _DAY_SECONDS + hour * 3600 + minute * 60 + second
            if sign:
                offset = number("zone")
                if len(zone) == len("+02"):
                    offset *= 100
                offset = offset // 100 * 60 + offset % 100
                right &= offset < _DAY_SECONDS // 60
                seconds -= sign * offset * 60
            if not given["part"]:
                return np.where(right, seconds / _DAY_SECONDS, np.nan)
            part, below = number("part"), max(0, len(given["part"]) - 1 - 6)
            right &= part % 10**below == 0
            part = part // 10**below * 10 ** (6 - (len(given["part"]) - 1 - below))
            moments = seconds * 1_000_000 + part
            right &= abs(moments) < _EXACT
            return np.where(right, moments / (_DAY_SECONDS * 1e6), np.nan)

        return Plan(shape, read)


def _digits_of(match: re.Match[str], name: str) -> slice:
    """Which digits of a whole text are those of a group."""
    first, last = (sum(map("0123456789".__contains__, match.string[:i])) for i in match.span(name))
    return slice(first, last)


def forms_of(texts: Iterable[str], day_first: bool | None = None) -> list[str]:
    """The forms in which all of these texts are dates; if the caller says whether the day comes
    before the month, only such forms."""
    forms = list(FORMS)
    for text in texts:
        forms = [form for form in forms if days(text, form) is not None]
        if not forms:
            break
    forms = [form for form in forms if form not in MIXED] or forms
    if day_first is not None and len(forms) > 1:
        forms = [form for form in forms if (form in DAY_FIRST) == day_first] or forms
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


@dataclass(frozen=True, slots=True)
class TimeForm:
    """Reads the times of a column."""

    name: str

    def value(self, text: str) -> float | None:
        """Seconds since midnight, or of a duration; None if the text is not a time."""
        match = TIMES[self.name].fullmatch(text) if len(text) <= LONGEST else None
        if match is None:
            return None
        given = match.groupdict()
        total = sum(float(given.get(name) or 0) * of for name, of in _SECONDS.items())
        if "half" in given and int(given["hours"]) == 12:
            total -= 12 * 3600
        return total + 12 * 3600 * ((given.get("half") or "").lower() == "p")

    def plan(self, shape: str) -> Plan | None:
        """Each text is read alone: few of them differ."""
        return None


def time_form_of(texts: Iterable[str]) -> str | None:
    """The form in which all of these texts are times."""
    forms = list(TIMES)
    for text in texts:
        forms = [form for form in forms if TimeForm(form).value(text) is not None]
        if not forms:
            break
    return forms[0] if forms else None
