"""The charts that a page and a plot of a model both have, from plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from service.charts.chart import (
    MOST_POINTS,
    SHOWN_CLASSES,
    Axis,
    Chart,
    Guide,
    Panel,
    Series,
    Values,
    names_of,
    plain,
    thin_out,
)
from service.charts.palette import Role
from service.charts.scales import text

Against: TypeAlias = Literal["time", "epoch", "update"]
MEASURED: Mapping[Against, tuple[str, str]] = {
    "time": ("elapsed_s", "time (s)"),
    "epoch": ("epoch", "epoch"),
    "update": ("updates", "update"),
}
"""The member of a point of a trace, and the label of the axis."""
STEEP = 1e6
"""A cost that rises to more than this many times the first one is drawn on a logarithmic axis."""
STEPS = 4
"""Points of a curve of precision and recall for each of the ROC curve."""
Points: TypeAlias = Mapping[str, Sequence[Any]]
"""A list for each member of the points of a trace."""


def share_axis(label: str) -> Axis:
    """From 0 to 100 %."""
    return Axis(label, low=0.0, high=1.0, percent=True)


def against(by: Against) -> Axis:
    """The horizontal axis of a training."""
    return Axis(MEASURED[by][1])


def along(points: Points, by: Against) -> Values:
    """What a training is drawn against, which never falls: points of several binary problems can
    be mixed."""
    return np.maximum.accumulate([float(value or 0.0) for value in points[MEASURED[by][0]]])


def relative_gaps(points: Points) -> Values:
    """(n,) shares of the cost that can be above the optimum; not a number without a gap."""
    primal, dual = (np.asarray(points[name], dtype=float) for name in ("primal", "dual"))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gaps = (primal - dual) / primal
    return np.where((primal > dual) & (primal > 0.0), gaps, np.nan)


def thinned(points: Points, most: int = MOST_POINTS) -> Points:
    """At most `most` points, evenly spread, with the first and the last."""
    chosen = thin_out(np.arange(len(points["epoch"])), most).tolist()
    return {name: [values[k] for k in chosen] for name, values in points.items()}


def learning_curve(
    title: str, points: Points, by: Against, of: str = "", others: Iterable[Points] = ()
) -> Chart:
    """Cost and bound, below them the relative gap, with those of the `others` as thin lines."""
    points = thinned(points)
    x, thin = along(points, by), [thinned(one) for one in others]
    primal = np.asarray(points["primal"], dtype=float)
    steep = len(primal) > 0 and primal[0] > 0 and np.nanmax(primal) > STEEP * primal[0]
    gaps = relative_gaps(points)
    caption = (
        f"The optimum is between the two lines: the cost of the current model{of}, and the best "
        "lower bound of the cost. The gap below is the part of the cost that can be above the "
        "optimum."
    )
    if len(primal):
        caption += f" The cost is {text(primal[-1])} at the end"
        caption += f", with a gap of {text(gaps[-1], None, True)}." if gaps[-1] > 0 else "."
    if thin:
        caption += " Thin lines: gaps of the other problems."
    costs = [
        Series(x, primal, "cost", "cost", "marked"),
        Series(x, points["dual"], "bound", "bound", dashed=True),
    ]
    return Chart(
        title,
        caption,
        against(by),
        [
            Panel(Axis("cost", "log" if steep else "linear"), costs, height=180),
            Panel(
                Axis("relative gap", "log", percent=True),
                [Series(along(one, by), relative_gaps(one), color="faint") for one in thin]
                + [Series(x, gaps, "gap", "gap", "marked")],
                height=120,
            ),
        ],
    )


def relative_costs(title: str, lines: Sequence[tuple[str, Values, Values]]) -> Chart:
    """Several trainings: (name, seconds, excess of the cost over the best bound) of each."""
    series = [
        Series(np.maximum(time, 1e-4), np.maximum(excess, 1e-6), plain(name, 30), k, "marked")
        for k, (name, time, excess) in enumerate(lines)
    ]
    caption = (
        "How far the cost is above the best bound of all, against time. Both axes are "
        "logarithmic: lower and further left is better."
    )
    y = Axis("cost above the bound", "log", percent=True)
    return Chart(title, caption, Axis("time (s)", "log"), [Panel(y, series, height=260)])


def roc(
    title: str,
    curves: Mapping[int, tuple[Values, Values, float]],
    classes: Sequence[Any],
    about: str = "",
) -> Chart:
    """(false positive rates, true positive rates, area) of each class by its number."""
    many = len(curves) > SHOWN_CLASSES
    names = names_of(classes)
    series = [
        Series(x, y, color="faint") if many else Series(x, y, f"{names[k]}: area {area:.4f}", k)
        for k, (x, y, area) in curves.items()
    ]
    area = float(np.mean([area for _, _, area in curves.values()]))
    of = "One curve for each class against the others" if len(curves) > 1 else f"Of {names[-1]}"
    caption = (
        f"{of}{about}, for all thresholds: the higher above the diagonal, the better. Area under "
        f"the curve: {area:.4f}{' on average' if len(curves) > 1 else ''}."
    )
    even = Series([0.0, 1.0], [0.0, 1.0], color="faint", dashed=True)
    y = share_axis("true positive rate")
    panel = Panel(y, [even, *series], height=300)
    return Chart(title, caption, share_axis("false positive rate"), [panel])


def precision_recall(
    title: str,
    curves: Mapping[int, tuple[Sequence[float], Sequence[float]]],
    classes: Sequence[Any],
    counts: Sequence[int],
) -> Chart:
    """Of the ROC curves of classes by their numbers, and the rows of each class."""
    series = []
    many = len(curves) > SHOWN_CLASSES
    for k, (false, true) in curves.items():
        points = np.array(precision_and_recall(false, true, counts[k], sum(counts) - counts[k]))
        name = "" if many else plain(str(classes[k]), 24)
        color: int | Role = "faint" if many else k
        series.append(Series(points[:, 0], points[:, 1], name, color))
    caption = (
        "Precision against recall, for all thresholds: the further right a curve stays high, the "
        "better."
    )
    panel = Panel(share_axis("precision"), series, height=300)
    return Chart(title, caption, share_axis("recall"), [panel])


def precision_and_recall(
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


def margins(
    title: str, caption: str, edges: Values, counts: Mapping[str, tuple[int | Role, Values]]
) -> Chart:
    """A histogram of margins: (color, rows of each bin) by the name of a group."""
    series = [
        Series(edges, values, plain(name, 40), color, "bars")
        for name, (color, values) in counts.items()
    ]
    guides = [Guide(at, name) for at, name in ((0.0, "boundary"), (1.0, "margin"))]
    shown = [guide for guide in guides if edges[0] <= guide.value <= edges[-1]]
    return Chart(title, caption, Axis("margin y·f(x)"), [Panel(Axis("rows"), series, shown)])
