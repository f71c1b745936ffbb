"""What the training loop needs from a solver: a step function over an explicit state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np

from svm.data.matrices import Mask, Vector
from svm.hyperparameters import Dtype, Intercept
from svm.problem.problem import Classifier, Problem

Stopped = Literal["", "converged"]
NOT_STOPPED: Stopped = ""

MAX_STEP = 2.0**53


@dataclass(frozen=True, kw_only=True)
class SolverState:
    """Arrays and numbers, nothing else: checkpoints consist of these fields."""

    epoch: int = 0
    """Epochs finished."""
    updates: int = 0
    """Parameter updates made."""
    step: int = 0
    """t of a falling step size; updates of a warm start count too."""
    stopped: Stopped = NOT_STOPPED
    """`converged` if by the solver's own rule further epochs change nothing."""

    def at_end(self) -> Self:
        """This state without what only further epochs need."""
        return self


@dataclass(frozen=True, kw_only=True)
class Inheritance:
    """What a warm start takes from a finished binary training."""

    w: Vector
    """(n_features,); empty with a kernel."""
    intercept: float
    step: int = 1
    """t of the finished one."""
    regularization: float
    """λ of the finished one."""
    dual_coefficients: Vector = field(default_factory=lambda: np.empty(0))
    """(n_samples,) αᵢ/(λn), so that w = Σ dual_coefficientsᵢ yᵢ xᵢ; 0 for new rows. Empty unless
    the solver has them."""

    def step_at(self, regularization: float) -> int:
        """The t ≥ 1 at which 1/(λt) has the same value under another λ."""
        step = self.step * (self.regularization / regularization)
        return max(1, round(min(step, MAX_STEP)))

    def intercept_under(self, treatment: Intercept) -> float:
        return 0.0 if treatment == "none" else self.intercept


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedPair:
    """The end of a binary training that was solved beside others, and its evaluation."""

    state: Any
    primal: float
    best_primal: float
    """Of all advances."""
    dual: float
    train_error: float
    """Share of the rows on the wrong side."""
    inside: Mask
    """(n_samples,) rows on or inside the margin."""


class Solver(Protocol):
    """Every method is a pure function of its arguments; `Any` is the solver's own state."""

    evaluation_growth: ClassVar[float]
    """Primal and dual are evaluated after 1 advance, and again each time the count of updates has
    grown by this factor: 1 for a solver that computes its gap anyway, 2 for cheap rough epochs."""
    certifies: ClassVar[bool]
    """Whether `bound` approaches the optimum during training; if not, the certifier's is used."""
    needs_certifier: ClassVar[bool]
    """Whether the certifier may find a better bound after the solver has stopped."""
    tests_every_update: ClassVar[bool]
    """Whether the solver tests the cost-change rule itself; if not, it is tested every epoch."""

    @property
    def intercept(self) -> Intercept: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def streams(self) -> bool:
        """Whether the rows may stay in files (`svm.data.stored_rows`)."""

    def regularization(self, n_samples: float) -> float: ...

    def stated(self, problem: Problem, primal: float) -> float:
        """The primal value of the common form, in the constants of the solver's own objective."""

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> Any:
        """The state before the first epoch: zero, or the end of another training."""

    def advance(self, problem: Problem, state: Any) -> Any:
        """One epoch (or a fixed part of one); never changes `state`. May raise Interrupted."""

    def classifier(self, problem: Problem, state: Any) -> Classifier:
        """The classifier so far."""

    def advice(self, problem: Problem) -> str:
        """What to try if the training diverges."""

    def visits(self, problem: Problem, state: Any) -> float:
        """Rows read by all updates so far."""

    def bound(self, problem: Problem, state: Any) -> float:
        """A lower bound of the optimum from the solver's own dual point; 0 if it has none."""


@runtime_checkable
class HasDualCoefficients(Protocol):
    """A solver with a dual coefficient for every row: a warm start needs the same rows."""

    def dual_coefficients(self, problem: Problem, state: Any) -> Vector:
        """(n_samples,) ≥ 0, see `Inheritance`."""


@runtime_checkable
class HasScores(Protocol):
    """A solver whose state has the scores of all rows: evaluating it costs no pass over them."""

    def scores(self, problem: Problem, state: Any) -> Vector:
        """f(xᵢ) of the classifier so far, (n_samples,)."""


@runtime_checkable
class SolvesTogether(Protocol):
    """A solver that has a fast way for many small problems of one training."""

    def solve_together(
        self,
        problems: Sequence[Problem],
        states: Sequence[Any],
        gap: float,
        most_epochs: int,
        most_updates: int,
    ) -> Iterator[dict[int, SolvedPair]]:
        """The small ones of some problems from their `states`, which are those of their start, as
        far as they are solved to the relative gap in that number of epochs, before the last of
        which there were fewer than `most_updates`: by their position in the sequence, some at a
        time. None if that would not be sooner than one after the other."""


@runtime_checkable
class LearnsOnline(Protocol):
    """A solver that can continue on other rows."""

    def learn(self, problem: Problem, state: Any) -> Any:
        """The state after one update for each row, in the order given; `state` may be of other
        rows."""


@runtime_checkable
class UpdatesSums(Protocol):
    """A solver that updates sums over the rows from step to step, and so knows cost and errors of
    its best model."""

    def evaluation(self, problem: Problem, state: Any) -> tuple[float, float]:
        """(Primal value, share of the rows on the wrong side)."""

    def renew(self, problem: Problem, state: Any) -> Any:
        """The state with primal value and bound from sums over all rows."""


@runtime_checkable
class ChoosesSolver(Protocol):
    """Hyperparameters that leave the choice of a solver to the data."""

    def chosen(self, problems: Sequence[Problem], *, warm: bool) -> tuple[Any, Any, str]:
        """(Solver of all problems, the one that may take over or None, reason for the choice).
        `warm`: it begins from the weights of another model."""


class Certifier(Solver, Protocol):
    """A solver that computes bounds for the models of other solvers."""

    @property
    def name(self) -> str: ...

    def enclosure(self, problem: Problem, state: Any) -> tuple[float, float]:
        """(Primal value, lower bound): the optimum lies between them."""

    def work_after(self, problem: Problem, state: Any) -> float:
        """That of all steps so far, and of one more; 0 if it is always worth taking."""
