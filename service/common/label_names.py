"""Which column of a table holds the labels, by its name."""

from __future__ import annotations

from collections.abc import Iterable

LABEL_NAMES = frozenset({"label", "labels", "target", "class", "outcome"})
"""In lower case, besides `y`."""


def called_label(names: Iterable[str]) -> list[str]:
    """The columns that are called like labels, in upper or lower case. `y` is one only if there is
    no `x`, with which it would be a place."""
    all_names = list(names)
    named = [name for name in all_names if name.strip().lower() in LABEL_NAMES]
    if named or any(name.strip().lower() == "x" for name in all_names):
        return named
    return [name for name in all_names if name.strip().lower() == "y"]
