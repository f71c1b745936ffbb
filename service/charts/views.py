"""The charts that a page and a plot of a model both have, from plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from service.charts.chart import (
    MOST_POINTS,
    SHOWN_CLASSES,
    Axis,
    Chart,
    Guide,
    Panel,
    Series,
    Values,
    plain,
    thin_out,
)
from service.charts.palette import Role
from service.charts.scales import text
from svm.model.measures import interval
from svm.model.metrics import BINS

Against: TypeAlias = Literal["time", "epoch", "update"]
MEASURED: Mapping[Against, tuple[str, str]] = {
    "time": ("elapsed_s", "time (s)"),
    "epoch": ("epoch", "epoch"),
    "update": ("updates", "update"),
}
"""The member of a point of a trace, and the label of the axis."""
STEEP = 1e6
"""A cost that rises to more than this many times the first one is drawn on a logarithmic axis."""
LINE_POINTS = 100
NAMED = 3
"""Of more classes than have distinct colors, this many are named: the worst."""
STEPS = 4
"""Points of a curve of precision and recall for each of the ROC curve."""
Rates: TypeAlias = Mapping[int, tuple[Values, Values, float]]
"""(false positive rates, true positive rates, area) of classes by their numbers."""
Points: TypeAlias = Mapping[str, Sequence[Any]]
"""A list for each member of the points of a trace."""


def share_axis(label: str) -> Axis:
    """From 0 to 100 %."""
    return Axis(label, low=0.0, high=1.0, percent=True)


def against(by: Against) -> Axis:
    """The horizontal axis of a training."""
    return Axis(MEASURED[by][1], whole=by != "time")


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


def problems_of(trace: Iterable[Mapping[str, Any]]) -> list[Points]:
    """The points of each binary problem from the rows of a job's trace; the problem with the
    largest gap at its end first."""
    by_pair: dict[int, dict[str, list[Any]]] = {}
    for row in trace:
        points = by_pair.setdefault(row["pair"], {name: [] for name in row})
        for name, value in row.items():
            points[name].append(value)
    ends = [(float(np.nan_to_num(relative_gaps(one)[-1])), one) for one in by_pair.values()]
    return [points for _, points in sorted(ends, key=lambda end: -end[0])]


def thinned(points: Points, most: int = MOST_POINTS) -> Points:
    """At most `most` points, evenly spread, with the first and the last."""
    chosen = thin_out(np.arange(len(points["epoch"])), most).tolist()
    return {name: [values[k] for k in chosen] for name, values in points.items()}


def learning_curve(
    title: str,
    points: Points,
    by: Against,
    of: str = "",
    others: Iterable[Points] = (),
    when: str = "at the end",
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
        caption += f" The cost is {text(primal[-1])} {when}"
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


def roc(title: str, curves: Rates, classes: Sequence[Any], about: str = "") -> Chart:
    """A curve of each class by its number."""
    area = float(np.mean([area for _, _, area in curves.values()]))
    of = (
        "One curve for each class against the others"
        if len(curves) > 1
        else f"Of the class {classes[-1]}"
    )
    caption = (
        f"{of}{about}, for all thresholds: the higher above the diagonal, the better. Area under "
        f"the curve: {area:.4f}{' on average' if len(curves) > 1 else ''}.{_which(curves)}"
    )
    even = Series([0.0, 1.0], [0.0, 1.0], color="faint", dashed=True)
    lines = {k: (x, y, f" (area {area:.4f})") for k, (x, y, area) in curves.items()}
    series = [even, *_by_class(lines, curves, classes)]
    panel = Panel(share_axis("true positive rate"), series, height=300)
    return Chart(title, caption, share_axis("false positive rate"), [panel])


def precision_recall(
    title: str, curves: Rates, classes: Sequence[Any], counts: Sequence[int]
) -> Chart:
    """Of the ROC curves of classes by their numbers, and the rows of each class."""
    lines: dict[int, tuple[Values, Values, str]] = {}
    for k, (false, true, _) in curves.items():
        points = np.array(precision_and_recall(false, true, counts[k], sum(counts) - counts[k]))
        lines[k] = points[:, 0], points[:, 1], ""
    series = _by_class(lines, curves, classes)
    caption = (
        "Precision against recall, for all thresholds: the further right a curve stays high, the "
        f"better.{_which(curves)}"
    )
    if len(series) == 1:
        share = counts[-1] / sum(counts)
        series.append(Series([0.0, 1.0], [share, share], color="faint", dashed=True))
        caption += f" Dashed: the precision of a guess, {text(share, None, True)}."
    panel = Panel(share_axis("precision"), series, height=300)
    return Chart(title, caption, share_axis("recall"), [panel])


def _by_class(
    lines: Mapping[int, tuple[Values, Values, str]], curves: Rates, classes: Sequence[Any]
) -> list[Series]:
    """(x, y, text behind the name) of each class. Of many classes, only those with the
    smallest areas have names and colors."""
    colors = {k: k for k in curves}
    if len(curves) > SHOWN_CLASSES:
        worst = sorted(curves, key=lambda k: curves[k][2])
        colors = {k: i for i, k in enumerate(worst[:NAMED])}
    return [
        Series(x, y, f"{classes[k]}{more}", colors[k])
        if k in colors
        else Series(x, y, color="faint")
        for k, (x, y, more) in sorted(lines.items(), key=lambda line: line[0] in colors)
    ]


def _which(curves: Rates) -> str:
    many = len(curves) > SHOWN_CLASSES
    return f" Named: the {NAMED} classes with the smallest areas below ROC." if many else ""


def precision_and_recall(
    false_positive_rate: Values,
    true_positive_rate: Values,
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
    title: str,
    caption: str,
    edges: Values,
    counts: Mapping[str, tuple[int | Role, Values]],
    *,
    binary: bool = True,
) -> Chart:
    """A histogram of margins: (color, rows of each bin) by the name of a group. `binary`: they are
    y·f(x), and the margin ends at 1; else the decision value of the true class minus the largest
    other one."""
    series = [
        Series(edges, values, plain(name, 40), color, "bars")
        for name, (color, values) in counts.items()
    ]
    guides = [Guide(0.0, "boundary"), *([Guide(1.0, "margin")] if binary else [])]
    shown = [guide for guide in guides if edges[0] <= guide.value <= edges[-1]]
    caption += " Rows beyond the ends are in the outermost bars."
    panel = Panel(Axis("rows", whole=True), series, shown)
    label = "margin y·f(x)" if binary else "decision value minus the largest other one"
    return Chart(title, caption, Axis(label), [panel])


def reliability(
    title: str,
    bins: Sequence[tuple[int, float, float]],
    error: float,
    about: str = "rows",
    effective: float = 1.0,
) -> Chart:
    """(rows, mean of the largest probability, share that is correct) of each bin that has rows, and
    the expected calibration error. `effective`: the share of rows that are as if independent; in
    the bins it is larger."""
    rows, probability, correct = (
        np.array(column, dtype=float) for column in zip(*bins, strict=True)
    )
    low, high = np.transpose([interval(share, effective * n) for n, _, share in bins])
    gap = np.full(len(bins), np.nan)
    errors = Series(
        np.stack([probability, probability, gap], axis=1).ravel(),
        np.stack([low, high, gap], axis=1).ravel(),
        color="faint",
    )
    places = np.minimum((probability * BINS).astype(int), BINS - 1)
    first = float(places.min() / BINS)
    counts = np.bincount(places, rows, BINS)[places.min() :]
    edges = np.arange(places.min(), BINS + 1) / BINS
    caption = (
        "How often the class with the largest probability is the true one, against that "
        "probability; on the dashed line they are equal. Thin lines: 95 % intervals of "
        f"{int(rows.sum()):,} {about}. Expected calibration error "
        f"{text(error, None, True)}."
    )
    even = Series([first, 1.0], [first, 1.0], color="faint", dashed=True)
    panels = [
        Panel(
            share_axis("share that is correct"),
            [even, errors, Series(probability, correct, mark="marked")],
            height=240,
        ),
        Panel(Axis("rows", whole=True), [Series(edges, counts, mark="bars")], height=80),
    ]
    return Chart(title, caption, replace(share_axis("largest probability"), low=first), panels)


def predicted_against_actual(
    title: str, about: str, actual: Values, predicted: Values, around: Iterable[Values] = ()
) -> Chart:
    """Of rows (n,), with lines around the equal ones: (`LINE_POINTS`,) of `line_of` both."""
    line = line_of(actual, predicted)
    low, high = float(line[0]), float(line[-1])
    series = _rows_and_lines(actual, predicted, line, line, around)
    panel = Panel(Axis("predicted", low=low, high=high), series, height=320)
    caption = f"Predicted against actual numbers, equal on the line, of {about}."
    return Chart(title, caption, Axis("actual", low=low, high=high), [panel])


def residuals(
    title: str, about: str, actual: Values, predicted: Values, around: Iterable[Values] = ()
) -> Chart:
    """Of rows (n,), with lines around zero: (`LINE_POINTS`,) of `line_of` the predictions."""
    errors = np.asarray(actual) - np.asarray(predicted)
    line = line_of(predicted)
    series = _rows_and_lines(predicted, errors, line, np.zeros(LINE_POINTS), around)
    caption = (
        f"Actual minus predicted against predicted numbers of {about}. A pattern is what the "
        "model has not learned."
    )
    panel = Panel(Axis("actual minus predicted"), series, height=240)
    return Chart(title, caption, Axis("predicted"), [panel])


def line_of(*values: Values) -> npt.NDArray[np.float64]:
    """Numbers from the smallest to the largest value."""
    known = np.concatenate([np.asarray(one, dtype=float) for one in values])
    return np.linspace(known.min(), known.max(), LINE_POINTS)


def _rows_and_lines(
    x: Values, y: Values, line: Values, exact: Values, around: Iterable[Values]
) -> list[Series]:
    return [
        Series(x, y, mark="dots"),
        Series(line, exact, color="ink"),
        *(Series(line, one, color="soft", dashed=True) for one in around),
    ]
