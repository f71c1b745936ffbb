"""A bound on how far a model is from the optimum: primal value, dual bound, and the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt


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

    @property
    def gap(self) -> float:
        """Primal minus dual, ≥ 0 up to rounding."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """Gap over primal; 0 if the primal value is 0."""
        return relative_gap(self.primal, self.dual)


@dataclass(frozen=True, slots=True)
class Certificate:
    """One certificate for each pair; the model's is the one with the largest relative gap."""

    pairs: tuple[PairCertificate, ...]

    @property
    def worst(self) -> PairCertificate:
        """The certificate with the largest relative gap."""
        return max(self.pairs, key=lambda pair: pair.relative_gap)

    def as_dict(self, classes: npt.NDArray[Any]) -> dict[str, Any]:
        """For JSON; `classes` (n_classes,) are the labels."""
        names = classes.tolist()
        pairs = [
            {"classes": [names[i] for i in pair.classes], **_values(pair)} for pair in self.pairs
        ]
        return {**_values(self.worst), "pairs": pairs}


def _values(pair: PairCertificate) -> dict[str, float]:
    names = ("primal", "dual", "gap", "relative_gap", "solver_objective")
    return {name: getattr(pair, name) for name in names}
