"""The solvers: a new one adds its file, and one name to the union below."""

from __future__ import annotations

from typing import TypeAlias, get_args

from svm.hyperparameters import Hyperparameters
from svm.solvers.dual_coordinate_descent import DualCoordinateDescent
from svm.solvers.gradient_descent import GradientDescent
from svm.solvers.kernel_pegasos import KernelPegasos
from svm.solvers.newton import Newton
from svm.solvers.pegasos import Pegasos
from svm.solvers.smo import SMO
from svm.solvers.subgradient import SubGradient

AnySolver: TypeAlias = (
    Pegasos | KernelPegasos | SubGradient | GradientDescent | DualCoordinateDescent | Newton | SMO
)

SOLVERS: dict[str, type[Hyperparameters]] = {
    solver.__dataclass_fields__["name"].default: solver for solver in get_args(AnySolver)
}

__all__ = [
    "SMO",
    "SOLVERS",
    "AnySolver",
    "DualCoordinateDescent",
    "GradientDescent",
    "KernelPegasos",
    "Newton",
    "Pegasos",
    "SubGradient",
]
