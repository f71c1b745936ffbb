"""Words for missing cells in text files."""

from __future__ import annotations

MISSING_TEXTS = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?", "."}
)
"""In any column, labels included."""
MISSING_VALUES = MISSING_TEXTS | {
    *("na", "NAN", "-nan", "Null", "None", "none", "#NA", "-", "--", "missing", "Missing"),
}
"""In columns whose other cells are numbers, booleans or dates; else some of these are levels."""
