"""Words for missing cells and for booleans in text files."""

from __future__ import annotations

MISSING_TEXTS = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?", "."}
)
"""In any column, labels included."""
MISSING_VALUES = MISSING_TEXTS | {
    *("na", "NAN", "-nan", "Null", "None", "none", "#NA", "-", "--", "missing", "Missing"),
}
"""In columns whose other cells are numbers, booleans or dates; else some of these are levels."""
BOOLEAN_WORDS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
