"""Plots of the errors of a model of numbers: predicted against actual, residuals."""

from __future__ import annotations

from service.charts import views
from service.models.plots import Plot, title
from service.models.plots.measured import rows_of
from service.models.sources import Sources
from svm.data.matrices import Vector
from svm.model.target import Target

MOST_POINTS = 2000


def predicted_against_actual(sources: Sources) -> Plot:
    """Raises NotFound (`plot-unavailable`) without data."""
    actual, predicted, target, rows = _predictions(sources)
    around = target.around(views.line_of(actual, predicted))
    name = title(sources.version, "Predicted against actual")
    chart = views.predicted_against_actual(name, rows, actual, predicted, around)
    return Plot(chart, sources.version.dataset_id)


def residuals(sources: Sources) -> Plot:
    """Raises NotFound (`plot-unavailable`) without data."""
    actual, predicted, target, rows = _predictions(sources)
    line = views.line_of(predicted)
    name = title(sources.version, "Residuals")
    chart = views.residuals(name, rows, actual, predicted, target.around(line) - line)
    return Plot(chart, sources.version.dataset_id)


def _predictions(sources: Sources) -> tuple[Vector, Vector, Target, str]:
    """(actual (n,), predicted (n,), the target of the model, what is drawn of them)."""
    rows = rows_of(sources, "plot of its errors", MOST_POINTS)
    target = sources.fitted.target
    assert rows.values is not None
    assert target is not None
    of = " of the logarithm" if target.logarithm else ""
    about = f"{rows.description}; dashed lines: errors of ε = {target.epsilon:.4g}{of}"
    return rows.values, target.values(rows.scores), target, about
