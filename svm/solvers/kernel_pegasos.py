"""Kernelized Pegasos (Shalev-Shwartz, Singer, Srebro, Cotter, 2011, figure 3)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from svm.data.matrices import Indices, Vector
from svm.hyperparameters import Hyperparameters, Intercept, UnsquaredLoss
from svm.kernel.kernels import MEDIAN_GAUSSIAN, AnyKernel
from svm.problem.objectives import dual, gram, sums_over
from svm.problem.problem import KernelClassifier, Problem
from svm.solvers import options
from svm.solvers.protocol import Inheritance, SolverState

DRAWN_AT_ONCE = 256
"""Updates between two matrix products with the support vectors."""


@dataclass(frozen=True, kw_only=True)
class KernelPegasosState(SolverState):
    """The dual counts: f(x) = 1/(λt) Σ sᵢ yᵢ violationsᵢ k(xᵢ, x) + b."""

    intercept: float
    """b if it is free; otherwise it follows from the counts."""
    violations: Indices
    """(n_samples,) how often each row was inside the margin when drawn."""
    averaged_from: int = 0
    """The average is over the updates after this one."""
    lags: Vector = field(default_factory=lambda: np.empty(0))
    """(n_samples,), empty if no average is kept; see `svm.loops.kernel_pegasos` for all three."""
    harmonic: float = 0.0
    intercept_sum: float = 0.0


@dataclass(frozen=True, kw_only=True)
class KernelPegasos(Hyperparameters):
    """Pegasos with a kernel: the weights are kept as counts of rows, and never computed.

    Update t draws a row i and counts it if yᵢ f(xᵢ) < 1; the coefficient of row j is
    sⱼ yⱼ countⱼ/(λt).
    """

    objective: ClassVar = "λ/2 ‖f‖² + (1/n) Σ hinge, ‖f‖ the norm of the kernel's space"
    cost_per_epoch: ClassVar = "n updates of O(m d), with m support vectors so far"
    reference: ClassVar = (
        "Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: primal estimated sub-gradient solver "
        "for SVM. Mathematical Programming 127 (2011), 3-30, figure 3"
    )
    suggestion: ClassVar = "give a larger lambda or scale the features"
    starts_from: ClassVar[tuple[str, ...]] = ("kernel-pegasos",)
    inherits: ClassVar = "the counts of the rows, and the count of updates that sets its step size"
    evaluation_growth: ClassVar = 2.0
    states_common_form: ClassVar = True
    certifies: ClassVar = False
    traces_updates: ClassVar = True

    name: Literal["kernel-pegasos"] = "kernel-pegasos"
    kernel: AnyKernel = MEDIAN_GAUSSIAN
    """Inner products in the feature space, or the name of a kernel, such as `rbf`."""
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖f‖²;
    the kernel plus 1. `none`: no intercept."""
    loss: UnsquaredLoss = None
    intercept_step: options.InterceptStep = "limited"
    order: options.VisitOrderInMemory = "each-epoch"
    score_step: Literal["previous", "current"] = "previous"
    """By which scores update t judges its row. `previous`: 1/(λ(t-1)) Σ sⱼ yⱼ countⱼ k(xⱼ, x), the
    model after t - 1 updates. `current`: with 1/(λt), as figure 3 is printed."""
    averaging: options.Averaging = "last"

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> KernelPegasosState:
        """f = 0, no updates; or the inherited f and step size."""
        state = KernelPegasosState(
            intercept=0.0,
            violations=np.zeros(problem.n_samples, dtype=np.int64),
            lags=np.zeros(0 if self.averaging == "last" else problem.n_samples),
        )
        if inherited is None:
            return state
        step = inherited.step_at(problem.regularization)
        counts = problem.regularization * step * inherited.dual_coefficients / problem.weights
        return replace(
            state,
            step=step,
            intercept=inherited.intercept_under(problem.intercept),
            violations=np.rint(counts).astype(np.int64),
        )

    def advance(self, problem: Problem, state: KernelPegasosState) -> KernelPegasosState:
        """One epoch: n_samples updates, the kernel evaluated in blocks of drawn rows."""
        from svm.loops.kernel_pegasos import updates

        n, step = problem.n_samples, state.step
        done = state.updates % n
        if done == 0 and options.average_begins(self.averaging, state.epoch):
            lags = np.zeros_like(state.lags)
            state = replace(
                state, averaged_from=state.updates, lags=lags, harmonic=0.0, intercept_sum=0.0
            )
        made = problem.updates_left(state.updates, n - done)
        order = problem.order(state.epoch, self.order)[done : done + made]
        violations, lags, intercept = state.violations.copy(), state.lags.copy(), state.intercept
        harmonic, intercept_sum = state.harmonic, state.intercept_sum
        for start in range(0, len(order), DRAWN_AT_ONCE):
            drawn = order[start : start + DRAWN_AT_ONCE]
            intercept, harmonic, intercept_sum = updates(
                drawn,
                gram(problem, drawn, drawn),
                sums_over(problem, drawn, problem.y * problem.weights * violations),
                problem.y,
                problem.margins,
                problem.weights,
                problem.regularization,
                problem.intercept == "free",
                options.limit_of(self.intercept_step),
                int(self.score_step == "current"),
                step,
                intercept,
                violations,
                lags,
                harmonic,
                intercept_sum,
            )
            step += len(drawn)
        return KernelPegasosState(
            epoch=(state.updates + step - state.step) // n,
            updates=state.updates + step - state.step,
            step=step,
            intercept=float(intercept),
            violations=violations,
            averaged_from=state.averaged_from,
            lags=lags,
            harmonic=float(harmonic),
            intercept_sum=float(intercept_sum),
        )

    def classifier(self, problem: Problem, state: KernelPegasosState) -> KernelClassifier:
        """The last iterate, or the average if one is kept."""
        support = np.flatnonzero(state.violations)
        counts = state.violations[support].astype(np.float64)
        total, intercept = state.step, state.intercept
        averaged = state.updates - state.averaged_from
        if len(state.lags) and averaged:
            counts, total = state.harmonic * counts - state.lags[support], averaged
            intercept = state.intercept_sum / averaged
        scale = 1.0 / (problem.regularization * max(1, total))
        signed = problem.y[support] * problem.weights[support] * counts
        if problem.intercept == "augmented":
            intercept = scale * float(signed.sum())
        return KernelClassifier(support, scale * signed, intercept)

    def bound(self, problem: Problem, state: KernelPegasosState) -> float:
        """D at αᵢ = n sᵢ violationsᵢ / t: f(α) is the iterate itself if α is in its box."""
        counts = state.violations * (problem.n_samples / max(1, state.step))
        return dual(problem, counts * problem.weights)

    def dual_coefficients(self, problem: Problem, state: KernelPegasosState) -> Vector:
        """sᵢ countᵢ/(λt), (n_samples,)."""
        scale = 1.0 / (problem.regularization * max(1, state.step))
        coefficients: Vector = scale * problem.weights * state.violations
        return coefficients
