"""What one column alone would change in an answer: the smallest change that predicts another class,
or how far a predicted number moves. The model is asked as a black box, many rows at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.predictions.batcher import score_rows
from service.predictions.loaded_models import LoadedModel
from svm.data.columns import Column, Kind
from svm.data.matrices import Matrix, Vector, is_sparse
from svm.encoding.encoder import Encoder

Range: TypeAlias = tuple[float, float] | None
"""The lowest and the highest value of a column in training; None if they are not known."""

POINTS = 32
"""Values of a number or a date that are tried, over its range."""
FEWEST_POINTS = 4
MOST_WORK = 400_000_000
"""Of all rows that are tried, see `LoadedModel.work`: tenths of a second."""
MOST_LEVELS = 100
"""Levels of a category that are tried."""
MOST_ROUNDS = 60
CLOSE = 0.002
"""A threshold is searched until it is known to this share of the change, or of the range of the
column if that is smaller: a value far outside does not make it coarse."""
SHORT = 0.01
"""This share less of a change, or of the range, does not change the label."""


@dataclass(frozen=True, slots=True)
class Change:
    """Another value of one column, with which another class is predicted."""

    column: int
    kind: Kind
    before: float
    """Raw, as the model takes it: the number of a level, days since 1970; NaN if missing."""
    after: tuple[float, ...]
    """Of numbers and dates one: the nearest. Of a category all levels with this label."""
    label: Any
    size: float
    """Share of the range of a number or date; 1 for other columns, and for a missing cell."""


@dataclass(frozen=True, slots=True)
class Move:
    """How far one column moves a predicted number, over the range or the levels of training."""

    column: int
    kind: Kind
    before: float
    lowest: float
    lowest_at: float
    highest: float
    highest_at: float


class _Tried(NamedTuple):
    """The values of one column that are tried."""

    column: int
    kind: Kind
    values: Vector
    whole: bool
    """Of a date, or a number whose ends in training and value are whole: only such are tried."""


def smallest_changes(
    model: LoadedModel, X: Matrix, ranges: Sequence[Range], among: Sequence[int] | None = None
) -> list[Change]:
    """The smallest change of each column that alone changes the label of the row X, (1,
    n_features), the smallest first. `ranges`: of each column; numbers and dates without one, and
    texts, are left out. `among`: the places of the columns to try; all by default.

    Of a number 1 % less, of the change or of the range if that is smaller, and of a date one day or
    a whole number 1 less, does not change the label.
    """
    assert not is_sparse(X)
    tried = list(_tried(model, X, ranges, among))
    (own,) = _codes(model, X)
    codes = _ask(model, X, tried, _codes)
    changes: list[Change] = []
    searched: list[tuple[_Tried, float, float]] = []
    for one, found in zip(tried, codes, strict=True):
        before, others = float(X[0, one.column]), found != own
        if one.kind in ("number", "date") and not math.isnan(before):
            for side in (one.values < before, one.values > before):
                values, changed = one.values[side], others[side]
                order = np.argsort(np.abs(values - before), kind="stable")
                if changed.any():
                    first = int(np.argmax(changed[order]))
                    last = float(values[order[first - 1]]) if first else before
                    searched.append((one, last, float(values[order[first]])))
        elif others.any():
            values, labels = one.values[others], found[others]
            if one.kind in ("number", "date"):  # now missing: the most usual one
                middle = np.argsort(np.abs(values - one.values.mean()), kind="stable")[:1]
                values, labels = values[middle], labels[middle]
            for code in dict.fromkeys(labels.tolist()):
                after = tuple(values[labels == code].tolist())
                label = model.classes[code]
                changes.append(Change(one.column, one.kind, before, after, label, 1.0))
    changes += _thresholds(model, X, int(own), searched, ranges)
    return sorted(changes, key=lambda change: change.size)


def largest_moves(
    model: LoadedModel, X: Matrix, ranges: Sequence[Range], among: Sequence[int] | None = None
) -> list[Move]:
    """How far each column alone moves the number that is predicted for the row X, (1, n_features),
    the farthest first. `ranges` and `among`: as above."""
    assert not is_sparse(X)
    tried = list(_tried(model, X, ranges, among))
    moves = []
    (own,) = _values(model, X)
    for one, found in zip(tried, _ask(model, X, tried, _values), strict=True):
        before = float(X[0, one.column])
        values, results = np.append(one.values, before), np.append(found, own)
        low, high = int(results.argmin()), int(results.argmax())
        ends = (float(x) for i in (low, high) for x in (results[i], values[i]))
        moves.append(Move(one.column, one.kind, before, *ends))
    return sorted(moves, key=lambda move: move.lowest - move.highest)


def far_outside(
    model: LoadedModel, X: Matrix, ranges: Sequence[Range]
) -> Iterator[tuple[Column, float, float, float]]:
    """Columns whose value in the row X, (1, n_features), is farther outside of the range of
    training than that is wide, each with the value and the range."""
    assert not is_sparse(X)
    for column, value, ends in zip(model.features.table, X[0].tolist(), ranges, strict=True):
        if ends is not None and max(ends[0] - value, value - ends[1]) > ends[1] - ends[0] > 0.0:
            yield column, value, *ends


def _tried(
    model: LoadedModel, X: Vector, ranges: Sequence[Range], among: Sequence[int] | None
) -> Iterator[_Tried]:
    places = range(len(ranges)) if among is None else among
    points = MOST_WORK // max(1, model.work(X) * len(places))
    points = max(FEWEST_POINTS, min(POINTS, points))
    encoder = model.fitted.encoder
    counts = encoder.level_counts if isinstance(encoder, Encoder) else {}
    for j in places:
        column = model.features.table[j]
        before, whole = X[0, j], False
        if column.kind == "category":
            values = np.flatnonzero(counts[j])[:MOST_LEVELS].astype(np.float64)
        elif column.kind == "boolean":
            values = np.array([0.0, 1.0])
        elif column.kind == "text" or (ends := ranges[j]) is None:
            continue
        else:
            values = np.append(np.linspace(*ends, points), _outside(ends, before, points))
            whole = column.kind == "date" or not any(x % 1 > 0.0 for x in (*ends, before))
            if whole:
                values = np.unique(np.floor(values))
        if len(values := values[values != before]):
            yield _Tried(j, column.kind, values, whole)


def _outside(ends: tuple[float, float], before: float, points: int) -> Vector:
    """Values between the range and a value outside of it, denser near the range."""
    end = min(max(before, ends[0]), ends[1])
    far = abs(before - end)
    if not 0.0 < far < math.inf:
        return np.empty(0)
    near = min(far, (ends[1] - ends[0]) or far) / points
    away: Vector = np.geomspace(near, far, points, endpoint=False)
    return end + math.copysign(1.0, before - end) * away


def _codes(model: LoadedModel, X: Vector) -> NDArray[Any]:
    return np.array(score_rows(model, X).codes)


def _values(model: LoadedModel, X: Vector) -> NDArray[Any]:
    return score_rows(model, X).value


def _ask(model: LoadedModel, X: Vector, tried: list[_Tried], asked: Any) -> list[NDArray[Any]]:
    """What is predicted for each value that is tried, by column."""
    if not tried:
        return []
    columns = np.repeat([one.column for one in tried], [len(one.values) for one in tried])
    answers = asked(model, _with(X, columns, np.concatenate([one.values for one in tried])))
    return np.split(answers, np.cumsum([len(one.values) for one in tried])[:-1])


def _with(X: Vector, columns: NDArray[np.int64], values: Vector) -> Vector:
    """The row, as often as there are values, each in its column."""
    rows = X[np.zeros(len(values), np.int64)]  # which carry the same texts
    rows[np.arange(len(values)), columns] = values
    return rows


def _thresholds(
    model: LoadedModel,
    X: Vector,
    own: int,
    searched: list[tuple[_Tried, float, float]],
    ranges: Sequence[Range],
) -> Iterator[Change]:
    """The nearest values with another label, between one that has the same and one that has not:
    all columns are halved together."""
    if not searched:
        return
    columns = np.array([one.column for one, _, _ in searched])
    same, other = (np.array([bracket[i] for bracket in searched]) for i in (1, 2))
    whole = np.array([one.whole for one, _, _ in searched])
    before = X[0, columns]
    widths = np.array([high - low for low, high in (ranges[j] or (0.0, 0.0) for j in columns)])
    widths[widths == 0.0] = np.inf

    def scale(after: Vector) -> Vector:
        least: Vector = np.minimum(np.abs(after - before), widths)
        return least

    for _ in range(MOST_ROUNDS):
        width = np.abs(other - same)
        if np.where(whole, width <= 1, width <= CLOSE * scale(other)).all():
            break
        middle = (same + other) / 2
        middle = np.where(whole, same + np.trunc(middle - same), middle)
        changed = _codes(model, _with(X, columns, middle)) != own
        other, same = np.where(changed, middle, other), np.where(changed, same, middle)
    short = SHORT * scale(other)
    brackets = zip(same.tolist(), other.tolist(), short.tolist(), whole.tolist(), strict=True)
    after = np.array([last if w else _rounded(s, last, most) for s, last, most, w in brackets])
    less = after - np.sign(after - before) * np.where(whole, 1.0, short)
    codes = _codes(model, _with(X, columns, after))
    unchanged = _codes(model, _with(X, columns, less)) == own
    best: dict[int, Change] = {}
    for i in np.flatnonzero((codes != own) & unchanged):
        j, kind = int(columns[i]), searched[i][0].kind
        low, high = ranges[j] or (0.0, 0.0)
        size = abs(float(after[i] - before[i])) / ((high - low) or 1.0)
        label = model.classes[int(codes[i])]
        change = Change(j, kind, float(before[i]), (float(after[i]),), label, size)
        if j not in best or size < best[j].size:
            best[j] = change
    yield from best.values()


def _rounded(same: float, other: float, most: float) -> float:
    """A number with few digits, as far as `other` or a little farther, but less than `most` from
    `same`, up to which the label is known to be the same."""
    if other == 0.0:
        return other
    away = math.ceil if other > same else math.floor
    exponent = math.floor(math.log10(abs(other)))
    for digits in range(1, 17):
        places = digits - 1 - exponent
        unit = 10.0**-places
        value = round(away(other / unit) * unit, places)
        far_enough = value >= other if other > same else value <= other
        if far_enough and abs(value - same) <= most:
            return value
    return other
