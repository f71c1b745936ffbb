"""Learning rates: a schedule is a function of the number of updates made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from svm.hyperparameters import Checked, Positive


@dataclass(frozen=True, kw_only=True)
class InverseTime(Checked):
    """η_t = initial / (1 + decay t), after t updates."""

    power: ClassVar = 1.0
    """η_t = initial (1 + decay t)^-power."""

    name: Literal["inverse-time"] = "inverse-time"
    initial: Positive
    """η_0"""
    decay: Positive = 1.0
    """Half of η_0 is reached after 1/decay updates."""


@dataclass(frozen=True, kw_only=True)
class InverseSquareRoot(Checked):
    """η_t = initial / √(1 + decay t), after t updates."""

    power: ClassVar = 0.5
    """η_t = initial (1 + decay t)^-power."""

    name: Literal["inverse-square-root"] = "inverse-square-root"
    initial: Positive
    """η_0"""
    decay: Positive = 1.0
    """Half of η_0 is reached after 3/decay updates."""


Schedule: TypeAlias = InverseTime | InverseSquareRoot
