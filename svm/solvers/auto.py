"""The choice of a solver by the data, from the crossovers that `benchmarks.solvers` measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from svm.data.stored_rows import StoredRows, is_csr
from svm.hyperparameters import Doc, Effort, Hyperparameters, Intercept, Loss
from svm.kernel.kernels import AnyKernel, LinearKernel
from svm.problem.problem import Problem
from svm.solvers.dual_coordinate_descent import DualCoordinateDescent
from svm.solvers.newton import SAMPLED_FROM, Newton
from svm.solvers.protocol import Solver
from svm.solvers.smo import SMO
from svm.solvers.smoothing.small_problems import are_many, is_small
from svm.solvers.smoothing.smoothed_hinge import row_work, step_work
from svm.solvers.working_sets import LONG, SMOState, small_ones

MODERATE = 3.0
"""C times the mean ‖x‖² up to which coordinate descent needs few epochs."""
MODERATE_BROAD = 100.0
"""The same with more features than `NARROW`, because a Newton step costs more there."""
NARROW = 200
WIDE = 2000
"""With more features coordinate descent is the faster one for any C."""
TALL = 4
"""With fewer rows a feature, too, unless the features are few."""
MANY = 1 << 14
"""With more rows a feature newton is the faster one for any C: most of its steps need a sample."""
NEWTON_STEPS = 5.0
"""The work of newton relative to that of its first step: 10 to 30 steps, most of them shorter."""
PROBE = 0.25
"""The share of it that coordinate descent spends before newton may take over."""


@dataclass(frozen=True, kw_only=True)
class Auto(Hyperparameters):
    """Finds what to train (`effort`): a linear model, one on a curve of each feature, or a Gaussian
    kernel, each with its C, compared on rows that they did not see. Then it chooses the fastest
    solver for data of this kind; notes of the job say what and why. Where coordinate descent is
    slow after all, `newton` takes over.

    `smo` with a kernel, and for many pairs of few rows. Else `newton`; or `dual-coordinate-descent`
    if the intercept is not `free` and C times the mean ‖x‖² is moderate, or there are many
    features.
    """

    objective: ClassVar = "that of the chosen solver"
    cost_per_epoch: ClassVar = "that of the chosen solver"
    reference: ClassVar = "measured crossovers: docs/solvers.md"
    starts_from: ClassVar = "linear"
    inherits: ClassVar = "the weights, by newton"
    certifies: ClassVar = False
    """Another λ may lead to another solver, so chains of comparisons begin at zero."""

    name: Literal["auto"] = "auto"
    effort: Effort = field(default="balanced", repr=False)
    """What is compared first, if C, λ, kernel and features are not given: `quick` nothing,
    `balanced` 12 settings on 3,000 rows, the best on 10,000, `thorough` more on more rows."""
    kernel: Annotated[
        AnyKernel | None,
        Doc(
            "Inner products in a feature space, or the name of a kernel, such as `rbf`; none, or "
            "`linear`, for a linear model."
        ),
    ] = None
    intercept: Intercept = "augmented"
    """`augmented`: the weight of a constant feature, penalized in ‖w‖². `free`: not penalized,
    which only `newton` and `smo` solve. `none`: the hyperplane passes through the origin."""
    loss: Loss = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.kernel, LinearKernel):
            object.__setattr__(self, "kernel", None)

    @property
    def search_effort(self) -> Effort:
        given = (self.kernel, self.C, self.lambda_) != (None, None, None)
        return "quick" if given else self.effort

    def without_search(self) -> Self:
        return replace(self, effort="quick")

    @property
    def streams(self) -> bool:
        """With rows in files it chooses a solver that reads these."""
        return self.kernel is None

    def trained_by(self, n_features: int) -> type[Hyperparameters]:
        broad = self.kernel is None and self.intercept != "free" and n_features > WIDE
        return DualCoordinateDescent if broad else type(self)

    def chosen(self, problems: Sequence[Problem], *, warm: bool) -> tuple[Any, Any, str]:
        """The solver for these problems, the one that may take over from it or None, and why; a
        function of rows, λ and intercept alone.

        `warm`: it begins from the weights of another model.
        """
        solver, reason = self._choice(problems, warm)
        shared = "lambda_", "C", "dtype", "intercept", "loss", "epsilon"
        settings = {name: getattr(self, name) for name in shared}
        own: dict[str, Any] = {"kernel": self.kernel} if solver is SMO else {}
        if solver is DualCoordinateDescent and isinstance(problems[0].X, StoredRows):
            own["order"] = "blocks"
        successor = None if solver is Newton or self.kernel is not None else Newton(**settings)
        return solver(**settings, **own), successor, f"auto chose {solver.name}: {reason}"

    def _choice(self, problems: Sequence[Problem], warm: bool) -> tuple[type[Any], str]:
        problem = max(problems, key=lambda one: one.n_samples)
        if self.kernel is not None:
            return SMO, "there is a kernel"
        if warm:
            return Newton, "it begins from weights"
        if isinstance(problem.X, StoredRows):
            if is_csr(problem.X) and is_broad(problem) and self.intercept != "free":
                return DualCoordinateDescent, "the rows stay in files, and have many features"
            return Newton, "the rows stay in files"
        if sum(map(len, small_ones(problems).values())) == len(problems):
            return SMO, f"there are {len(problems)} pairs of at most {problem.n_rows} rows"
        if are_many(problems) and all(map(is_small, problems)):
            return Newton, f"there are {len(problems)} pairs of at most {problem.n_rows} rows"
        if self.intercept == "free":
            return Newton, "the intercept is free"
        shape = f"{problem.n_rows} rows of {problem.n_features} features"
        if is_broad(problem):
            return DualCoordinateDescent, f"there are {shape}"
        n = problem.n_rows
        if n >= max(SAMPLED_FROM[0], MANY * (problem.n_features + 1)):
            return Newton, f"there are {shape}"
        reach = float(problem.squared_norms.mean()) / (problem.regularization * n)
        limit = MODERATE if problem.n_features <= NARROW else MODERATE_BROAD
        measured = f"C times the mean ‖x‖² is {reach:.3g}"
        if reach <= limit:
            return DualCoordinateDescent, f"{measured}, at most {limit:g}, with {shape}"
        return Newton, f"{measured}, more than {limit:g}, with {shape}"


def is_broad(problem: Problem) -> bool:
    """Whether Newton steps are slow, or needed in large numbers, because of the many features."""
    n, d = problem.n_rows, problem.n_features
    return d > WIDE or (d > NARROW and n < TALL * d)


def is_to_be_replaced(solver: Solver, problem: Problem, state: Any, left: float) -> bool:
    """Whether newton is to continue for a chosen solver, which by the fall of its gap has `left`
    updates to make; also if it can make no more progress."""
    if state.stopped:
        return True
    if isinstance(state, SMOState):
        return state.updates >= LONG
    return newton_is_sooner(problem, solver.visits(problem, state), left)


def newton_is_sooner(problem: Problem, visits: float, left: float) -> bool:
    """Whether newton needs less work from here than coordinate descent, which has visited `visits`
    rows, and by the fall of its gap has `left` to visit (infinite if it does not fall).

    A quarter of newton's work is spent before that is judged. If there are many features, newton
    is the second choice as long as the gap falls at all.
    """
    if is_broad(problem):
        return left == math.inf
    newton = NEWTON_STEPS * step_work(problem)
    visit = 2.0 * row_work(problem)
    return visit * visits >= PROBE * newton and visit * left > newton
