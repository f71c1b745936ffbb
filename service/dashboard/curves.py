"""Learning curves from traces of jobs: cost, bound and gap of each binary problem; and curves of
precision and recall."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from svm.problem.certificate import relative_gap

COLUMNS = ("epoch", "updates", "elapsed_s", "primal", "dual", "train_error", "validation_error")
STEPS = 4
"""Points of a curve of precision and recall for each of the ROC curve."""


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


def precision_recall(
    false_positive_rate: Sequence[float],
    true_positive_rate: Sequence[float],
    positive: int,
    negative: int,
) -> list[tuple[float, float]]:
    """(recall, precision) along a ROC curve, as the threshold falls; of the numbers of rows of the
    class and of the others. A straight line there is a bent one here, so it has several points."""
    points = []
    for (f0, t0), (f1, t1) in pairwise(zip(false_positive_rate, true_positive_rate, strict=True)):
        for step in range(1, STEPS + 1):
            share = step / STEPS
            recall = t0 + share * (t1 - t0)
            hits, wrong = recall * positive, (f0 + share * (f1 - f0)) * negative
            points.append((recall, hits / (hits + wrong)))
    return [(0.0, points[0][1]), *points]


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
