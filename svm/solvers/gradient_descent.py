"""Batch, mini-batch and stochastic (sub-)gradient descent on ½‖w‖² + C Σ hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from svm.classifiers import LinearClassifier
from svm.data.matrices import Vector
from svm.hyperparameters import Checked, Hyperparameters, Intercept, Moderate, Positive, PositiveInt
from svm.problem import Order, Problem
from svm.problem.objectives import primal
from svm.schedules import InverseSquareRoot, InverseTime, Schedule
from svm.solvers.protocol import LINEAR, NOT_STOPPED, Inheritance, SolverState
from svm.stopping import smoothed_change

BLOCKS_AT_ONCE = 4
"""Blocks of work in one `advance` if the cost is computed after every update."""


@dataclass(frozen=True, kw_only=True)
class RandomStart(Checked):
    """Start at normally distributed weights."""

    random_scale: Moderate
    """Standard deviation of each weight; the intercept starts at 0."""


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
    suggestion: ClassVar = "give a smaller learning_rate: a tenth of the current one"
    starts_from: ClassVar[tuple[str, ...]] = LINEAR
    inherits: ClassVar = "the weights, and the count of updates by which a learning rate falls"
    evaluation_growth: ClassVar = 2.0
    tests_every_update: ClassVar = True
    certifies: ClassVar = False
    streaming_option: ClassVar = 'sampling: "blocks"'

    name: Literal["gradient-descent"] = "gradient-descent"
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
    `none`: the hyperplane passes through the origin."""
    batch_size: PositiveInt | Literal["all"] = "all"
    """b: `all` for batch descent, 1 for stochastic descent, else mini-batches."""
    sampling: Literal["permuted", "blocks"] = "permuted"
    """For batches of less than all rows. `permuted`: each epoch takes the rows in a new order.
    `blocks`: it takes blocks of neighbors in a new order, and shuffles the rows of 16 blocks
    together: for data larger than memory."""
    learning_rate: Positive | Schedule | None = None
    """η, a number or a schedule, acting on the sum ½‖w‖² + C Σ hinge; default
    1 / (b/n + C b R²) with R² the mean ‖x‖²."""
    initial: Literal["zero"] | RandomStart = "zero"
    """Weights to start from: zero, or small random ones; not used by a warm start."""
    regularizer: Literal["share", "whole"] = "share"
    """The part of ½‖w‖² in the gradient of one batch: its share b/n, which solves the stated
    problem, or all of it, as in the tutorial, which solves the problem with C b/n instead of C."""

    @property
    def streams(self) -> bool:
        return self.batch_size == "all" or self.sampling == "blocks"

    def stated(self, problem: Problem, primal: float) -> float:
        """½‖w‖² + C Σ hinge is P/λ."""
        return primal / problem.regularization

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> GradientDescentState:
        w, intercept, step = np.zeros(problem.n_features), 0.0, 0
        if inherited is not None:
            w, step = inherited.w, inherited.step
            intercept = inherited.intercept_under(problem.intercept)
        elif isinstance(self.initial, RandomStart):
            w = self.initial.random_scale * problem.random(0, "start").normal(size=len(w))
        cost = 0.0
        if problem.cost_change is not None:
            cost = primal(problem, w, intercept) / problem.regularization
        return GradientDescentState(step=step, w=w, intercept=intercept, cost=cost, change=0.0)

    def advance(self, problem: Problem, state: GradientDescentState) -> GradientDescentState:
        """One epoch, or as many updates of it as make `BLOCKS_AT_ONCE` blocks of work."""
        from svm.loops.gradient_descent import descend

        n = problem.n_samples
        size = n if self.batch_size == "all" else min(self.batch_size, n)
        C = 1.0 / (n * problem.regularization)
        rule = problem.cost_change
        smoothing = 0.5 if size < n else 0.0
        per_advance = per_epoch = -(-n // size)
        if rule is not None:
            if rule.smoothing is not None:
                smoothing = float(rule.smoothing)
            # One cost takes n_samples / block_rows blocks of work.
            per_advance = max(1, BLOCKS_AT_ONCE * problem.block_rows // n)
        done = state.updates % per_epoch
        at, last = done * size, min(n, (done + per_advance) * size)
        settings = (
            *(problem.y, problem.weights, C, 1.0 / n, self.regularizer == "whole"),
            *self._rate(problem, size, C),
            *(problem.intercept != "none", problem.intercept == "augmented", size),
        )
        w, intercept, cost, change = state.w.copy(), state.intercept, state.cost, state.change
        step, stopped = state.step, NOT_STOPPED
        gradient, intercept_gradient, seen = np.zeros_like(w), 0.0, 0
        order: Order = "given" if size == n else self.sampling
        for operand, rows, drawn in problem.visits(state.epoch, order, at, last):
            while len(drawn) and not stopped:
                before = step
                intercept, intercept_gradient, seen, step, taken = descend(
                    *(operand, rows, drawn, *settings, n - at, rule is not None, step),
                    *(w, intercept, gradient, intercept_gradient, seen),
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
        )

    def visits(self, problem: Problem, state: GradientDescentState) -> float:
        """With the cost-change rule, all rows after every update, too."""
        passes = state.epoch + (0 if problem.cost_change is None else state.updates)
        return float(passes * problem.n_samples)

    def classifier(self, problem: Problem, state: GradientDescentState) -> LinearClassifier:
        return LinearClassifier(state.w, state.intercept)

    def bound(self, problem: Problem, state: GradientDescentState) -> float:
        """0: the rows inside the margin would give a useless dual point."""
        return 0.0

    def _rate(self, problem: Problem, size: int, C: float) -> tuple[float, float, float]:
        """(η_0, decay, power) of η_t = η_0 (1 + decay t)^-power."""
        match self.learning_rate:
            case None:
                n = problem.n_samples
                steepest = size / n + C * size * float(problem.squared_norms.mean())
                return 1.0 / steepest, 0.0, 0.0
            case InverseTime() | InverseSquareRoot() as schedule:
                return float(schedule.initial), float(schedule.decay), schedule.power
            case fixed:
                return float(fixed), 0.0, 0.0
