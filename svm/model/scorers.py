"""Scores of rows by a linear model, which is prepared once: of dense rows, and of raw tables."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from svm.data.columns import UNKNOWN
from svm.data.matrices import Indices, Vector
from svm.encoding.encoder import Encoder
from svm.encoding.texts import TextEncoder
from svm.transforms.scaling import Scaling

FAR = 2.0**10
"""An offset is subtracted from each row if its share of the scores is this many times that of the
scaled rows. Otherwise it is part of the intercepts, which costs at most 10 of the 53 bits."""
MISSING = UNKNOWN - 1.0


class LinearScorer:
    """X ↦ ⟨xᵢ - offset, weightsₖ⟩ + interceptsₖ, (n_samples, n_problems).

    Each row is one matrix-vector product of the same shape, so its bits depend on that row alone.
    """

    def __init__(self, offset: Vector | None, weights: Vector, intercepts: Vector) -> None:
        self.offset = offset
        self.weights, self.intercepts = (
            np.array(part, dtype=np.float64, order="C") for part in (weights, intercepts[None])
        )

    @property
    def nbytes(self) -> int:
        """Memory of the prepared arrays."""
        offset = 0 if self.offset is None else self.offset.nbytes
        return offset + self.weights.nbytes + self.intercepts.nbytes

    def __call__(self, X: Vector) -> Vector:
        """X, float64 in C order."""
        scores: Vector = np.matvec(self.weights, X if self.offset is None else X - self.offset)
        return scores + self.intercepts  # of one row, of the same shape: in half the time


def unscaled_scorer(
    scaling: Scaling, coefficients: Vector, intercepts: Vector
) -> LinearScorer | None:
    """A scorer of unscaled rows: ⟨x - offset, coefficients / scale⟩.

    None if such weights would leave the range of float64.
    """
    weights = unscaled_weights(scaling, coefficients)
    if weights is None:
        return None
    offset = scaling.offset
    if offset is not None:
        with np.errstate(all="ignore"):
            shares = np.abs(weights * offset).sum(axis=1)
            near = shares <= FAR * np.abs(coefficients).sum(axis=1)
            if near.all():
                return LinearScorer(None, weights, intercepts - np.vecdot(weights, offset))
    return LinearScorer(offset, weights, intercepts)


def unscaled_weights(scaling: Scaling, coefficients: Vector) -> Vector | None:
    """coefficients / scale, (n_problems, n_features); None if they leave the range of float64."""
    weights = unscale(scaling, coefficients)[0]
    sizes = np.abs(weights[coefficients != 0.0])
    inside = (sizes > np.finfo(np.float64).tiny) & (sizes < np.inf)
    return weights if inside.all() else None


def unscale(scaling: Scaling, coefficients: Vector) -> tuple[Vector, Vector]:
    """Weights (n_problems, n_features) and offset (n_features,) for unscaled rows. Weights may
    leave the range of float64, without a warning."""
    with np.errstate(all="ignore"):
        weights = coefficients / (1.0 if scaling.scale is None else scaling.scale)
    offset = np.zeros(coefficients.shape[1]) if scaling.offset is None else scaling.offset
    return weights, offset


class TableScorer:
    """The scores of the numbers, and one weight for each category.

    The bits of a row depend on that row alone. A cell without an output adds 0.
    """

    def __init__(
        self, encoder: Encoder, offset: Vector | None, numbers: LinearScorer, coefficients: Vector
    ) -> None:
        """`numbers` takes those of the encoder less the offset."""
        self._encoder = encoder
        self._numbers = numbers
        self._texts = [_TextScorer(*part) for part in encoder.of_texts(coefficients)]
        none = np.zeros((1, len(coefficients)))  # of the output that does not exist
        weights: Vector = np.concatenate([coefficients[:, : encoder.text_start].T, none])
        # For each category that of a missing cell, of an unknown level, then of its levels: the
        # place of a cell is its code - MISSING, from the first one on.
        places = [np.arange(*ends) for ends in pairwise([*encoder.starts, len(encoder.slots)])]
        order = [np.concatenate([each[:-3:-1], each[:-2]]) for each in places]
        slots = encoder.slots[np.concatenate([*order, np.empty(0, dtype=np.int64)])]
        self._level_weights: Vector = weights[slots]
        self._ones = np.ones(len(encoder.categories))
        # One gather and one sum make of a row its numbers less the offset and the places of its
        # categories. Matrices of one row: NumPy adds those in a third of the time.
        self._cells = np.concatenate([encoder.sources, encoder.indicated, encoder.categories])
        less = -np.zeros(encoder.n_numbers) if offset is None else -offset
        self._shift: Vector = np.concatenate([less, encoder.starts - MISSING])[None]
        self._numbers_end = encoder.n_numbers
        self._has_categories = len(encoder.categories) > 0
        self._has_indicators = len(encoder.indicated) > 0
        self._has_dates = bool(encoder.dates)
        self._indicators = slice(len(encoder.sources), encoder.n_numbers)
        self._is_simple = (
            len(coefficients) == 1
            and not self._has_dates
            and not self._texts
            and min(encoder.n_numbers, len(encoder.categories)) > 1
        )
        """Whether `_score` can take a row."""
        self._row_shift = self._shift[0]
        self._row_weights, self._intercept = numbers.weights[0], numbers.intercepts[0, 0]
        self._row_level_weights = np.ascontiguousarray(self._level_weights[:, 0])

    @property
    def nbytes(self) -> int:
        """Memory of the prepared arrays."""
        texts = sum(text.nbytes for text in self._texts)
        return self._numbers.nbytes + self._level_weights.nbytes + texts

    @property
    def values_per_row(self) -> int:
        """Values in memory for each row that is scored."""
        n_categories, n_problems = len(self._ones), self._numbers.intercepts.size
        return self._encoder.n_numbers + n_categories * n_problems

    def __call__(self, X: Vector, unknown_words: Indices | None = None) -> Vector:
        """X, raw values, float64 in C order. To `unknown_words`, (n_samples,), the number of those
        of each row is added."""
        if self._is_simple and len(X) == 1:
            score = self._score(X)
            if score is not None:
                scores = np.empty((1, 1))
                scores.fill(score)
                return scores
        scores = (
            self._of_cells(X) if len(self._cells) else self._numbers.intercepts.repeat(len(X), 0)
        )
        for text in self._texts:
            text.add(X, scores, unknown_words)
        return scores

    def _of_cells(self, X: Vector) -> Vector:
        """The scores without the texts."""
        end = self._numbers_end
        cells = np.asarray(X).take(self._cells, axis=1)
        if self._has_dates or not math.isfinite(np.vdot(cells, cells)):
            self._fill(X, cells)
        elif self._has_indicators:
            cells[:, self._indicators] = 0.0
        cells += self._shift
        scores = self._numbers(cells[:, :end])
        if self._has_categories:
            weights = self._level_weights.take(cells[:, end:].astype(np.int64), axis=0)
            scores += np.vecmat(self._ones, weights)
        return scores

    def _score(self, X: Vector) -> np.float64 | None:
        """The score of one row by one problem in half the time, with the same bits: for a single
        problem `matvec` and `vecmat` are products of two vectors, too. None if cells are missing.
        """
        cells = X.take(self._cells)
        if not math.isfinite(cells.dot(cells)):
            return None
        if self._has_indicators:
            cells[self._indicators] = 0.0
        cells += self._row_shift
        end = self._numbers_end
        score = self._row_weights.dot(cells[:end]) + self._intercept
        levels = self._row_level_weights.take(cells[end:].astype(np.int64))
        total: np.float64 = score + self._ones.dot(levels)
        return total

    def _fill(self, X: Vector, cells: Vector) -> None:
        """Set the numbers of rows with gaps or dates, and the codes of missing levels."""
        cells[:, : self._numbers_end] = self._encoder.numbers(X)
        codes = cells[:, self._numbers_end :]
        np.copyto(codes, MISSING, where=np.isnan(codes))


class _TextScorer:
    """The scores of a column of texts."""

    def __init__(self, column: int, text: TextEncoder, coefficients: Vector) -> None:
        """`coefficients`: (n_problems, n_outputs) of the text."""
        self._column, self._text = column, text
        one = len(coefficients) == 1
        self._weights = coefficients[0] if one else np.ascontiguousarray(coefficients.T)

    @property
    def nbytes(self) -> int:
        """Memory of the prepared arrays."""
        return self._weights.nbytes + self._text.prepared_bytes

    def add(self, X: Vector, scores: Vector, unknown_words: Indices | None) -> None:
        """Add those of raw rows, each by products of its own."""
        row = 0
        for entries in self._text.of_rows(X, self._column):
            if unknown_words is not None:
                unknown_words[row : row + len(entries.ends)] += entries.unknown_words
            start = 0
            for end in entries.ends.tolist():
                weights = self._weights.take(entries.outputs[start:end], axis=0)
                scores[row] += entries.values[start:end] @ weights
                row, start = row + 1, end


def table_scorer(
    encoder: Encoder, scaling: Scaling, coefficients: Vector, intercepts: Vector
) -> TableScorer | None:
    """A scorer of raw rows; None as `unscaled_scorer`.

    Offsets are subtracted, so that a missing cell that is filled with the offset adds exactly 0.
    """
    m = encoder.n_numbers
    scaling = scaling.first(m)
    weights = unscaled_weights(scaling, coefficients[:, :m])
    if weights is None:
        return None
    numbers = LinearScorer(None, weights, intercepts)
    return TableScorer(encoder, scaling.offset, numbers, coefficients)
