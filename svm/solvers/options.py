"""Options that several stochastic solvers offer in the same words, and learning rates: a schedule
is a function of the number of updates made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from svm.data.matrices import Vector
from svm.hyperparameters import Checked, Doc, Moderate, Positive, PositiveInt
from svm.problem.problem import Order, OrderInMemory, Problem

_ORDERS = (
    "The order of the rows. `each-epoch`: a new random one every epoch. `shuffled-once`: one "
    "random order for all epochs. `given`: that of the data. `uniform`: independent draws; an "
    "epoch may visit a row never or often."
)

VisitOrderInMemory: TypeAlias = Annotated[OrderInMemory, Doc(_ORDERS)]
VisitOrder: TypeAlias = Annotated[
    Order,
    Doc(
        f"{_ORDERS} `blocks`: every row once, blocks of neighbors in a new order and the rows of "
        "16 blocks shuffled together. `blocks` and `given` can read data larger than memory."
    ),
]
STREAMING_OPTION = 'order: "blocks"'


def streams(order: Order) -> bool:
    """Whether rows are visited in an order that allows reading them from files block by block."""
    return order in ("blocks", "given")


@dataclass(frozen=True, kw_only=True)
class RandomStart(Checked):
    """Start at normally distributed weights."""

    random_scale: Moderate
    """Standard deviation of each weight; the intercept starts at 0."""

    def weights(self, problem: Problem) -> Vector:
        """(n_features,), a function of the seed and the pair."""
        w: Vector = self.random_scale * problem.random(0, "start").normal(size=problem.n_features)
        return w


@dataclass(frozen=True, kw_only=True)
class AverageAfter(Checked):
    """Average over all iterates after the first epochs."""

    after_epochs: PositiveInt
    """Epochs that are left out. A training that ends before is averaged over all iterates."""


Averaging: TypeAlias = Annotated[
    Literal["last", "suffix", "all"] | AverageAfter,
    Doc(
        "The model is the `last` iterate, the mean of `all` iterates (one an update; Polyak "
        "averaging), of those after a number of epochs, or of a `suffix`: those since the latest "
        "of epochs 1, 2, 4, 8 …, at most the later half."
    ),
]


def average_begins(averaging: Averaging, epoch: int) -> bool:
    """Whether the average begins, or begins again, with this epoch (0, 1, …)."""
    if isinstance(averaging, AverageAfter):
        return epoch in (0, averaging.after_epochs)
    return epoch == 0 or (averaging == "suffix" and epoch & (epoch - 1) == 0)


Initial: TypeAlias = Annotated[
    Literal["zero"] | RandomStart,
    Doc(
        "Weights to start from: zero, or small random ones; not used by a warm start. A first "
        "step of 1/(λt) (`pegasos`, `subgradient`) forgets them: they only judge its rows."
    ),
]

InterceptStep: TypeAlias = Annotated[
    Literal["limited", "same"],
    Doc(
        "How far update t moves a free intercept. `limited`: by the smaller of 1/(λt) and 1/√t. "
        "`same`: by 1/(λt), as the weights, although the intercept is not penalized: at first it "
        "jumps to ±1/λ, which only many updates correct."
    ),
]


def limit_of(step: InterceptStep) -> float:
    """The largest step of a free intercept in update t, times √t."""
    return 1.0 if step == "limited" else float("inf")


@dataclass(frozen=True, kw_only=True)
class InverseTime(Checked):
    """η_t = initial / (1 + decay t), after t updates."""

    power: ClassVar = 1.0
    """η_t = initial (1 + decay t)^-power."""

    name: Literal["inverse-time"] = "inverse-time"
    initial: Positive
    """η_0"""
    decay: Positive = 1.0
    """Half of η_0 is reached after 1/decay updates."""


@dataclass(frozen=True, kw_only=True)
class InverseSquareRoot(Checked):
    """η_t = initial / √(1 + decay t), after t updates."""

    power: ClassVar = 0.5
    """η_t = initial (1 + decay t)^-power."""

    name: Literal["inverse-square-root"] = "inverse-square-root"
    initial: Positive
    """η_0"""
    decay: Positive = 1.0
    """Half of η_0 is reached after 3/decay updates."""


Schedule: TypeAlias = InverseTime | InverseSquareRoot
