"""Sub-gradient descent on ‖w‖² + C Σ hinge, as in the coursework on feature transforms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from svm.classifiers import LinearClassifier
from svm.hyperparameters import Hyperparameters
from svm.problem import Problem
from svm.solvers import pegasos
from svm.solvers.pegasos import Averaging, PegasosState
from svm.solvers.protocol import Inheritance


@dataclass(frozen=True, kw_only=True)
class SubGradient(Hyperparameters):
    """Passes over the rows with step 1/(λt), for ‖w‖² + C Σ hinge: twice the usual weight of ‖w‖².

    The intercept is the weight of a constant feature. The coursework begins the step anew in each
    pass, which forgets all passes but the last; `step: "continued"` counts it over all passes and
    converges. To be used with `features`, such as `square`.
    """

    objective: ClassVar = "‖w‖² + C Σ hinge"
    cost_per_epoch: ClassVar = "n updates of O(d), or O(non-zeros of the row) for sparse data"
    reference: ClassVar = (
        "coursework on sub-gradient descent with feature transforms, corrected: λ = 2/(nC)"
    )
    suggestion: ClassVar = "give a smaller C or scale the features"
    starts_from: ClassVar[tuple[str, ...]] = ("pegasos", "subgradient")
    inherits: ClassVar = "the weights, and the count of updates by which its step size goes on"
    evaluation_growth: ClassVar = 2.0
    tests_every_update: ClassVar = False
    certifies: ClassVar = False

    name: Literal["subgradient"] = "subgradient"
    intercept: Literal["augmented"] = "augmented"
    """The weight of a constant feature, penalized in ‖w‖²."""
    order: Literal["permuted", "given"] = "permuted"
    """`permuted`: the rows of each pass in a new order. `given`: as they are in the data."""
    step: Literal["continued", "restarted"] = "continued"
    """Whether t counts over all passes, or from 1 in each: the weaker choice."""
    averaging: Averaging = "last"
    """The model is the `last` iterate, or the average over a `suffix` of the passes."""

    @property
    def streams(self) -> bool:
        return self.order == "given"

    def regularization(self, n_samples: int) -> float:
        """λ = 2/(nC), for ‖w‖² + C Σ hinge is (2/λ) times the common form."""
        return self.lambda_ if self.lambda_ is not None else 2.0 * super().regularization(n_samples)

    def stated(self, problem: Problem, primal: float) -> float:
        """‖w‖² + C Σ hinge is 2P/λ."""
        return 2.0 * primal / problem.regularization

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> PegasosState:
        """w = 0, no update made; or the inherited w, where the step size goes on."""
        return pegasos.start(problem, self.averaging, inherited)

    def advance(self, problem: Problem, state: PegasosState) -> PegasosState:
        """One pass: n_samples updates."""
        if self.step == "restarted":
            anew = pegasos.start(problem, self.averaging)
            state = replace(anew, epoch=state.epoch, updates=state.updates)
        return pegasos.advance(problem, state, self.order, project=False)

    def classifier(self, problem: Problem, state: PegasosState) -> LinearClassifier:
        return pegasos.classifier(problem, state)

    def bound(self, problem: Problem, state: PegasosState) -> float:
        return pegasos.bound(problem, state)
