"""When a training ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from svm.hyperparameters import Checked, Fraction, Positive, PositiveInt

StopReason = Literal["converged", "gap-reached", "max-epochs", "time-budget", "canceled"]

DEFAULT_MAX_EPOCHS = 1000
DEFAULT_DUALITY_GAP = 1e-3


@dataclass(frozen=True, kw_only=True)
class CostChange(Checked):
    """The percentage-cost-change rule: stop when the smoothed relative change is below ε.

    Δ% = 100 |f_{k-1} - f_k| / f_{k-1};  Δ_k = s Δ_{k-1} + (1 - s) Δ%, Δ_0 = 0;  stop if Δ_k < ε.
    `gradient-descent` tests after every update, the other solvers after every epoch.
    """

    epsilon: Positive
    """ε, in percent."""
    smoothing: Fraction | None = None
    """s; by default 0 for batch descent and for the solvers that test once an epoch, else 0.5."""


@dataclass(frozen=True, kw_only=True)
class Stopping(Checked):
    """The first of the given conditions ends a training.

    Nothing given means a relative duality gap of 1e-3 or 1,000 epochs. A gap alone is joined by
    the 1,000 epochs; `max_epochs` alone and `cost_change` alone stand for themselves.
    """

    max_epochs: PositiveInt | None = None
    """Passes over the data (Newton steps for `newton`), of each pair of classes."""
    duality_gap: Positive | None = None
    """Relative: (primal - dual) / primal."""
    cost_change: CostChange | None = None
    """Stop where the cost hardly changes."""
    time_budget_s: Positive | None = None
    """Seconds of training, all attempts together; the epoch that has begun is brought to its end.
    Results under a budget are not reproducible."""

    def resolved(self) -> Stopping:
        """The same conditions with the defaults written out."""
        max_epochs, duality_gap = self.max_epochs, self.duality_gap
        if self.cost_change is None and max_epochs is None:
            max_epochs = DEFAULT_MAX_EPOCHS
            if duality_gap is None:
                duality_gap = DEFAULT_DUALITY_GAP
        return Stopping(
            max_epochs=max_epochs,
            duality_gap=duality_gap,
            cost_change=self.cost_change,
            time_budget_s=self.time_budget_s,
        )


def smoothed_change(previous: float, cost: float, change: float, smoothing: float) -> float:
    """Δ_k from f_{k-1}, f_k and Δ_{k-1} (see `CostChange`)."""
    percent = 100.0 * abs(previous - cost) / previous
    return smoothing * change + (1.0 - smoothing) * percent
