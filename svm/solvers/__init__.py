"""The solvers: a new one adds its file, and one name to the union below."""

from __future__ import annotations

from typing import TypeAlias, get_args

from svm.hyperparameters import Hyperparameters
from svm.solvers.dual_coordinate_descent import DualCoordinateDescent
from svm.solvers.gradient_descent import GradientDescent
from svm.solvers.newton import Newton
from svm.solvers.pegasos import Pegasos

AnySolver: TypeAlias = Pegasos | GradientDescent | DualCoordinateDescent | Newton

SOLVERS: dict[str, type[Hyperparameters]] = {
    solver.__dataclass_fields__["name"].default: solver for solver in get_args(AnySolver)
}

__all__ = ["SOLVERS", "AnySolver", "DualCoordinateDescent", "GradientDescent", "Newton", "Pegasos"]
