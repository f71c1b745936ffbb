"""How a file was read, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_MARKS = {",": "a comma", ".": "a point", " ": "a blank", "'": "an apostrophe"}


def reading_in_words(reading: Mapping[str, Any] | None) -> str:
    """How the text was read, as a sentence; empty for formats that leave no choice."""
    if reading is None:
        return ""
    parts = []
    if sheet := reading.get("sheet"):
        parts.append(f"the sheet “{sheet}”")
    if encoding := reading.get("encoding"):
        parts.append(f"{encoding.upper()} text")
    if delimiter := reading.get("delimiter"):
        parts.append(f"{_DELIMITERS.get(delimiter, repr(delimiter))} between cells")
    if header := reading.get("header"):
        names = "the first line has the names" if header == "present" else "no line has names"
        parts.append(names)
    if reading.get("decimal") == ",":
        parts.append("decimal comma")
    if thousands := reading.get("thousands"):
        parts.append(f"{_MARKS.get(thousands, repr(thousands))} between thousands")
    if words := [word for word in reading.get("missing") or [] if word]:
        parts.append("missing cells: " + ", ".join(f"“{word}”" for word in words))
    for name, notes in (reading.get("columns") or {}).items():
        if odd := notes.get("odd"):
            quoted = ", ".join(f"“{word}”" for word in odd)
            parts.append(f"in “{name}” {quoted} as missing cells")
    return f"Read as {', '.join(parts)}." if parts else ""
