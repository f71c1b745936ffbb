"""The solvers. A new one adds its file, and one name to the first union below."""

from __future__ import annotations

from typing import TypeAlias

from svm.hyperparameters import Hyperparameters, by_name
from svm.problem.problem import Problem
from svm.solvers.auto import Auto
from svm.solvers.dual_coordinate_descent import DualCoordinateDescent
from svm.solvers.gradient_descent import GradientDescent
from svm.solvers.kernel_pegasos import KernelPegasos
from svm.solvers.newton import Newton
from svm.solvers.pegasos import Pegasos
from svm.solvers.protocol import Certifier
from svm.solvers.smo import SMO
from svm.solvers.subgradient import SubGradient

AnySolver: TypeAlias = (
    Pegasos | KernelPegasos | SubGradient | GradientDescent | DualCoordinateDescent | Newton | SMO
)

AnyChoice: TypeAlias = AnySolver | Auto
"""What a caller may ask for: a solver, or the choice of one."""

SOLVERS: dict[str, type[Hyperparameters]] = by_name(AnySolver)
CHOICES: dict[str, type[Hyperparameters]] = {**SOLVERS, "auto": Auto}
__all__ = [
    "CHOICES",
    "SMO",
    "SOLVERS",
    "AnyChoice",
    "AnySolver",
    "Auto",
    "DualCoordinateDescent",
    "GradientDescent",
    "KernelPegasos",
    "Newton",
    "Pegasos",
    "SubGradient",
    "certifier_of",
    "sources_of",
]


def certifier_of(problem: Problem) -> Certifier:
    """The solver whose bound approaches the optimum of any problem of this kind."""
    return _LINEAR if problem.kernel is None else _KERNEL


def sources_of(solver: Hyperparameters | type[Hyperparameters]) -> tuple[str, ...]:
    """Names of the solvers whose models a warm start can begin from."""
    if solver.starts_from != "linear":
        return solver.starts_from
    has_kernel = getattr(solver, "kernel", None) is not None
    return tuple(
        name
        for name, each in SOLVERS.items()
        if "kernel" not in each.__dataclass_fields__ or (each is SMO and not has_kernel)
    )


_LINEAR, _KERNEL = Newton(), SMO()
