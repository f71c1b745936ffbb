"""What the training loop asks of a solver: a step function over an explicit state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from svm.classifiers import Classifier
from svm.data.matrices import Vector
from svm.hyperparameters import Dtype, Intercept
from svm.problem import Problem

Stopped = Literal["", "converged"]
NOT_STOPPED: Stopped = ""

LINEAR = ("pegasos", "subgradient", "gradient-descent", "dual-coordinate-descent", "newton")
"""The solvers whose models are weights."""
MAX_STEP = 2.0**53


@dataclass(frozen=True, kw_only=True)
class SolverState:
    """Arrays and numbers, nothing else: a checkpoint is these fields, written down."""

    epoch: int = 0
    """Epochs finished."""
    updates: int = 0
    """Parameter updates made."""
    step: int = 0
    """t, by which the step size falls, where it does: inherited updates count too."""
    stopped: Stopped = NOT_STOPPED
    """`converged` once the solver's own rule says that further epochs change nothing."""


@dataclass(frozen=True, kw_only=True)
class Inheritance:
    """What a finished binary training leaves to one that begins where it ended."""

    w: Vector
    """(n_features,); empty with a kernel."""
    intercept: float
    step: int
    """t of the finished one."""
    regularization: float
    """λ of the finished one."""
    dual_coefficients: Vector
    """(n_samples,) αᵢ/(λn), so that w = Σ dual_coefficientsᵢ yᵢ xᵢ; 0 for rows that it did not
    have. Empty unless the solver works on them."""

    def step_at(self, regularization: float) -> int:
        """The t ≥ 1 at which 1/(λt) is what it was, under another λ."""
        step = self.step * (self.regularization / regularization)
        return max(1, round(min(step, MAX_STEP)))

    def intercept_under(self, treatment: Intercept) -> float:
        return 0.0 if treatment == "none" else self.intercept


class Solver(Protocol):
    """Every method is a pure function of its arguments; `Any` stands for the solver's own state."""

    evaluation_growth: ClassVar[float]
    """Primal and dual are evaluated after 1 advance, and again whenever the count of updates has
    grown by this factor: 1 for a solver that knows its gap, 2 for cheap rough epochs."""
    certifies: ClassVar[bool]
    """Whether `bound` approaches the optimum as the training goes on; else the certifier helps."""
    tests_every_update: ClassVar[bool]
    """Whether the solver tests the cost-change rule itself; else it is tested once an epoch."""
    suggestion: ClassVar[str]
    """What to try where the training diverged."""

    @property
    def intercept(self) -> Intercept: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def streams(self) -> bool:
        """Whether the rows may stay in files (`svm.data.stored_rows`)."""

    def regularization(self, n_samples: int) -> float: ...

    def stated(self, problem: Problem, primal: float) -> float:
        """The common form's primal value in the constants of the solver's own objective."""

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> Any:
        """The state before the first epoch: zero, or where another training ended."""

    def advance(self, problem: Problem, state: Any) -> Any:
        """One epoch (or a fixed part of one); never changes `state`. May raise Interrupted."""

    def classifier(self, problem: Problem, state: Any) -> Classifier:
        """The classifier so far, at any moment."""

    def bound(self, problem: Problem, state: Any) -> float:
        """A lower bound of the optimum from the solver's own dual point; 0 where it has none."""


@runtime_checkable
class WorksOnRows(Protocol):
    """A solver that hands down a number for every row; to go on from it takes the same rows."""

    def dual_coefficients(self, problem: Problem, state: Any) -> Vector:
        """(n_samples,) ≥ 0, see `Inheritance`."""


@runtime_checkable
class KnowsScores(Protocol):
    """A solver whose state holds the scores of all rows, so that evaluating costs no pass."""

    def scores(self, problem: Problem, state: Any) -> Vector:
        """f(xᵢ) of its classifier, (n_samples,)."""


class Certifier(Protocol):
    """A solver by which the models of others are certified."""

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> Any: ...

    def advance(self, problem: Problem, state: Any) -> Any: ...

    def enclosure(self, problem: Problem, state: Any) -> tuple[float, float]:
        """What the optimum lies between, by this state: a primal value, and a bound."""
