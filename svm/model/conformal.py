"""Split conformal prediction intervals, from the errors on rows that the model did not see.

J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, "Distribution-free predictive
inference for regression" (2018); V. Vovk, "Conditional validity of inductive conformal predictors"
(2012) for the distribution of one model's coverage. Rows to come are assumed to be of the same
kind and source as the rows of the errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from svm.data.matrices import Vector
from svm.errors import InvalidData

KEPT = 9_999
"""Errors at most: enough for a coverage of four digits, in 80 kB."""
RISK = 0.05
"""One model in twenty covers less than `least_share`."""


@dataclass(frozen=True, slots=True)
class Conformal:
    """How far from its predictions a model of numbers may be."""

    residuals: Vector
    """(n,) absolute errors, ascending; the last ones may be infinite."""

    @classmethod
    def of(cls, residuals: Vector) -> Conformal:
        """From absolute errors, (n,) in any order.

        Of more than `KEPT`, m of the n are kept, of ranks ⌈j (n + 1)/(m + 1)⌉, j = 1 … m: the rank
        ⌈c (m + 1)⌉ among these is at least ⌈c (n + 1)⌉ among all, so that no interval is narrower.
        """
        ascending = np.sort(residuals)
        n, m = len(ascending), min(len(ascending), KEPT)
        ranks = -(-np.arange(1, m + 1) * (n + 1) // (m + 1))
        return cls(ascending[ranks - 1])

    @property
    def is_sound(self) -> bool:
        """Whether these are errors in order."""
        residuals = self.residuals
        return residuals.ndim == 1 and bool(
            (residuals >= 0.0).all() and (residuals[1:] >= residuals[:-1]).all()
        )

    def allows(self, coverage: float) -> bool:
        """Whether there are errors enough."""
        return self._rank(coverage) <= self._n_finite

    @property
    def _n_finite(self) -> int:
        return int(np.isfinite(self.residuals).sum())

    def _rank(self, coverage: float) -> int:
        exact = Fraction(repr(float(coverage)))
        return math.ceil(exact * (len(self.residuals) + 1))

    def rank(self, coverage: float) -> int:
        """k = ⌈c (n + 1)⌉: the k-th smallest error is the half-width.

        Raises InvalidData (`invalid-field`) if there are fewer than k finite ones.
        """
        if not self.allows(coverage):
            message = (
                f"a coverage of {coverage:g} needs the errors of {least_rows(coverage):,} rows or "
                f"more that the model was not trained on; this one has {self._n_finite:,}"
            )
            raise InvalidData("invalid-field", message)
        return self._rank(coverage)

    def half_width(self, coverage: float) -> float:
        """Raises as `rank`."""
        return float(self.residuals[self.rank(coverage) - 1])

    def intervals(self, values: Vector, coverage: float) -> Vector:
        """(n_samples, 2): from and to for each prediction, both included. Raises as `rank`.

        The half-width is wider by the smallest step: a row whose error is equal to it, up to
        rounding, is inside.
        """
        half = np.nextafter(self.half_width(coverage), np.inf)
        return np.stack([values - half, values + half], axis=1)

    def half_widths(self, coverages: Sequence[float]) -> list[tuple[float, float]]:
        """Those of the coverages that are possible, with their half-widths."""
        return [(some, self.half_width(some)) for some in coverages if self.allows(some)]

    def mean_share(self, coverage: float) -> float:
        """k/(n + 1): the share of new rows inside the intervals, on average over all draws of the
        rows with errors; more if errors are tied. Raises as `rank`."""
        return self.rank(coverage) / (len(self.residuals) + 1)

    def least_share(self, coverage: float) -> float:
        """The share of one model is a draw from Beta(k, n + 1 - k), or more if errors are tied:
        19 models of 20 cover at least this one. Raises as `rank`."""
        from scipy.special import betaincinv  # only for those who ask

        k = self.rank(coverage)
        return float(betaincinv(k, len(self.residuals) + 1 - k, RISK))


def least_rows(coverage: float) -> int:
    """The fewest errors from which intervals of this coverage can be made."""
    exact = Fraction(repr(float(coverage)))
    return math.ceil(exact / (1 - exact))
