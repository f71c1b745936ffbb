"""Plots of the errors of a model of numbers: predicted against actual, residuals."""

from __future__ import annotations

import numpy as np

from service.charts.chart import Axis, Chart, Panel, Series
from service.models.plots import Plot, title
from service.models.plots.measured import rows_of
from service.models.sources import Sources
from svm.data.matrices import Vector
from svm.model.target import Target

MOST_POINTS = 2000
LINE_POINTS = 100


def predicted_against_actual(sources: Sources) -> Plot:
    """Raises NotFound (`plot-unavailable`) without data."""
    actual, predicted, target, rows = _predictions(sources)
    ends = np.append(actual, predicted)
    line = np.linspace(ends.min(), ends.max(), LINE_POINTS)
    series = _series(actual, predicted, line, line, target.around(line))
    caption = (
        f"Predicted against actual targets of {rows}; on the line they are equal, "
        f"the errors between the dashed lines are at most {_epsilon(target)}."
    )
    name = title(sources.version, "Predicted against actual")
    panel = Panel(Axis("predicted"), series, height=320)
    return Plot(Chart(name, caption, Axis("actual"), [panel]), sources.version.dataset_id)


def residuals(sources: Sources) -> Plot:
    """Raises NotFound (`plot-unavailable`) without data."""
    actual, predicted, target, rows = _predictions(sources)
    line = np.linspace(predicted.min(), predicted.max(), LINE_POINTS)
    around = target.around(line) - line
    series = _series(predicted, actual - predicted, line, np.zeros(LINE_POINTS), around)
    caption = (
        f"Actual minus predicted against predicted targets of {rows}; dashed lines "
        f"where the error is {_epsilon(target)}. A pattern is what the model has not learned."
    )
    name = title(sources.version, "Residuals")
    panel = Panel(Axis("actual minus predicted"), series, height=240)
    return Plot(Chart(name, caption, Axis("predicted"), [panel]), sources.version.dataset_id)


def _predictions(sources: Sources) -> tuple[Vector, Vector, Target, str]:
    """(actual (n,), predicted (n,), the target of the model, a description of the rows)."""
    rows = rows_of(sources, "plot of its errors", MOST_POINTS)
    target = sources.fitted.target
    assert rows.values is not None
    assert target is not None
    return rows.values, target.values(rows.scores), target, rows.description


def _series(x: Vector, y: Vector, line: Vector, exact: Vector, around: Vector) -> list[Series]:
    """The rows, the line of no error, and the two where the error is ε."""
    return [
        Series(x, y, mark="dots"),
        Series(line, exact, color="ink"),
        *(Series(line, one, color="soft", dashed=True) for one in around),
    ]


def _epsilon(target: Target) -> str:
    of = " of the logarithm" if target.logarithm else ""
    return f"ε = {target.epsilon:.4g}{of}"
