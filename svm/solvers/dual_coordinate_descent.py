"""Dual coordinate descent for the linear SVM (Hsieh, Chang, Lin, Keerthi, Sundararajan, 2008)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from svm.data.matrices import Counts, Indices, Vector
from svm.hyperparameters import Doc, Hyperparameters, Loss, LossName
from svm.problem.objectives import (
    best_multiple,
    linear,
    penalized_by_loss,
    primal_point,
    rounding_of_scores,
    squared_norm,
)
from svm.problem.problem import LinearClassifier, Problem
from svm.solvers import options
from svm.solvers.protocol import NOT_STOPPED, Inheritance, SolverState

MEMORY = 0.6
"""Share of the average so far in the next one."""
FIRST_TOLERANCE = 0.1


@dataclass(frozen=True, kw_only=True)
class DualCoordinateDescentState(SolverState):
    """The dual point, its primal point, and which rows are skipped (shrinking)."""

    alpha: Vector
    """(n_samples,) 0 … sᵢ."""
    w: Vector
    """(n_features,) w(α), updated with every change of α, in double precision."""
    intercept: float
    average: Vector
    """(n_features,) of w at the ends of the epochs, each with 1 / MEMORY of the previous weight."""
    average_intercept: float
    resting: Counts
    """(n_samples,) epochs for which a row is still skipped."""
    rest: Counts
    """(n_samples,) for how many epochs each row was last skipped; 0 if it has moved since."""
    tolerance: float
    """If the projected gradients of the visited rows spread less, all rows are visited again."""

    def at_end(self) -> DualCoordinateDescentState:
        return replace(self, w=np.empty(0))  # half of it: the classifier is the average


@dataclass(frozen=True, kw_only=True)
class DualCoordinateDescent(Hyperparameters):
    """Minimization over one dual variable at a time, in random order, over-relaxed.

    αᵢ ← clip(αᵢ - ω (yᵢ f(xᵢ) - 1) λn/‖xᵢ‖², 0, sᵢ), ω = 1.5; of the squared hinge, whose αᵢ have
    no upper bound, αᵢ/(2sᵢ) more in the gradient and 1/(2sᵢ) in the curvature. A variable that
    stays at its bound is visited less and less often. The fastest way to a small gap if C is small
    to moderate. It cannot keep Σ αᵢ yᵢ = 0, so the intercept is `augmented` or `none`.
    """

    objective: ClassVar = "½‖w‖² + C Σ hinge, through its dual"
    cost_per_epoch: ClassVar = "at most n updates of O(d), or O(non-zeros) for sparse data"
    reference: ClassVar = (
        "Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for "
        "large-scale linear SVM. ICML 2008; Mangasarian, Musicant: Successive overrelaxation for "
        "support vector machines. IEEE Transactions on Neural Networks 10 (1999)"
    )
    suggestion: ClassVar = "give a smaller C or scale the features"
    starts_from: ClassVar[tuple[str, ...]] = ("dual-coordinate-descent",)
    inherits: ClassVar = "the dual variables of the rows"
    evaluation_growth: ClassVar = 2.0
    certifies: ClassVar = True
    streaming_option: ClassVar = options.STREAMING_OPTION
    row_values: ClassVar = (12, 7)
    kept_vectors: ClassVar = 2  # it proves its own gap: the certifier is rarely needed
    passing_vectors: ClassVar = 3
    samples_rows: ClassVar = False
    own_loops: ClassVar = tuple({"loss": loss} for loss in get_args(LossName)[1:])

    name: Literal["dual-coordinate-descent"] = "dual-coordinate-descent"
    intercept: Literal["augmented", "none"] = "augmented"
    """`augmented`: the weight of a constant feature, penalized in ‖w‖². `none`: the hyperplane
    passes through the origin."""
    loss: Loss = None
    order: Annotated[
        Literal["each-epoch", "blocks"],
        Doc(
            "`each-epoch`: the rows in a new random order each epoch. `blocks`: blocks of "
            "neighbors in a new order, and the rows of 16 blocks shuffled together, so that data "
            "larger than memory can be read."
        ),
    ] = "each-epoch"

    @property
    def streams(self) -> bool:
        return options.streams(self.order)

    def start(
        self, problem: Problem, inherited: Inheritance | None = None
    ) -> DualCoordinateDescentState:
        """α = 0, w = 0, no row is skipped; or the inherited α, clipped to its box."""
        state = DualCoordinateDescentState(
            alpha=np.zeros(problem.n_samples),
            w=problem.zeros,
            intercept=0.0,
            average=problem.zeros,
            average_intercept=0.0,
            resting=np.zeros(problem.n_samples, dtype=np.int8),
            rest=np.zeros(problem.n_samples, dtype=np.int8),
            tolerance=FIRST_TOLERANCE,
        )
        if inherited is None:
            return state
        scale = problem.regularization * problem.n_samples
        alpha = np.minimum(scale * inherited.dual_coefficients, problem.upper)
        w, intercept = primal_point(problem, alpha)
        return replace(
            state,
            alpha=alpha,
            w=w,
            intercept=intercept,
            average=inherited.w,
            average_intercept=inherited.intercept_under(problem.intercept),
        )

    def advance(
        self, problem: Problem, state: DualCoordinateDescentState
    ) -> DualCoordinateDescentState:
        """One pass over the rows that are not skipped."""
        from svm.loops.dual_coordinate_descent import sweep

        augmented = problem.intercept == "augmented"
        scale = 1.0 / (problem.regularization * problem.n_samples)
        alpha, w, intercept = state.alpha.copy(), state.w.copy(), state.intercept
        rest, resting = state.rest.copy(), np.maximum(state.resting, 1)
        resting -= 1
        awake = np.flatnonzero(state.resting == 0)
        updates = problem.updates_left(state.updates, len(awake))
        whole = updates == len(awake)
        largest, smallest = -np.inf, np.inf
        for operand, rows, drawn in self._visits(problem, state, awake, updates):
            intercept, high, low = sweep(
                operand,
                rows,
                drawn,
                problem.y,
                problem.margins,
                problem.upper,
                problem.ridge,
                problem.steps,
                scale,
                augmented,
                w,
                intercept,
                alpha,
                rest,
                resting,
            )
            largest, smallest = max(largest, high), min(smallest, low)
        tolerance, stopped = state.tolerance, NOT_STOPPED
        if len(awake) == 0 or (whole and largest - smallest <= tolerance):
            if len(awake) == problem.n_samples:  # the tolerance is met by all rows
                if tolerance <= rounding_of_scores(problem, scale * alpha):
                    stopped = "converged"
                tolerance *= 0.1
            resting[:] = 0
        # At the optimum the average would still lag behind.
        memory = MEMORY if state.epoch and not stopped else 0.0
        average = memory * state.average
        average += (1.0 - memory) * w
        return DualCoordinateDescentState(
            epoch=state.epoch + int(whole),
            updates=state.updates + updates,
            stopped=stopped,
            alpha=alpha,
            w=w,
            intercept=float(intercept),
            average=average,
            average_intercept=memory * state.average_intercept + (1.0 - memory) * float(intercept),
            resting=resting,
            rest=rest,
            tolerance=tolerance,
        )

    def _visits(
        self, problem: Problem, state: DualCoordinateDescentState, awake: Indices, most: int
    ) -> Iterator[tuple[Any, Indices, Indices]]:
        """As `Problem.visits`: at most this many, of rows that are awake."""
        if self.order == "each-epoch":
            order = problem.permutation(state.epoch, awake)[:most]
            for part in problem.blocks(len(order)):
                yield problem.operand, problem.rows, order[part]
            return
        for operand, numbers, drawn in problem.visits(state.epoch, "blocks"):
            drawn = drawn[state.resting[drawn] == 0][:most]
            most -= len(drawn)
            yield operand, numbers, drawn
            if most == 0:
                return

    def classifier(self, problem: Problem, state: DualCoordinateDescentState) -> LinearClassifier:
        """The average: w itself changes much in every epoch, and needs 1.5 times the epochs."""
        return LinearClassifier(state.average, state.average_intercept)

    def bound(self, problem: Problem, state: DualCoordinateDescentState) -> float:
        """D(α): w(α) is known and α is in its box, so that no pass over the data is needed."""
        penalized = squared_norm(problem, state.w, state.intercept)
        penalized += penalized_by_loss(problem, state.alpha)
        return best_multiple(problem, linear(problem, state.alpha), penalized)

    def dual_coefficients(self, problem: Problem, state: DualCoordinateDescentState) -> Vector:
        """αᵢ/(λn), (n_samples,)."""
        coefficients: Vector = state.alpha / (problem.regularization * problem.n_samples)
        return coefficients
