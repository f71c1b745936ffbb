"""Which answers to withhold: those less certain than a share of the answers to known classes.

The rule is that of `conformal`, for the certainty of an answer in place of an error: new rows of
known classes are assumed to be of the same kind and source as those of the certainties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from svm.data.matrices import Vector
from svm.errors import InvalidData
from svm.model.conformal import Conformal

CONFIDENCE = 0.95
"""19 models of 20 withhold a share inside of `share_interval`."""
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Usual ones to withhold."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """How certain the answers to rows of known classes are that the model did not see."""

    decisions: Vector
    """(n,) what `multiclass.certainty` gives, ascending."""

    @classmethod
    def of(cls, decisions: Vector) -> Rejection:
        """From certainties, (n,) in any order. Of many some are kept, as `Conformal.of` does: no
        threshold is higher."""
        return cls(-Conformal.of(-np.nan_to_num(decisions)).residuals[::-1])

    @property
    def is_sound(self) -> bool:
        """Whether these are certainties in order."""
        decisions = self.decisions
        ascending = bool((decisions[1:] >= decisions[:-1]).all())
        return decisions.ndim == 1 and ascending and bool(np.isfinite(decisions).all())

    def allows(self, withheld: float) -> bool:
        """Whether there are rows enough."""
        return self._rank(withheld) > 0

    def _rank(self, withheld: float) -> int:
        return math.floor(Fraction(repr(float(withheld))) * (len(self.decisions) + 1))

    def rank(self, withheld: float) -> int:
        """k = ⌊s (n + 1)⌋: answers less certain than the k-th smallest are withheld.

        Raises InvalidData (`invalid-field`) if k is 0.
        """
        if not self.allows(withheld):
            message = (
                f"to withhold a share of {withheld:g} needs {least_rows(withheld):,} rows or more "
                f"that the model was not trained on; this one has {len(self.decisions):,}"
            )
            raise InvalidData("invalid-field", message)
        return self._rank(withheld)

    def threshold(self, withheld: float) -> float:
        """The smallest certainty that is answered. Raises as `rank`."""
        return float(self.decisions[self.rank(withheld) - 1])

    def thresholds(self, shares: Sequence[float]) -> list[tuple[float, float]]:
        """Those of the shares that are possible, with their thresholds."""
        return [(some, self.threshold(some)) for some in shares if self.allows(some)]

    def mean_share(self, withheld: float) -> float:
        """k/(n + 1): the share of answers to new rows of known classes that are withheld, on
        average over all draws of the rows; less if certainties are tied. Raises as `rank`."""
        return self.rank(withheld) / (len(self.decisions) + 1)

    def share_interval(self, withheld: float) -> tuple[float, float]:
        """The share of one model is a draw from Beta(k, n + 1 - k), or less if certainties are
        tied: its central interval of `CONFIDENCE`. Raises as `rank`."""
        from scipy.special import betaincinv  # only for those who ask

        k, tail = self.rank(withheld), (1.0 - CONFIDENCE) / 2.0
        low, high = betaincinv(k, len(self.decisions) + 1 - k, [tail, 1.0 - tail])
        return float(low), float(high)


def least_rows(withheld: float) -> int:
    """The fewest rows from which this share can be withheld."""
    return math.ceil(1 / Fraction(repr(float(withheld)))) - 1
