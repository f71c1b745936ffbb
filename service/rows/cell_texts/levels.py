"""The levels of a category: its different texts, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from service.rows.cell_texts.number_text import NUMBER, plain_text

MAX_LEVELS = 10_000
"""Of one column."""
MIN_LISTS = 5
MAX_LEVELS_IN_ALL = 100_000


def in_order(texts: Iterable[str]) -> list[str]:
    """Sorted: numerically if all of them are numbers, else by code point."""
    levels = sorted(texts)
    if all(NUMBER.fullmatch(level) for level in levels):
        levels.sort(key=float)
    return levels


def alike(levels: Iterable[str]) -> tuple[str, str] | None:
    """Two levels that differ in case or blanks only."""
    seen: dict[str, str] = {}
    for level in levels:
        other = seen.setdefault("".join(level.split()).casefold(), level)
        if other != level:
            return other, level
    return None


def separator_of_lists(levels: Collection[str]) -> str | None:
    """The mark between the elements of lists, if most levels are lists of fewer elements."""
    for mark in "|;,":
        lists = [level for level in levels if mark in level]
        elements = {one.strip() for level in lists for one in level.split(mark)}
        if 2 * len(lists) > len(levels) > MIN_LISTS and 2 * len(elements) < len(levels):
            return mark
    return None


def level_of(value: float | bool | str) -> str:
    """The text of a value that is used as a category."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return str(int(value))
    return plain_text(value.strip()) if isinstance(value, str) else repr(value)
