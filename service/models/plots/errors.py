"""Plots of the errors of a model of numbers: predicted against actual, residuals."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from service.models.plots import drawing
from service.models.plots.measured import rows_of
from service.models.plots.palette import COLORS, FAINT, INK
from service.models.sources import Sources
from svm.data.matrices import Vector
from svm.model.target import Target

MOST_POINTS = 2000
LINE_POINTS = 100


def predicted_against_actual(sources: Sources) -> drawing.Picture:
    """Raises NotFound (`plot-unavailable`) without data."""
    picture, (ax,) = drawing.axes(sources.version, "Predicted against actual", 1, (4.8, 4.8))
    actual, predicted, target, rows = _predictions(sources)
    ends = np.append(actual, predicted)
    line = np.linspace(ends.min(), ends.max(), LINE_POINTS)
    _draw(ax, np.stack([actual, predicted], axis=1), line, line, target.around(line))
    ax.set(xlabel="actual", ylabel="predicted", aspect="equal")
    description = (
        f"Predicted against actual targets of {rows}; on the line they are equal, "
        f"the errors between the dashed lines are at most {_epsilon(target)}."
    )
    return picture.describe(description, sources.version.dataset_id)


def residuals(sources: Sources) -> drawing.Picture:
    """Raises NotFound (`plot-unavailable`) without data."""
    picture, (ax,) = drawing.axes(sources.version, "Residuals", 1, (5.2, 3.6))
    actual, predicted, target, rows = _predictions(sources)
    line = np.linspace(predicted.min(), predicted.max(), LINE_POINTS)
    around = target.around(line) - line
    points = np.stack([predicted, actual - predicted], axis=1)
    _draw(ax, points, line, np.zeros(LINE_POINTS), around)
    ax.set(xlabel="predicted", ylabel="actual minus predicted")
    description = (
        f"Actual minus predicted against predicted targets of {rows}; dashed lines "
        f"where the error is {_epsilon(target)}. A pattern is what the model has not learned."
    )
    return picture.describe(description, sources.version.dataset_id)


def _predictions(sources: Sources) -> tuple[Vector, Vector, Target, str]:
    """(actual (n,), predicted (n,), the target of the model, a description of the rows)."""
    rows = rows_of(sources, "plot of its errors", MOST_POINTS)
    target = sources.fitted.target
    assert rows.values is not None
    assert target is not None
    return rows.values, target.values(rows.scores), target, rows.description


def _draw(ax: Axes, points: Vector, x: Vector, exact: Vector, around: Vector) -> None:
    drawing.dots(ax, points, COLORS[0], 2.4, square=False)
    ax.plot(x, exact, color=INK, linewidth=0.8)
    ax.plot(x, around.T, "--", color=FAINT, linewidth=0.8)
    ax.grid(True)
    ax.autoscale_view()
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    ax.tick_params("x", rotation=30)


def _epsilon(target: Target) -> str:
    of = " of the logarithm" if target.logarithm else ""
    return f"ε = {target.epsilon:.4g}{of}"
