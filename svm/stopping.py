"""When a training ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from svm.hyperparameters import Checked, Fraction, Positive, PositiveInt

DEFAULT_MAX_EPOCHS = 1000
DEFAULT_DUALITY_GAP = 1e-3


class StopReason(StrEnum):
    """Why a training ended, and what to do about it. Of several pairs the first reason counts."""

    advice: str

    CANCELED = "canceled", "It was canceled: train again, or start a training from this model."
    STALLED = (
        "stalled",
        "The solver can make no more progress, and the gap is not proven: scale the features, give "
        "a smaller C, or use newton, or smo with a kernel.",
    )
    TIME_BUDGET = "time-budget", "Its time was up: give a larger time_budget_s."
    MAX_EPOCHS = "max-epochs", "Its epochs were used up: give more, or scale the features."
    MAX_UPDATES = "max-updates", "Its updates were used up: give more, or scale the features."
    PATIENCE = (
        "patience",
        "The error on the validation set fell no further; the model is that of its lowest error.",
    )
    CONVERGED = "converged", "The rule that was asked for says that more epochs change little."
    GAP_REACHED = "gap-reached", "The duality gap that was asked for is proven."

    def __new__(cls, value: str, advice: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.advice = advice
        return member

    @property
    def converged(self) -> bool:
        """Whether the gap that was asked for is proven, or the rule that was asked for was met."""
        return self in (StopReason.GAP_REACHED, StopReason.CONVERGED, StopReason.PATIENCE)


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

    Nothing given means a relative duality gap of 1e-3 or 1,000 epochs. With a gap alone, the limit
    of 1,000 epochs still applies, unless there is another one; `max_epochs`, `max_updates` or
    `cost_change` alone are the only rule.
    """

    max_epochs: PositiveInt | None = None
    """Passes over the data (Newton steps for `newton`), of each pair of classes."""
    max_updates: PositiveInt | None = None
    """Updates of each pair of classes: T of the stochastic solvers. The training ends after exactly
    that many, in the middle of an epoch too; for `newton` an update is a step, for the dual solvers
    a change of one or two dual variables."""
    duality_gap: Positive | None = None
    """Relative: (primal - dual) / primal."""
    cost_change: CostChange | None = None
    """Stop when the cost hardly changes."""
    patience: PositiveInt | None = None
    """Epochs without a lower error on the validation set, after which a pair of classes stops. The
    model is then that of the epoch with the lowest error, the first one of several. The error is
    computed after every epoch; if another rule ends the training, the model is the last one."""
    time_budget_s: Positive | None = None
    """Seconds of training, all attempts together; an epoch that has begun is finished. Results
    under a budget are not reproducible."""

    def resolve(self) -> Stopping:
        """These conditions with the defaults written out."""
        if (self.cost_change, self.max_epochs, self.max_updates) != (None, None, None):
            return self
        gap = DEFAULT_DUALITY_GAP if self.duality_gap is None else self.duality_gap
        return replace(self, max_epochs=DEFAULT_MAX_EPOCHS, duality_gap=gap)


def smoothed_change(previous: float, cost: float, change: float, smoothing: float) -> float:
    """Δ_k from f_{k-1}, f_k and Δ_{k-1} (see `CostChange`)."""
    percent = 100.0 * abs(previous - cost) / previous
    return smoothing * change + (1.0 - smoothing) * percent
