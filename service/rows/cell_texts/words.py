"""Words for missing cells in text files."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from service.rows.cell_texts.number_text import BOOLEANS

MISSING_TEXTS = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "\\N", "?", "."}
)
"""In any column, labels included."""
MISSING_VALUES = MISSING_TEXTS | {
    *("na", "NAN", "-nan", "Null", "None", "none", "#NA", "-", "--", "missing", "Missing"),
    *("n.a.", "N.A.", "k.A.", "..", "\u2014", "\u2013", "#NULL!", "(null)", "not available"),
    *("NaT", "0000-00-00", "0000-00-00 00:00:00"),
}
"""In columns whose other cells are numbers, booleans or dates; else some of these are levels."""


def values_of(words: Iterable[str], value: Callable[[str], float | None]) -> frozenset[float]:
    """The values of those words that are numbers or dates, such as -999 in a column of numbers: a
    cell that is written in another way, as -999.0, is missing, too."""
    others = (word for word in words if word not in MISSING_VALUES and word not in BOOLEANS)
    return frozenset(one for word in others if (one := value(word)) is not None)
