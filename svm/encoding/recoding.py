"""Raw values of one table in the columns, levels and texts of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from svm.data.columns import UNKNOWN, Column, Columns, text_columns
from svm.data.matrices import Vector
from svm.data.texts import Stacked, TextList, texts_of, with_texts
from svm.errors import InvalidData


def recode(X: Vector, columns: Columns, onto: Columns) -> Vector:
    """The raw rows of a table with `columns` as rows of `onto`: in its order, with the positions of
    its levels. A level that it does not have becomes `UNKNOWN`. Levels can be texts, and texts
    levels.

    X itself if nothing changes. Columns that `onto` does not have are left out. Raises
    InvalidData (`feature-mismatch`) if one is missing, or its values are not of the other kind.
    """
    return recoding(columns, onto)(X)


def recoding(columns: Columns, onto: Columns) -> Callable[[Any], Vector]:
    """The function of `recode` for any rows of these columns. Raises as it does."""
    places = {column.name: j for j, column in enumerate(columns)}
    if missing := [column.name for column in onto if column.name not in places]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidData("feature-mismatch", f"the data has no column {missing[0]!r}{more}")
    sources = [places[column.name] for column in onto]
    change, levels = [], list[str]()
    for j, column in zip(sources, onto, strict=True):
        change.append(_change(columns[j], column, len(levels)))
        if (columns[j].kind, column.kind) == ("category", "text"):
            levels += columns[j].levels
    has_texts = bool(text_columns(onto))
    if sources == list(range(len(columns))) and not any(change):
        return lambda X: X

    def recoded(X: Vector) -> Vector:
        out: Vector = np.require(X[:, sources], requirements="C")
        for j, changed in enumerate(change):
            if changed is not None:
                out[:, j] = changed(out[:, j])
        if not has_texts:
            return np.asarray(out)
        return with_texts(out, Stacked([texts_of(X), TextList(levels)])) if levels else out

    return recoded


def _change(source: Column, onto: Column, first: int) -> Callable[[Vector], Vector] | None:
    """How the cells of a column change; None if they stay. `first`: the place of its first level
    among those that are texts."""
    match source.kind, onto.kind:
        case "category", "category":
            if source.levels == onto.levels:
                return None
            return _by_position(np.array([*_places(onto, source.levels), UNKNOWN]))
        case "boolean", "category":
            return _by_position(np.array([*_places(onto, ("false", "true")), UNKNOWN]))
        case "category", "text":
            return lambda cells: _as_texts(cells, first)
        case "text", "category":
            return lambda cells: _of_texts(cells, onto)
        case "number", "category":
            return lambda cells: _of_numbers(cells, onto)
        case "number", "boolean":
            return lambda cells: _booleans(cells, onto)
        case kind, other if kind != other and (kind, other) != ("boolean", "number"):
            raise InvalidData(
                "feature-mismatch",
                f"column {onto.name!r} has values of the kind {kind}, and the model takes the kind "
                f"{other}; upload the data with the kinds of the model",
            )
    return None


def _places(onto: Column, texts: tuple[str, ...]) -> list[float]:
    positions = {level: float(k) for k, level in enumerate(onto.levels)}
    return [positions.get(text, UNKNOWN) for text in texts]


def _by_position(places: Vector) -> Callable[[Vector], Vector]:
    """`places` of the source's levels; the last entry is that of an unknown level."""

    def changed(cells: Vector) -> Vector:
        missing = np.isnan(cells)
        codes = np.where(missing, UNKNOWN, cells).astype(np.int64)
        return np.where(missing, np.nan, places[codes])

    return changed


def _as_texts(cells: Vector, first: int) -> Vector:
    """Levels that come after the texts of these rows; an unknown one is missing."""
    return np.where(cells >= 0.0, cells + len(texts_of(cells)) + first, np.nan)


def _of_texts(cells: Vector, onto: Column) -> Vector:
    out = np.full(len(cells), np.nan)
    given = np.flatnonzero(~np.isnan(cells))
    texts = texts_of(cells).take(cells[given].astype(np.int64).tolist())
    out[given] = _places(onto, tuple(text.strip() for text in texts))
    return out


def _of_numbers(cells: Vector, onto: Column) -> Vector:
    """Levels are the shortest texts of numbers."""
    values, inverse = np.unique(cells, return_inverse=True)
    texts = tuple(str(int(v)) if v.is_integer() else repr(v) for v in values.tolist())
    return np.where(np.isnan(cells), np.nan, np.array(_places(onto, texts))[inverse])


def _booleans(cells: Vector, onto: Column) -> Vector:
    if not ((cells == 0.0) | (cells == 1.0) | np.isnan(cells)).all():
        raise InvalidData(
            "feature-mismatch",
            f"column {onto.name!r} has numbers, and the model takes 0 and 1 there",
        )
    return cells
