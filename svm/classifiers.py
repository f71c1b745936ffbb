"""What a solver learnt."""

from __future__ import annotations

from dataclasses import dataclass

from svm.matrices import Vector


@dataclass(frozen=True, slots=True)
class LinearClassifier:
    """f(x) = ⟨coefficients, x⟩ + intercept; positive means the positive class."""

    coefficients: Vector
    """(n_features,)"""
    intercept: float
