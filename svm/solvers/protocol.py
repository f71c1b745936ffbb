"""What the training loop asks of a solver: a step function over an explicit state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from svm.classifiers import Classifier
from svm.hyperparameters import Dtype, Intercept
from svm.problem import Problem

Stopped = Literal["", "converged"]
NOT_STOPPED: Stopped = ""


@dataclass(frozen=True, kw_only=True)
class SolverState:
    """Arrays and numbers, nothing else: a checkpoint is these fields, written down."""

    epoch: int = 0
    """Epochs finished."""
    updates: int = 0
    """Parameter updates made."""
    stopped: Stopped = NOT_STOPPED
    """`converged` once the solver's own rule says that further epochs change nothing."""


class Solver(Protocol):
    """Every method is a pure function of its arguments; `Any` stands for the solver's own state."""

    evaluation_growth: ClassVar[float]
    """Primal and dual are evaluated after 1 advance, and again whenever the count of advances has
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

    def regularization(self, n_samples: int) -> float: ...

    def stated(self, problem: Problem, primal: float) -> float:
        """The common form's primal value in the constants of the solver's own objective."""

    def start(self, problem: Problem) -> Any:
        """The state before the first epoch."""

    def advance(self, problem: Problem, state: Any) -> Any:
        """One epoch (or a fixed part of one); never changes `state`. May raise Interrupted."""

    def classifier(self, problem: Problem, state: Any) -> Classifier:
        """The classifier so far, at any moment."""

    def bound(self, problem: Problem, state: Any) -> float:
        """A lower bound of the optimum from the solver's own dual point; 0 where it has none."""
