"""Kernelized Pegasos (Shalev-Shwartz, Singer, Srebro, Cotter, 2011, figure 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from svm.classifiers import KernelClassifier
from svm.data.matrices import Indices, Vector
from svm.hyperparameters import Hyperparameters, Intercept
from svm.kernel import MEDIAN_GAUSSIAN, AnyKernel
from svm.problem import Problem, Sampling
from svm.problem.kernel_products import gram, sums_over
from svm.problem.objectives import dual
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
    certifies: ClassVar = False

    name: Literal["kernel-pegasos"] = "kernel-pegasos"
    kernel: AnyKernel = MEDIAN_GAUSSIAN
    """Inner products in the feature space."""
    intercept: Intercept = "free"
    """`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖f‖²;
    the kernel plus 1. `none`: no intercept."""
    sampling: Sampling = "permuted"
    """`permuted`: every row once an epoch, in a new order. `uniform`: independent draws."""

    def stated(self, problem: Problem, primal: float) -> float:
        """This solver states the common form itself."""
        return primal

    def start(self, problem: Problem, inherited: Inheritance | None = None) -> KernelPegasosState:
        """f = 0, no updates; or the inherited f and step size."""
        state = KernelPegasosState(
            intercept=0.0, violations=np.zeros(problem.n_samples, dtype=np.int64)
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
        order = problem.order(state.epoch, self.sampling)
        violations, intercept = state.violations.copy(), state.intercept
        for start in range(0, n, DRAWN_AT_ONCE):
            drawn = order[start : start + DRAWN_AT_ONCE]
            intercept = updates(
                drawn,
                gram(problem, drawn, drawn),
                sums_over(problem, drawn, problem.y * problem.weights * violations),
                problem.y,
                problem.weights,
                problem.regularization,
                problem.intercept == "free",
                step,
                intercept,
                violations,
            )
            step += len(drawn)
        return KernelPegasosState(
            epoch=state.epoch + 1,
            updates=state.updates + n,
            step=step,
            intercept=float(intercept),
            violations=violations,
        )

    def classifier(self, problem: Problem, state: KernelPegasosState) -> KernelClassifier:
        support = np.flatnonzero(state.violations)
        scale = 1.0 / (problem.regularization * max(1, state.step))
        signed = problem.y[support] * problem.weights[support] * state.violations[support]
        intercept = state.intercept
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
