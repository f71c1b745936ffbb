"""Batch, mini-batch and stochastic (sub-)gradient descent on ½‖w‖² + C Σ hinge."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from svm.data.matrices import Vector
from svm.hyperparameters import Hyperparameters, Intercept, Positive, PositiveInt, UnsquaredLoss
from svm.problem.objectives import primal
from svm.problem.passes import Pass, Run
from svm.problem.problem import LinearClassifier, Problem
from svm.solvers import options
from svm.solvers.protocol import NOT_STOPPED, Inheritance, SolverState
from svm.stopping import smoothed_change

BLOCKS_AT_ONCE = 4
"""Blocks of work in one `advance` if the cost is computed after every update."""


@dataclass(frozen=True, kw_only=True)
class GradientDescentState(SolverState):
    """The iterate, and the values of the cost-change rule."""

    w: Vector
    """(n_features,)"""
    intercept: float
    cost: float
    """½‖w‖² + C Σ hinge at the iterate if the cost-change rule needs it, else 0."""
    change: float
    """Smoothed cost change in percent."""
    averaged_from: int = 0
    """The average is over the updates after this one."""
    w_sum: Vector = field(default_factory=lambda: np.empty(0))
    """(n_features,) of the iterates that are averaged; empty if no average is kept."""
    intercept_sum: float = 0.0


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Hyperparameters):
    """Sub-gradient descent with a fixed or falling learning rate on batches of any size.

    w ← w - η (r w - C Σ sᵢ yᵢ xᵢ), the sum over the rows of the batch with yᵢ f(xᵢ) < 1. The last
    batch of an epoch may be short. With the cost-change rule the full cost is computed after every
    update.
    """

    objective: ClassVar = "½‖w‖² + C Σ hinge"
    cost_per_epoch: ClassVar = (
        "n/b updates of O(b d); with the cost-change rule O(n d) more for every update"
    )
    reference: ClassVar = "Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, section 12.3"
    suggestion: ClassVar = "give a smaller learning_rate"
    starts_from: ClassVar = "linear"
    inherits: ClassVar = "the weights, and the count of updates by which a learning rate falls"
    evaluation_growth: ClassVar = 2.0
    tests_every_update: ClassVar = True
    certifies: ClassVar = False
    traces_updates: ClassVar = True
    own_loops: ClassVar = ({"batch_size": 1},)
    streaming_option: ClassVar = options.STREAMING_OPTION

    name: Literal["gradient-descent"] = "gradient-descent"
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
    `none`: the hyperplane passes through the origin."""
    loss: UnsquaredLoss = None
    batch_size: PositiveInt | Literal["all"] = "all"
    """b: `all` for batch descent, which ignores `order`, 1 for stochastic descent, else
    mini-batches: that many visits after each other, at the end of an epoch fewer."""
    order: options.VisitOrder = "each-epoch"
    learning_rate: Positive | options.Schedule | None = None
    """η, a number or a schedule, acting on the sum ½‖w‖² + C Σ hinge; default
    1 / (r + C b R²), with R² the mean ‖x‖² and r = b/n, or 1 with the `whole` regularizer."""
    averaging: options.Averaging = "last"
    initial: options.Initial = "zero"
    regularizer: Literal["share", "whole"] = "share"
    """The part of ½‖w‖² in the gradient of one batch: its share b/n, which solves the stated
    problem, or all of it, as in the tutorial, which solves the problem with C b/n instead of C."""

    @property
    def streams(self) -> bool:
        return self.batch_size == "all" or options.streams(self.order)

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> GradientDescentState:
        w, intercept, step = np.zeros(problem.n_features), 0.0, 0
        if inherited is not None:
            w, step = inherited.w, inherited.step
            intercept = inherited.intercept_under(problem.intercept)
        elif self.initial != "zero":
            w = self.initial.weights(problem)
        cost = 0.0
        if problem.cost_change is not None:
            cost = primal(problem, w, intercept) / problem.regularization
        return GradientDescentState(
            step=step,
            w=w,
            intercept=intercept,
            cost=cost,
            change=0.0,
            w_sum=np.zeros(0 if self.averaging == "last" else len(w)),
        )

    def advance(self, problem: Problem, state: GradientDescentState) -> GradientDescentState:
        """One epoch, or as many updates of it as make `BLOCKS_AT_ONCE` blocks of work."""
        from svm.loops.gradient_descent import descend

        n, size = problem.n_samples, self._size(problem)
        if size == n:
            return self._descend_once(problem, state)
        C = 1.0 / (n * problem.regularization)
        rule = problem.cost_change
        smoothing = 0.5
        per_advance = per_epoch = -(-n // size)
        if rule is not None:
            if rule.smoothing is not None:
                smoothing = float(rule.smoothing)
            # One cost takes n_samples / block_rows blocks of work.
            per_advance = max(1, BLOCKS_AT_ONCE * problem.block_rows // n)
        done = state.updates % per_epoch
        if done == 0:
            state = self._begin_epoch(state)
        updates = problem.updates_left(state.updates, per_advance)
        at, last = done * size, min(n, (done + updates) * size)
        settings = (
            *(problem.y, problem.margins, problem.weights),
            *(C, 1.0 / n, self.regularizer == "whole"),
            *self._rate(problem, size, C),
            *(problem.intercept != "none", problem.intercept == "augmented", size),
        )
        w, intercept, cost, change = state.w.copy(), state.intercept, state.cost, state.change
        step, stopped = state.step, NOT_STOPPED
        gradient, intercept_gradient, seen = np.zeros_like(w), 0.0, 0
        w_sum, intercept_sum = state.w_sum.copy(), state.intercept_sum
        for operand, rows, drawn in problem.visits(state.epoch, self.order, at, last):
            while len(drawn) and not stopped:
                before = step
                intercept, intercept_gradient, seen, step, taken, intercept_sum = descend(
                    *(operand, rows, drawn, *settings, n - at, rule is not None, step),
                    *(w, intercept, gradient, intercept_gradient, seen, w_sum, intercept_sum),
                )
                drawn, at = drawn[taken:], at + taken
                if rule is not None and step > before:
                    with np.errstate(over="ignore", invalid="ignore"):  # reported as a divergence
                        previous, cost = cost, self.stated(problem, primal(problem, w, intercept))
                        change = smoothed_change(previous, cost, change, smoothing)
                    stopped = "converged" if change < rule.epsilon else NOT_STOPPED
            if stopped:
                break
        updates = state.updates + step - state.step
        return GradientDescentState(
            epoch=updates // per_epoch,
            updates=updates,
            step=step,
            stopped=stopped,
            w=w,
            intercept=float(intercept),
            cost=float(cost),
            change=float(change),
            averaged_from=state.averaged_from,
            w_sum=w_sum,
            intercept_sum=float(intercept_sum),
        )

    def _begin_epoch(self, state: GradientDescentState) -> GradientDescentState:
        """The state at the begin of an epoch, with a new average if one begins there."""
        if not options.average_begins(self.averaging, state.epoch):
            return state
        average = np.zeros_like(state.w_sum)
        return replace(state, averaged_from=state.updates, w_sum=average, intercept_sum=0.0)

    def _descend_once(self, problem: Problem, state: GradientDescentState) -> GradientDescentState:
        """One update with all rows: a sum over them."""
        n, d, state = problem.n_samples, problem.n_features, self._begin_epoch(state)
        rule, C = problem.cost_change, 1.0 / (n * problem.regularization)
        w, b = state.w, float(state.intercept)

        violations = problem.compute(Pass(_add_violations, (w, b), size=d + 1)).total
        rate, decay, power = self._rate(problem, n, C)
        rate *= (1.0 + decay * state.step) ** -power
        cost, change, stopped = state.cost, state.change, NOT_STOPPED
        with np.errstate(over="ignore", invalid="ignore"):  # reported as a divergence
            w = w - rate * (w - C * violations[:d])
            if problem.intercept != "none":
                penalized = b if problem.intercept == "augmented" else 0.0
                b -= rate * (penalized - C * float(violations[d]))
            if rule is not None:
                cost = self.stated(problem, primal(problem, w, b))
                smoothing = 0.0 if rule.smoothing is None else float(rule.smoothing)
                change = smoothed_change(state.cost, cost, change, smoothing)
                stopped = "converged" if change < rule.epsilon else NOT_STOPPED
            averages = len(state.w_sum) > 0
            return GradientDescentState(
                epoch=state.updates + 1,
                updates=state.updates + 1,
                step=state.step + 1,
                stopped=stopped,
                w=w,
                intercept=b,
                cost=float(cost),
                change=float(change),
                averaged_from=state.averaged_from,
                w_sum=state.w_sum + w if averages else state.w_sum,
                intercept_sum=float(state.intercept_sum + b),
            )

    def visits(self, problem: Problem, state: GradientDescentState) -> float:
        """With the cost-change rule, all rows after every update, too."""
        n, size = problem.n_samples, self._size(problem)
        within = state.updates % -(-n // size)
        passes = state.epoch + (0 if problem.cost_change is None else state.updates)
        return float(passes * n + within * size)

    def classifier(self, problem: Problem, state: GradientDescentState) -> LinearClassifier:
        """The last iterate, or the average if one is kept."""
        count = state.updates - state.averaged_from
        if len(state.w_sum) == 0 or count == 0:
            return LinearClassifier(state.w, state.intercept)
        return LinearClassifier(state.w_sum / count, state.intercept_sum / count)

    def bound(self, problem: Problem, state: GradientDescentState) -> float:
        """0: the rows inside the margin would give a useless dual point."""
        return 0.0

    def advice(self, problem: Problem) -> str:
        """A learning rate to try if this one diverges."""
        C = 1.0 / (problem.n_samples * problem.regularization)
        rate, _, power = self._rate(problem, self._size(problem), C)
        name = "initial learning rate" if power > 0.0 else "learning_rate"
        return f"give a smaller {name}: {rate / 10.0:.3g} is a tenth of the current {rate:.3g}"

    def _size(self, problem: Problem) -> int:
        """Rows of a batch."""
        n = problem.n_samples
        return n if self.batch_size == "all" else min(self.batch_size, n)

    def _rate(self, problem: Problem, size: int, C: float) -> tuple[float, float, float]:
        """(η_0, decay, power) of η_t = η_0 (1 + decay t)^-power."""
        match self.learning_rate:
            case None:
                share = 1.0 if self.regularizer == "whole" else size / problem.n_samples
                steepest = share + C * size * float(problem.squared_norms.mean())
                return 1.0 / steepest, 0.0, 0.0
            case options.InverseTime() | options.InverseSquareRoot() as schedule:
                return float(schedule.initial), float(schedule.decay), schedule.power
            case fixed:
                return float(fixed), 0.0, 0.0


def _add_violations(run: Run, w: Vector, b: float) -> None:
    from svm.loops.gradient_descent import add_violations

    d, out = len(w), run.out
    for part, operand, rows in run.parts(run.rows):
        sides = run.y[part], run.margins_of(part), run.weights_of(part)
        add_violations(operand, rows, *sides, w, b, out[:d], out[d:])
