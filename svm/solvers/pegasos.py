"""Pegasos: primal estimated sub-gradient solver (Shalev-Shwartz, Singer, Srebro, Cotter, 2011)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from svm.data.matrices import Floats, Indices, Vector
from svm.hyperparameters import Hyperparameters, Intercept, PositiveInt, UnsquaredLoss
from svm.problem.objectives import dual
from svm.problem.problem import LinearClassifier, Problem
from svm.solvers import options
from svm.solvers.protocol import Inheritance, SolverState


@dataclass(frozen=True, kw_only=True)
class PegasosState(SolverState):
    """The iterate as a sum over violations: w = v / (λ t)."""

    v: Floats
    """(n_features,) Σ sᵢ yᵢ xᵢ over all violations so far; λw before the first update."""
    intercept: float
    """b if it is free; the constant feature's entry of v if it is augmented."""
    violations: Vector
    """(n_samples,) how often each row was inside the margin when drawn: the dual iterate."""
    averaged_from: int = 0
    """The average is over the updates after this one."""
    harmonic: float = 0.0
    v_lag: Floats
    """Empty if no average is kept; see `svm.loops.pegasos` for this and the next two."""
    intercept_sum: float = 0.0
    intercept_lag: float = 0.0


def begin_average(state: PegasosState, averaging: options.Averaging) -> PegasosState:
    """The state before an epoch: without the average so far, if a new one begins."""
    if averaging == "last" or not options.average_begins(averaging, state.epoch):
        return state
    return replace(
        state,
        averaged_from=state.updates,
        harmonic=0.0,
        v_lag=np.zeros_like(state.v_lag),
        intercept_sum=0.0,
        intercept_lag=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class Pegasos(Hyperparameters):
    """Stochastic sub-gradient descent on the primal with step 1/(λt).

    Update t draws a row i and sets w ← (1 - 1/t) w, plus sᵢ yᵢ xᵢ/(λt) if yᵢ f(xᵢ) < 1; of a
    batch of rows it adds the mean of these.
    Fast to a rough solution; λ is the natural parameter here.
    """

    objective: ClassVar = "λ/2 ‖w‖² + (1/n) Σ hinge"
    cost_per_epoch: ClassVar = (
        "n updates of O(d), or O(non-zeros of the row) for sparse data; or n/k updates of k rows"
    )
    reference: ClassVar = (
        "Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: primal estimated sub-gradient solver "
        "for SVM. Mathematical Programming 127 (2011), 3-30"
    )
    suggestion: ClassVar = "give a larger lambda or scale the features"
    starts_from: ClassVar[tuple[str, ...]] = ("pegasos", "subgradient")
    inherits: ClassVar = "the weights, and the count of updates that sets its step size"
    evaluation_growth: ClassVar = 2.0
    states_common_form: ClassVar = True
    certifies: ClassVar = False
    traces_updates: ClassVar = True
    streaming_option: ClassVar = options.STREAMING_OPTION

    name: Literal["pegasos"] = "pegasos"
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
    `none`: the hyperplane passes through the origin."""
    loss: UnsquaredLoss = None
    intercept_step: options.InterceptStep = "limited"
    order: options.VisitOrder = "each-epoch"
    batch_size: PositiveInt = 1
    """k: rows of one update, whose sub-gradients are averaged. The last batch of an epoch may be
    smaller."""
    averaging: options.Averaging = "last"
    initial: options.Initial = "zero"
    project: bool = False
    """Project w onto the ball of radius 1/√λ, which contains the optimum, after every update."""

    @property
    def streams(self) -> bool:
        return options.streams(self.order)

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> PegasosState:
        """w = 0 or small, b = 0, no updates; or the inherited w, b and step size."""
        d, dtype = problem.n_features, problem.dtype
        state = PegasosState(
            v=np.zeros(d, dtype=dtype),
            intercept=0.0,
            violations=np.zeros(problem.n_samples),
            v_lag=np.zeros(0 if self.averaging == "last" else d, dtype=dtype),
        )
        if inherited is None:
            if self.initial == "zero":
                return state
            v = problem.regularization * self.initial.weights(problem)
            with np.errstate(over="ignore"):  # too large for float32, but soon forgotten
                return replace(state, v=v.astype(dtype))
        step = inherited.step_at(problem.regularization)
        scale = problem.regularization * step
        intercept = inherited.intercept_under(problem.intercept)
        return replace(
            state,
            step=step,
            v=(scale * inherited.w).astype(dtype),
            intercept=intercept * (scale if problem.intercept == "augmented" else 1.0),
        )

    def advance(self, problem: Problem, state: PegasosState) -> PegasosState:
        """One epoch: n_samples visits, an update for each batch of them."""
        n, size = problem.n_samples, self._size(problem)
        per_epoch = -(-n // size)
        done = state.updates % per_epoch
        if done == 0:
            state = begin_average(state, self.averaging)
        updates = problem.updates_left(state.updates, per_epoch - done)
        first, last = done * size, min(n, (done + updates) * size)
        visits = problem.visits(state.epoch, self.order, first, last)
        epoch = (state.updates + updates) // per_epoch
        return self._update(problem, state, visits, n - first, epoch)

    def learn(self, problem: Problem, state: PegasosState) -> PegasosState:
        """The state after one update for each row, in the order given; `state` may be of other
        rows."""
        n = problem.n_samples
        state = begin_average(replace(state, violations=np.zeros(n)), self.averaging)
        visits = problem.visits(0, "given")
        return self._update(problem, state, visits, n, state.epoch + 1)

    def _update(
        self,
        problem: Problem,
        state: PegasosState,
        visits: Iterable[tuple[Any, Indices, Indices]],
        to_come: int,
        epoch: int,
    ) -> PegasosState:
        """An update for each batch of `visits`; `to_come` visits are left of the epoch. `epoch` is
        how many are finished then."""
        from svm.loops import pegasos as loop

        v, violations, v_lag = state.v.copy(), state.violations.copy(), state.v_lag.copy()
        intercept, step, size = state.intercept, state.step, self._size(problem)
        averages = state.harmonic, state.intercept_sum, state.intercept_lag
        treatment = {"none": loop.NONE, "augmented": loop.AUGMENTED, "free": loop.FREE}
        fixed = (
            *(problem.y, problem.margins, problem.weights),
            *(problem.regularization, treatment[problem.intercept]),
            *(self.project, options.limit_of(self.intercept_step), v, violations, v_lag),
        )
        forgets = step == 0 and bool(v.any() or (problem.intercept == "augmented" and intercept))
        seen, pending, pending_total = 0, v[:0], 0.0
        if size > 1 or forgets:
            pending = np.zeros_like(v)
        for operand, rows, drawn in visits:
            singles = drawn[int(forgets and step == 0) :] if size == 1 else drawn[:0]
            if some := len(drawn) - len(singles):
                intercept, averages, factor, step, to_come, seen, pending_total = loop.batches(
                    *(operand, rows, drawn[:some], *fixed, step, intercept, averages),
                    *(size, to_come, seen, pending, pending_total),
                )
                violations *= factor
            if len(singles):
                intercept, averages, factor = loop.updates(
                    operand, rows, singles, *fixed, step, intercept, averages
                )
                step += len(singles)
                if factor != 1.0:
                    violations *= factor
        return PegasosState(
            epoch=epoch,
            updates=state.updates + step - state.step,
            step=step,
            v=v,
            intercept=float(intercept),
            violations=violations,
            averaged_from=state.averaged_from,
            harmonic=float(averages[0]),
            v_lag=v_lag,
            intercept_sum=float(averages[1]),
            intercept_lag=float(averages[2]),
        )

    def _size(self, problem: Problem) -> int:
        """Rows of a batch."""
        return max(1, min(self.batch_size, problem.n_samples))

    def visits(self, problem: Problem, state: PegasosState) -> float:
        """Rows read by all updates so far."""
        n, size = problem.n_samples, self._size(problem)
        within = state.updates % -(-n // size)
        return float(state.epoch * n + within * size)

    def classifier(self, problem: Problem, state: PegasosState) -> LinearClassifier:
        """The last iterate, or the average if one is kept."""
        v, intercept = state.v.astype(np.float64), state.intercept
        count = state.updates - state.averaged_from
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
