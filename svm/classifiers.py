"""What a solver learned from one binary problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from svm.data.matrices import Indices, Vector


@dataclass(frozen=True, slots=True)
class LinearClassifier:
    """f(x) = ⟨coefficients, x⟩ + intercept; positive means the positive class."""

    coefficients: Vector
    """(n_features,)"""
    intercept: float


@dataclass(frozen=True, slots=True)
class KernelClassifier:
    """f(x) = Σⱼ coefficientsⱼ k(xⱼ, x) + intercept, over the support vectors xⱼ."""

    support: Indices
    """(n_support,) rows of the problem, ascending."""
    coefficients: Vector
    """(n_support,) αⱼ yⱼ/(λn)"""
    intercept: float


Classifier: TypeAlias = LinearClassifier | KernelClassifier
