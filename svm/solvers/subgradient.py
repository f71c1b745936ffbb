"""Sub-gradient descent on ‖w‖² + C Σ hinge, as in the coursework on feature transforms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from svm.hyperparameters import Hyperparameters, UnsquaredLoss
from svm.problem.problem import LinearClassifier, Problem
from svm.solvers import options
from svm.solvers.gradient_descent import GradientDescent
from svm.solvers.pegasos import Pegasos, PegasosState
from svm.solvers.protocol import Inheritance


@dataclass(frozen=True, kw_only=True)
class SubGradient(Hyperparameters):
    """Passes over the rows with falling steps η, for ‖w‖² + C Σ hinge: twice the usual ‖w‖².

    w ← (1 - ηλ) w, plus η sᵢ yᵢ xᵢ if yᵢ f(xᵢ) < 1. By default the intercept is the weight of a
    constant feature. For use with `features`, such as `square`.
    """

    objective: ClassVar = "‖w‖² + C Σ hinge"
    cost_per_epoch: ClassVar = (
        "n updates of O(d), or O(non-zeros of the row) for sparse data with the steps 1/(λt)"
    )
    reference: ClassVar = (
        "coursework on sub-gradient descent with feature transforms, corrected: λ = 2/(nC)"
    )
    suggestion: ClassVar = "give a smaller C or scale the features"
    starts_from: ClassVar[tuple[str, ...]] = ("pegasos", "subgradient")
    inherits: ClassVar = "the weights, and the count of updates that sets its step size"
    evaluation_growth: ClassVar = 2.0
    certifies: ClassVar = False
    traces_updates: ClassVar = True
    streaming_option: ClassVar = options.STREAMING_OPTION

    name: Literal["subgradient"] = "subgradient"
    intercept: Literal["augmented", "free"] = "augmented"
    """`augmented`: the weight of a constant feature, penalized in ‖w‖². `free`: not penalized."""
    loss: UnsquaredLoss = None
    intercept_step: options.InterceptStep = "limited"
    order: options.VisitOrder = "each-epoch"
    step: Literal["continued", "restarted", "doubled", "per-epoch"] = "continued"
    """η. `continued`: 1/(λt), with t counted over all passes. `restarted`: 1/(λt), with t from 1 in
    each pass: its first update forgets the weights of earlier passes, which only judge the first
    row. `doubled`: 2/(λt). `per-epoch`: 1/(λe) in all of pass e; late rows then count much more
    than early ones. Only `continued` and `doubled` converge. The last two move a free intercept by
    the same step η."""
    averaging: options.Averaging = "last"
    initial: options.Initial = "zero"

    @property
    def streams(self) -> bool:
        return options.streams(self.order)

    @property
    def warm_start_obstacle(self) -> str:
        match self.step:
            case "restarted":
                return (
                    "step: a restarted step discards the weights of all earlier passes; "
                    "use continued"
                )
            case "per-epoch":
                return (
                    "step: 1/(λe) discards the earlier weights in the first pass; use continued "
                    "or doubled"
                )
            case _:
                return ""

    def regularization(self, n_samples: float) -> float:
        """λ = 2/(nC), since ‖w‖² + C Σ hinge is (2/λ) times the common form."""
        return self.lambda_ if self.lambda_ is not None else 2.0 * super().regularization(n_samples)

    def stated(self, problem: Problem, primal: float) -> float:
        """‖w‖² + C Σ hinge is 2P/λ."""
        return 2.0 * primal / problem.regularization

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> Any:
        """w = 0 or small, no updates; or the inherited w and step size."""
        if inherited is not None and self.step == "doubled":
            inherited = replace(inherited, step=inherited.step_at(problem.regularization))
        return self._updates(problem, 0).start(_plain(problem), inherited)

    def advance(self, problem: Problem, state: Any) -> Any:
        """One pass: n_samples updates."""
        if self.step == "restarted" and state.updates == state.epoch * problem.n_samples:
            state = _restart(problem, state)
        return self._updates(problem, state.epoch).advance(_plain(problem), state)

    def classifier(self, problem: Problem, state: Any) -> LinearClassifier:
        """The last iterate, or the average if one is kept."""
        return self._updates(problem, state.epoch).classifier(problem, state)

    def bound(self, problem: Problem, state: Any) -> float:
        """From the violations with the steps 1/(λt), else 0."""
        return self._updates(problem, state.epoch).bound(problem, state)

    def _updates(self, problem: Problem, epoch: int) -> Pegasos | GradientDescent:
        """The solver that makes the same updates in an epoch (0, 1, …)."""
        return _same_updates(self, problem.n_samples, epoch if self.step == "per-epoch" else 0)


@lru_cache(maxsize=64)
def _same_updates(solver: SubGradient, n: int, epoch: int) -> Pegasos | GradientDescent:
    """For a problem of n rows.

    Descent on ½‖w‖² + C' Σ hinge with λ = 1/(nC') moves w by -ηλ (w - C'n Σ sᵢ yᵢ xᵢ) for the row
    drawn, if its learning rate is ηλn.
    """
    shared: dict[str, Any] = {
        "intercept": solver.intercept,
        "order": solver.order,
        "averaging": solver.averaging,
        "initial": solver.initial,
    }
    match solver.step:
        case "doubled":
            rate = options.InverseTime(initial=2.0 * n, decay=1.0)
            return GradientDescent(batch_size=1, learning_rate=rate, **shared)
        case "per-epoch":
            return GradientDescent(batch_size=1, learning_rate=n / (epoch + 1), **shared)
        case _:
            return Pegasos(intercept_step=solver.intercept_step, **shared)


def _plain(problem: Problem) -> Problem:
    """Without the cost-change rule, which is tested here once an epoch."""
    return problem if problem.cost_change is None else replace(problem, cost_change=None)


def _restart(problem: Problem, state: PegasosState) -> PegasosState:
    """The state with t = 0: its weights judge the first row, and are then forgotten."""
    t = max(1, state.step)
    augmented = problem.intercept == "augmented"
    return replace(
        state,
        step=0,
        v=state.v / t,
        intercept=state.intercept / t if augmented else state.intercept,
        violations=np.zeros_like(state.violations),
        v_lag=state.v_lag - (state.harmonic * state.v if len(state.v_lag) else 0.0),
        intercept_lag=state.intercept_lag - state.harmonic * state.intercept,
    )
