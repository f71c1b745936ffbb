"""Labels of sampled rows, and how much of the error of the usual guess other values remove.

The usual guess is the largest class, or of a numeric target, which counts by its ranks, the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from svm.data.matrices import Array, Indices, Mask, Vector
from svm.data.randomness import generator

SEED = 44
Predictor: TypeAlias = Callable[[Mask, Mask], Vector]
"""Predicts the second rows from the first."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Labels of n rows."""

    labels: Array
    """(n,) class numbers, or values."""

    @cached_property
    def numeric(self) -> bool:
        return bool(self.labels.dtype.kind == "f")

    @cached_property
    def y(self) -> Vector:
        """(n,) class numbers 0 … K - 1 of those that there are, or ranks in 0 … 1."""
        codes = np.unique(self.labels, return_inverse=True)[1]
        if not self.numeric:
            return codes.astype(np.float64)
        counts = np.bincount(codes)
        ranks = np.cumsum(counts) - (counts + 1) / 2
        return np.asarray(ranks[codes] / max(1, len(codes) - 1))

    @cached_property
    def half(self) -> Mask:
        """(n,) a random half of the rows."""
        return np.asarray(generator("split", SEED).permutation(len(self.labels)) % 2 == 0)

    def usual(self, rows: Mask) -> float:
        """The usual guess of these rows."""
        if self.numeric:
            return float(self.y[rows].mean())
        return float(np.bincount(self.y[rows].astype(np.int64)).argmax())

    def errors(self, rows: Mask | Indices, predicted: Vector | float) -> float:
        """How wrong predictions of these rows are in sum."""
        if self.numeric:
            return float(np.square(self.y[rows] - predicted).sum())
        return float(np.count_nonzero(self.y[rows] != predicted))

    def by_level(self, levels: Indices, rows: Mask, n_levels: int) -> Vector:
        """(n_levels,) the guess of each level from these rows; NaN without any."""
        guesses = np.full(n_levels, np.nan)
        if self.numeric:
            counts = np.bincount(levels[rows], minlength=n_levels)
            sums = np.bincount(levels[rows], self.y[rows], n_levels)
            return np.asarray(np.divide(sums, counts, out=guesses, where=counts > 0))
        pairs, counts = self.pairs(levels, rows)
        order = np.argsort(counts, kind="stable")  # of each level the most frequent comes last
        guesses[pairs[order, 0]] = pairs[order, 1]
        return guesses

    def pairs(self, levels: Indices, rows: Mask) -> tuple[Indices, Indices]:
        """The different pairs of level and class, (n_pairs, 2), and how many rows have each."""
        n_classes = int(self.y.max()) + 1
        together = levels[rows] * n_classes + self.y[rows].astype(np.int64)
        pairs, counts = np.unique(together, return_counts=True)
        return np.stack(np.divmod(pairs, n_classes), axis=1), counts

    def share_by_levels(self, levels: Indices) -> float:
        """The share of the error that the levels remove, held out in two halves."""
        n_levels = int(levels.max()) + 1

        def predict(train: Mask, test: Mask) -> Vector:
            guesses = self.by_level(levels, train, n_levels)[levels[test]]
            return np.where(np.isnan(guesses), self.usual(train), guesses)

        return self._held_out(predict)

    def share_by_neighbors(self, x: Vector) -> float:
        """The same of numbers, NaN if missing, by a vote of the three nearest."""
        missing = np.isnan(x)

        def predict(train: Mask, test: Mask) -> Vector:
            guesses = np.full(np.count_nonzero(test), self.usual(train))
            if (train & missing).any():
                guesses[missing[test]] = self.usual(train & missing)
            known = np.flatnonzero(train & ~missing)
            if len(known) >= 3:
                known = known[np.argsort(x[known], kind="stable")]
                guesses[~missing[test]] = self._vote(x[test & ~missing], x[known], self.y[known])
            return guesses

        return self._held_out(predict)

    def share_by_company(self, levels: Indices) -> tuple[float, float, int]:
        """The share of the error that the other rows of the same level remove, each row left out of
        its vote; the same of the rows of the neighboring levels; and how many rows have company."""
        counts = np.bincount(levels)
        rows = counts[levels] > 1
        n = int(np.count_nonzero(rows))
        usual = self.errors(rows, self.usual(rows)) if n else 0.0
        if usual == 0:
            return 0.0, 0.0, n
        if self.numeric:
            sums = np.bincount(levels, self.y)
            own = self.y[rows]
            errors = self.errors(rows, (sums[levels[rows]] - own) / (counts[levels[rows]] - 1))
        else:
            errors = self._errors_by_company(levels, rows)
        guesses = self.by_level(levels, np.ones(len(levels), bool), len(counts))
        nearby = [np.append(guesses[1:], guesses[-2]), np.append(guesses[1], guesses[:-1])]
        beside = np.mean([self.errors(rows, each[levels[rows]]) for each in nearby])
        return 1 - errors / usual, 1 - float(beside) / usual, n

    def _errors_by_company(self, levels: Indices, rows: Mask) -> float:
        """Ties count a half."""
        pairs, counts = self.pairs(levels, rows)
        order = np.lexsort((counts, pairs[:, 0]))
        level, count = pairs[order, 0], counts[order]
        last = np.append(level[1:] != level[:-1], True)
        best, second = np.zeros((2, int(level.max()) + 1), dtype=np.int64)
        best[level[last]] = count[last]
        before = np.flatnonzero(last) - 1
        same = (before >= 0) & (level[before] == level[last])
        second[level[last][same]] = count[before[same]]
        others = np.where(count == best[level], second[level], best[level])
        return float((count * ((count - 1 < others) + 0.5 * (count - 1 == others))).sum())

    def _vote(self, x: Vector, known: Vector, y: Vector) -> Vector:
        """(len(x),) from ascending `known` with labels `y`."""
        places = np.searchsorted(known, x)[:, None] + np.array([-2, -1, 0, 1])
        outside = (places < 0) | (places >= len(known))
        places = places.clip(0, len(known) - 1)
        distances = np.where(outside, np.inf, np.abs(known[places] - x[:, None]))
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :3]
        votes = y[np.take_along_axis(places, nearest, axis=1)]
        if self.numeric:
            return np.asarray(votes.mean(axis=1))
        return np.asarray(np.where(votes[:, 1] == votes[:, 2], votes[:, 1], votes[:, 0]))

    def _held_out(self, predict: Predictor) -> float:
        errors = usual = 0.0
        for train in (self.half, ~self.half):
            test = ~train
            errors += self.errors(test, predict(train, test))
            usual += self.errors(test, self.usual(train))
        return 1 - errors / usual if usual else 0.0
