"""Pegasos: primal estimated sub-gradient solver (Shalev-Shwartz, Singer, Srebro, Cotter, 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from svm.classifiers import LinearClassifier
from svm.hyperparameters import Hyperparameters, Intercept
from svm.matrices import Floats, Indices
from svm.objectives import dual
from svm.problem import Problem
from svm.solvers.protocol import NOT_STOPPED, SolverState


@dataclass(frozen=True, kw_only=True)
class PegasosState(SolverState):
    """The iterate as a sum over violations: w = v / (λ t)."""

    v: Floats
    """(n_features,) Σ sᵢ yᵢ xᵢ over all violations so far."""
    intercept: float
    """b where it is free; the constant feature's entry of v where it is augmented."""
    violations: Indices
    """(n_samples,) how often each row was inside the margin when drawn: the dual iterate."""


@dataclass(frozen=True, kw_only=True)
class Pegasos(Hyperparameters):
    """Stochastic sub-gradient descent on the primal with step 1/(λt).

    Update t draws a row i and sets w ← (1 - 1/t) w, plus sᵢ yᵢ xᵢ/(λt) where yᵢ f(xᵢ) < 1.
    Fast to a rough solution; λ is the natural parameter here.
    """

    objective: ClassVar = "λ/2 ‖w‖² + (1/n) Σ hinge"
    cost_per_epoch: ClassVar = "n updates of O(d), or O(non-zeros of the row) for sparse data"
    reference: ClassVar = (
        "Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: primal estimated sub-gradient solver "
        "for SVM. Mathematical Programming 127 (2011), 3-30"
    )
    suggestion: ClassVar = "give a larger lambda or scale the features"
    evaluation_growth: ClassVar = 2.0
    tests_every_update: ClassVar = False
    certifies: ClassVar = False

    name: Literal["pegasos"] = "pegasos"
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
    `none`: the hyperplane passes through the origin."""
    sampling: Literal["permuted", "uniform"] = "permuted"
    """`permuted`: every row once an epoch, in a new order. `uniform`: independent draws."""

    def stated(self, problem: Problem, primal: float) -> float:
        """This solver states the common form itself."""
        return primal

    def start(self, problem: Problem) -> PegasosState:
        """w = 0, b = 0, no update made."""
        return PegasosState(
            v=np.zeros(problem.n_features, dtype=problem.X.dtype),
            intercept=0.0,
            violations=np.zeros(problem.n_samples, dtype=np.int64),
        )

    def advance(self, problem: Problem, state: PegasosState) -> PegasosState:
        """One epoch: n_samples updates."""
        from svm.loops import pegasos as loop

        treatment = {"none": loop.NONE, "augmented": loop.AUGMENTED, "free": loop.FREE}
        n = problem.n_samples
        if self.sampling == "permuted":
            order = problem.permutation(state.epoch)
        else:
            order = problem.random(state.epoch).integers(n, size=n)
        v, violations, intercept = state.v.copy(), state.violations.copy(), state.intercept
        for part in problem.blocks(n):
            intercept = loop.updates(
                problem.operand,
                problem.rows,
                order[part],
                problem.y,
                problem.weights,
                problem.regularization,
                treatment[problem.intercept],
                state.updates + part.start,
                v,
                intercept,
                violations,
            )
        return PegasosState(
            epoch=state.epoch + 1,
            updates=state.updates + n,
            stopped=NOT_STOPPED,
            v=v,
            intercept=float(intercept),
            violations=violations,
        )

    def classifier(self, problem: Problem, state: PegasosState) -> LinearClassifier:
        scale = 1.0 / (problem.regularization * max(1, state.updates))
        intercept = state.intercept * (scale if problem.intercept == "augmented" else 1.0)
        return LinearClassifier(scale * state.v.astype(np.float64), float(intercept))

    def bound(self, problem: Problem, state: PegasosState) -> float:
        """D at αᵢ = n sᵢ violationsᵢ / t: w(α) is the iterate itself while α is in its box."""
        counts = state.violations * (problem.n_samples / max(1, state.updates))
        return dual(problem, counts * problem.weights)
