"""Pegasos: primal estimated sub-gradient solver (Shalev-Shwartz, Singer, Srebro, Cotter, 2011)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from svm.classifiers import LinearClassifier
from svm.data.matrices import Floats, Vector
from svm.hyperparameters import Hyperparameters, Intercept
from svm.problem import Order, Problem
from svm.problem.objectives import dual
from svm.solvers.protocol import Inheritance, SolverState

Averaging = Literal["last", "suffix"]


@dataclass(frozen=True, kw_only=True)
class PegasosState(SolverState):
    """The iterate as a sum over violations: w = v / (λ t)."""

    v: Floats
    """(n_features,) Σ sᵢ yᵢ xᵢ over all violations so far."""
    intercept: float
    """b if it is free; the constant feature's entry of v if it is augmented."""
    violations: Vector
    """(n_samples,) how often each row was inside the margin when drawn: the dual iterate."""
    averaged_from: int = 0
    """T₀: the average is over the steps after it."""
    harmonic: float = 0.0
    v_lag: Floats
    """Empty if no average is kept; see `svm.loops.pegasos` for this and the next two."""
    intercept_sum: float = 0.0
    intercept_lag: float = 0.0


def start(
    problem: Problem, averaging: Averaging, inherited: Inheritance | None = None
) -> PegasosState:
    """w = 0, b = 0, no updates; or the inherited w, b and step size."""
    d, dtype = problem.n_features, problem.dtype
    state = PegasosState(
        v=np.zeros(d, dtype=dtype),
        intercept=0.0,
        violations=np.zeros(problem.n_samples),
        v_lag=np.zeros(d if averaging == "suffix" else 0, dtype=dtype),
    )
    if inherited is None:
        return state
    step = inherited.step_at(problem.regularization)
    scale = problem.regularization * step
    intercept = inherited.intercept_under(problem.intercept)
    return replace(
        state,
        step=step,
        averaged_from=step,
        v=(scale * inherited.w).astype(dtype),
        intercept=intercept * (scale if problem.intercept == "augmented" else 1.0),
    )


def advance(problem: Problem, state: PegasosState, order: Order, project: bool) -> PegasosState:
    """One epoch: n_samples updates, the rows in the given order."""
    from svm.loops import pegasos as loop

    treatment = {"none": loop.NONE, "augmented": loop.AUGMENTED, "free": loop.FREE}
    if len(state.v_lag) and state.epoch & (state.epoch - 1) == 0:
        # After 1, 2, 4, 8 … epochs the average is restarted, with the later half.
        state = replace(
            state,
            averaged_from=state.step,
            harmonic=0.0,
            v_lag=np.zeros_like(state.v_lag),
            intercept_sum=0.0,
            intercept_lag=0.0,
        )
    v, violations, v_lag = state.v.copy(), state.violations.copy(), state.v_lag.copy()
    numbers = state.intercept, state.harmonic, state.intercept_sum, state.intercept_lag
    step = state.step
    for operand, rows, drawn in problem.visits(state.epoch, order):
        intercept, harmonic, intercept_sum, intercept_lag = numbers
        *numbers, factor = loop.updates(  # type: ignore[assignment]
            operand,
            rows,
            drawn,
            problem.y,
            problem.weights,
            problem.regularization,
            treatment[problem.intercept],
            project,
            step,
            v,
            intercept,
            violations,
            harmonic,
            v_lag,
            intercept_sum,
            intercept_lag,
        )
        if factor != 1.0:
            violations *= factor
        step += len(drawn)
    intercept, harmonic, intercept_sum, intercept_lag = numbers
    return replace(
        state,
        epoch=state.epoch + 1,
        updates=state.updates + problem.n_samples,
        step=step,
        v=v,
        intercept=float(intercept),
        violations=violations,
        harmonic=float(harmonic),
        v_lag=v_lag,
        intercept_sum=float(intercept_sum),
        intercept_lag=float(intercept_lag),
    )


@dataclass(frozen=True, kw_only=True)
class PegasosUpdates(Hyperparameters):
    """The common part of `pegasos` and `subgradient`, which both make the updates of `advance`."""

    starts_from: ClassVar[tuple[str, ...]] = ("pegasos", "subgradient")
    inherits: ClassVar = "the weights, and the count of updates that sets its step size"
    evaluation_growth: ClassVar = 2.0
    certifies: ClassVar = False

    def classifier(self, problem: Problem, state: PegasosState) -> LinearClassifier:
        """The last iterate, or the average if one is kept."""
        v, intercept = state.v.astype(np.float64), state.intercept
        count = state.step - state.averaged_from
        if len(state.v_lag) and count > 0:
            scale = 1.0 / (problem.regularization * count)
            v = state.harmonic * v - state.v_lag
            if problem.intercept == "free":
                return LinearClassifier(scale * v, state.intercept_sum / count)
            intercept = state.harmonic * intercept - state.intercept_lag
        else:
            scale = 1.0 / (problem.regularization * max(1, state.step))
            if problem.intercept == "free":
                return LinearClassifier(scale * v, intercept)
        return LinearClassifier(scale * v, float(scale * intercept))

    def bound(self, problem: Problem, state: PegasosState) -> float:
        """D at αᵢ = n sᵢ violationsᵢ / t: w(α) is the last iterate if α is in its box."""
        counts = state.violations * (problem.n_samples / max(1, state.step))
        return dual(problem, counts * problem.weights)


@dataclass(frozen=True, kw_only=True)
class Pegasos(PegasosUpdates):
    """Stochastic sub-gradient descent on the primal with step 1/(λt).

    Update t draws a row i and sets w ← (1 - 1/t) w, plus sᵢ yᵢ xᵢ/(λt) if yᵢ f(xᵢ) < 1.
    Fast to a rough solution; λ is the natural parameter here.
    """

    objective: ClassVar = "λ/2 ‖w‖² + (1/n) Σ hinge"
    cost_per_epoch: ClassVar = "n updates of O(d), or O(non-zeros of the row) for sparse data"
    reference: ClassVar = (
        "Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: primal estimated sub-gradient solver "
        "for SVM. Mathematical Programming 127 (2011), 3-30"
    )
    suggestion: ClassVar = "give a larger lambda or scale the features"
    streaming_option: ClassVar = 'sampling: "blocks"'

    name: Literal["pegasos"] = "pegasos"
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
    `none`: the hyperplane passes through the origin."""
    sampling: Literal["permuted", "uniform", "blocks"] = "permuted"
    """`permuted`: every row once an epoch, in a new order. `uniform`: independent draws. `blocks`:
    every row once, blocks of neighbors in a new order and the rows of 16 blocks shuffled together:
    for data larger than memory."""
    averaging: Averaging = "last"
    """The model is the `last` iterate, or the average over a `suffix`: all iterates since the
    latest of epochs 1, 2, 4, 8 …: at most the later half of them."""
    project: bool = False
    """Project w onto the ball of radius 1/√λ, which contains the optimum, after every update."""

    @property
    def streams(self) -> bool:
        return self.sampling == "blocks"

    def stated(self, problem: Problem, primal: float) -> float:
        """P itself: this solver states the common form."""
        return primal

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> PegasosState:
        """w = 0, b = 0, no updates; or the inherited w, b and step size."""
        return start(problem, self.averaging, inherited)

    def advance(self, problem: Problem, state: PegasosState) -> PegasosState:
        """One epoch: n_samples updates."""
        return advance(problem, state, self.sampling, self.project)
