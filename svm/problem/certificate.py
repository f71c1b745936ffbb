"""A bound on how far a model is from the optimum: primal value, dual bound, and the excess."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from typing import Any, Literal, TypeAlias

from svm.data.matrices import Array

Status: TypeAlias = Literal["certified", "rough", "open"]
"""The gap that was asked for is proven; the cost is at most `ROUGH_EXCESS` too high; or neither."""

ROUGH_EXCESS = 0.1
NO_BOUND = 1e-12
"""A dual value below this share of the zero model's cost is no bound yet."""
NEGLIGIBLE = 1e-6
"""Costs below this share of the zero model's cost are compared by their difference."""

_UP = Context(prec=2, rounding=ROUND_CEILING)


def relative_gap(primal: float, dual: float) -> float:
    """Gap over primal; 0 if the primal value is 0."""
    return (primal - dual) / primal if primal > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PairCertificate:
    """The certificate of one binary problem, in the common form of `svm.problem.objectives`."""

    classes: tuple[int, ...]
    """Numbers of the negative and the positive class; one number if it is one against the rest."""
    primal: float
    dual: float
    """A lower bound of the optimum: the best dual value seen."""
    solver_objective: float
    """The primal value in the constants of the solver's own objective."""
    zero_cost: float = 1.0
    """The cost of the model that is 0 everywhere."""

    @property
    def gap(self) -> float:
        """Primal minus dual, ≥ 0 up to rounding."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """Gap over primal; 0 if the primal value is 0."""
        return relative_gap(self.primal, self.dual)

    @property
    def negligible(self) -> bool:
        """Whether the cost is almost 0, so that shares of it mean nothing."""
        return self.primal <= NEGLIGIBLE * self.zero_cost

    @property
    def excess(self) -> float | None:
        """By what share the cost is above the lowest possible one at most: gap over dual. None if
        there is no bound yet."""
        if self.dual <= NO_BOUND * self.zero_cost:
            return None
        return max(0.0, self.gap) / self.dual


def for_moved_rows_squared(
    own: PairCertificate, distance: float, norm: float, regularization: float
) -> PairCertificate:
    """`for_moved_rows` with the squared hinge.

    `distance` is here the root of the mean of sᵢ‖xᵢ - x̃ᵢ‖². The root of the mean loss changes by
    `distance` times the norm of the weights at most; those of the lowest cost have a norm of at
    most R = √(2P/λ). With the root L of this model's mean loss, P ≤ λ/2 ‖w‖² + (L + distance ‖w‖)²,
    and the optimum is at least D - 2 distance R √D.
    """
    penalty = 0.5 * regularization * norm * norm
    root = math.sqrt(max(0.0, own.primal - penalty))
    primal = max(own.primal, penalty + (root + distance * norm) ** 2)
    largest = math.sqrt(2.0 * primal / regularization)
    lost = 2.0 * distance * largest * math.sqrt(max(0.0, own.dual))
    return replace(own, primal=primal, dual=max(0.0, own.dual - lost))


def for_moved_rows(
    own: PairCertificate, distance: float, norm: float, regularization: float
) -> PairCertificate:
    """The certificate of the same model for rows that are not quite those it was trained on.

    `distance` is the mean of sᵢ‖xᵢ - x̃ᵢ‖ in the kernel's space, `norm` is ‖w‖. A cost changes by
    `distance` times the norm of its weights at most, and the lowest one has weights that are at
    most √(2 gap/λ) from those of the model: gap ≤ P - D + 2 distance ‖w‖ + distance √(2 gap/λ).
    """
    change = distance * norm
    slope = distance * math.sqrt(2.0 / regularization)
    root = 0.5 * (slope + math.sqrt(slope * slope + 4.0 * (max(own.gap, 0.0) + 2.0 * change)))
    primal = own.primal + change
    return replace(own, primal=primal, dual=max(0.0, primal - root * root))


@dataclass(frozen=True, slots=True)
class Certificate:
    """One certificate for each pair; the model's is the one with the largest relative gap."""

    pairs: tuple[PairCertificate, ...]
    asked_gap: float
    """The relative gap that was asked for, or the default one."""
    kernel: Literal["exact", "approximated"] | None = None
    """Whether it is about the kernel that was meant, or about features that approximate it."""
    exact: Certificate | None = None
    """Of an approximated kernel, the certificate of the same model with the kernel itself."""

    @property
    def worst(self) -> PairCertificate:
        """The certificate with the largest relative gap."""
        return max(self.pairs, key=lambda pair: pair.relative_gap)

    @property
    def status(self) -> Status:
        """How much is proven."""
        worst = self.worst
        if worst.relative_gap <= self.asked_gap:
            return "certified"
        excess = worst.excess
        if worst.negligible or (excess is not None and excess <= ROUGH_EXCESS):
            return "rough"
        return "open"

    def as_dict(self, classes: Array) -> dict[str, Any]:
        """For JSON; `classes` (n_classes,) are the labels."""
        names = classes.tolist()
        pairs = [
            {"classes": [names[i] for i in pair.classes], **_values(pair)} for pair in self.pairs
        ]
        exact = None if self.exact is None else _values(self.exact.worst)
        described = {"status": self.status, "kernel": self.kernel, "summary": self.summary(classes)}
        return {**_values(self.worst), **described, "exact": exact, "pairs": pairs}

    def summary(self, classes: Array) -> str:
        """One sentence for people, or two with an approximated kernel. Their numbers are rounded
        up, so that they are true."""
        begin = {"certified": "Certified: its cost is ", "rough": "Rough: its cost may be "}
        text = begin.get(self.status, "Not converged: ") + self._bound()
        if self.kernel == "approximated":
            text += " with the approximated kernel"
        if len(self.pairs) > 1:
            text += f", in the worst of {len(self.pairs)} {self._pair_names(classes)}"
        if self.exact is not None:
            text += f". With the kernel itself: {self.exact._bound()}"
        return f"{text}."

    def _bound(self) -> str:
        worst = self.worst
        excess = worst.excess
        at_most = "at most" if self.status == "certified" else "up to"
        if worst.negligible:
            return f"{at_most} {_rounded_up(max(worst.gap, 0.0))} above the lowest possible"
        if excess is None:
            return "there is no lower bound of its cost yet"
        if self.status == "open":
            at_most = "its cost may be up to"
        if excess >= 1.0:
            return f"{at_most} {_rounded_up(1.0 + excess)} times the lowest possible"
        return f"{at_most} {_rounded_up(100.0 * excess)} % above the lowest possible"

    def _pair_names(self, classes: Array) -> str:
        names = [str(classes[i])[:32] for i in self.worst.classes]
        if len(names) == 1:
            return f"problems ({names[0]} against the rest)"
        return f"pairs ({names[0]} against {names[1]})"


def _rounded_up(value: float) -> str:
    """Two digits, never less than the value."""
    number = _UP.create_decimal_from_float(value)
    return f"{number:f}" if number == 0 or 1e-4 <= number < 1e6 else f"{number:.1e}"


def _values(pair: PairCertificate) -> dict[str, float | None]:
    names = ("primal", "dual", "gap", "relative_gap", "excess", "solver_objective")
    return {name: getattr(pair, name) for name in names}
