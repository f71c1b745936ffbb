"""Times of day and durations in texts, as numbers of seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from service.rows.cell_texts.digits import Plan

_CLOCK = (
    r"(?P<hours>[0-9]{1,3}):(?P<minutes>[0-5][0-9])(?::(?P<seconds>[0-5][0-9](?:\.[0-9]{1,9})?))?"
)
_FORMS = {
    "hh:mm": _CLOCK,
    "hh:mm am": r"(?P<hours>0?[1-9]|1[0-2]):(?P<minutes>[0-5][0-9])"
    r"(?::(?P<seconds>[0-5][0-9]))? ?(?P<half>[AaPp])\.?[Mm]\.?",
    "1 days 02:00:00": rf"(?P<days>-?[0-9]+) days? {_CLOCK}",
    "1h 30m": r"(?=.)(?:(?P<days>[0-9]+) ?d(?:ays?)?)? ?(?:(?P<hours>[0-9]+) ?h(?:(?:ou)?rs?)?)? ?"
    r"(?:(?P<minutes>[0-9]+) ?m(?:in(?:ute)?s?)?)? ?(?:(?P<seconds>[0-9]+) ?s(?:ec(?:ond)?s?)?)?",
    "PT1H30M": r"P(?=.)(?:(?P<days>[0-9]+)D)?(?:T(?=.)(?:(?P<hours>[0-9]+)H)?"
    r"(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+(?:\.[0-9]+)?)S)?)?",
}
FORMS = {form: re.compile(pattern) for form, pattern in _FORMS.items()}
_SECONDS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
LONGEST = 48


@dataclass(frozen=True, slots=True)
class TimeForm:
    """Reads the times of a column."""

    name: str

    def value(self, text: str) -> float | None:
        """Seconds since midnight, or of a duration; None if the text is not a time."""
        match = FORMS[self.name].fullmatch(text) if len(text) <= LONGEST else None
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


def form_of(texts: Iterable[str]) -> str | None:
    """The form in which all of these texts are times."""
    forms = list(FORMS)
    for text in texts:
        forms = [form for form in forms if TimeForm(form).value(text) is not None]
        if not forms:
            break
    return forms[0] if forms else None
