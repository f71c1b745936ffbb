"""Learning curves from traces of jobs: cost, bound and gap of each binary problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from svm.problem.certificate import relative_gap

COLUMNS = ("epoch", "updates", "elapsed_s", "primal", "dual", "train_error", "validation_error")


@dataclass(frozen=True, slots=True)
class Curve:
    """One binary problem: a list for each of `COLUMNS`, ordered by time."""

    title: str
    points: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def thinned(self, most: int) -> dict[str, list[Any]]:
        """At most `most` points, evenly spread, with the first and the last."""
        count = len(self.points["epoch"])
        if count <= most:
            return self.points
        chosen = sorted({round(k * (count - 1) / (most - 1)) for k in range(most)})
        return {name: [points[k] for k in chosen] for name, points in self.points.items()}

    @property
    def relative_gap(self) -> float:
        """The gap at its end."""
        primal, dual = self.points["primal"][-1], self.points["dual"][-1]
        return relative_gap(primal, dual)


def curves_of(trace: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """From the rows of `JobStore.trace`; the problem with the largest gap first."""
    by_pair: dict[int, Curve] = {}
    for row in trace:
        title = " against ".join(map(str, reversed(row["classes"])))
        if len(row["classes"]) == 1:
            title += " against all others"
        curve = by_pair.setdefault(row["pair"], Curve(title))
        for name, points in curve.points.items():
            points.append(row[name])
    return sorted(by_pair.values(), key=lambda curve: -curve.relative_gap)
