"""Sub-gradient descent on ‖w‖² + C Σ hinge, as in the coursework on feature transforms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from svm.problem import Problem
from svm.solvers import pegasos
from svm.solvers.pegasos import Averaging, PegasosState, PegasosUpdates
from svm.solvers.protocol import Inheritance


@dataclass(frozen=True, kw_only=True)
class SubGradient(PegasosUpdates):
    """Passes over the rows with step 1/(λt), for ‖w‖² + C Σ hinge: twice the usual weight of ‖w‖².

    The intercept is the weight of a constant feature. The coursework restarts the step in each
    pass, so that only the last pass counts; `step: "continued"` counts it over all passes and
    converges. For use with `features`, such as `square`.
    """

    objective: ClassVar = "‖w‖² + C Σ hinge"
    cost_per_epoch: ClassVar = "n updates of O(d), or O(non-zeros of the row) for sparse data"
    reference: ClassVar = (
        "coursework on sub-gradient descent with feature transforms, corrected: λ = 2/(nC)"
    )
    suggestion: ClassVar = "give a smaller C or scale the features"
    streaming_option: ClassVar = 'order: "given"'

    name: Literal["subgradient"] = "subgradient"
    intercept: Literal["augmented"] = "augmented"
    """The weight of a constant feature, penalized in ‖w‖²."""
    order: Literal["permuted", "given"] = "permuted"
    """`permuted`: the rows of each pass in a new order. `given`: in the order of the data."""
    step: Literal["continued", "restarted"] = "continued"
    """Whether t counts over all passes, or from 1 in each, which is worse."""
    averaging: Averaging = "last"
    """The model is the `last` iterate, or the average over a `suffix` of the passes."""

    @property
    def streams(self) -> bool:
        return self.order == "given"

    @property
    def warm_start_obstacle(self) -> str:
        restarted = (
            "step: a restarted step discards the weights of all earlier passes; use continued"
        )
        return restarted if self.step == "restarted" else ""

    def regularization(self, n_samples: float) -> float:
        """λ = 2/(nC), since ‖w‖² + C Σ hinge is (2/λ) times the common form."""
        return self.lambda_ if self.lambda_ is not None else 2.0 * super().regularization(n_samples)

    def stated(self, problem: Problem, primal: float) -> float:
        """‖w‖² + C Σ hinge is 2P/λ."""
        return 2.0 * primal / problem.regularization

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> PegasosState:
        """w = 0, no updates; or the inherited w and step size."""
        return pegasos.start(problem, self.averaging, inherited)

    def advance(self, problem: Problem, state: PegasosState) -> PegasosState:
        """One pass: n_samples updates."""
        if self.step == "restarted":
            start = pegasos.start(problem, self.averaging)
            state = replace(start, epoch=state.epoch, updates=state.updates)
        return pegasos.advance(problem, state, self.order, project=False)
