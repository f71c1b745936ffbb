"""Plots of a model's predictions on rows: confusion matrix, ROC, margins, reliability, labels that
are withheld."""

from __future__ import annotations

from typing import Any

import numpy as np

from service.charts import views
from service.charts.chart import SHOWN_CLASSES, Axis, Chart, Panel, Series, thin_out
from service.common.figures import percent
from service.errors import InvalidContent
from service.models.measured import effective
from service.models.outputs import USUAL
from service.models.plots import Plot, title, unavailable
from service.models.sources import ScoredRows, Sources
from service.storage.database.tables import ModelVersion
from svm.data.matrices import Vector
from svm.model.metrics import RocCurve, roc_curve
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline

MOST_ROWS = 5000
CURVE_POINTS = 150
BINS = 40


def confusion(sources: Sources) -> Plot:
    """Uses the metrics of the version, not the data."""
    version = sources.version
    subset = _measured_subset(version.result.get("metrics", {}))
    if subset is None:
        raise unavailable(f"{version.model_name} version {version.version} has no confusion matrix")
    counts = np.asarray(version.result["metrics"][subset]["confusion_matrix"])
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    n, names = len(counts), list(map(str, version.classes))
    rows, columns = np.indices((n, n)).reshape(2, -1)
    texts = [f"{count:,}" for count in counts.ravel().tolist()]
    cells = Series(columns, rows, mark="cells", shades=shares.ravel(), texts=texts)
    right = int(np.diag(counts).sum())
    measured = {"train": "training", "validation": "validation"}[subset]
    caption = (
        f"Rows: true class; columns: predicted class; shades: share of the true class. "
        f"{right:,} of {counts.sum():,} {measured} rows are on the diagonal."
    )
    panel = Panel(Axis("true class", names=names, reverse=True), [cells], height=330)
    name = title(version, "Confusion matrix")
    return Plot(Chart(name, caption, Axis("predicted class", names=names), [panel]))


def roc(sources: Sources) -> Plot:
    """A curve for each class against the others; one curve for two classes.

    Raises NotFound (`plot-unavailable`) without data.
    """
    version, rows = sources.version, rows_of(sources, "ROC curve")
    decision = sources.fitted.decision_from_scores(rows.scores)
    columns = {1: decision} if decision.ndim == 1 else dict(enumerate(decision.T))
    curves: dict[int, RocCurve] = {}
    for code, values in columns.items():
        curve = roc_curve(rows.codes == code, values)
        if curve is not None:
            curves[code] = curve
    if not curves:
        raise unavailable("there is no ROC curve: all rows are of one class")
    most = 40 if len(curves) > SHOWN_CLASSES else CURVE_POINTS
    thin = {code: (curve.thinned(most), curve.area) for code, curve in curves.items()}
    chart = views.roc(
        title(version, "ROC"),
        {k: (one.false_positive_rate, one.true_positive_rate, a) for k, (one, a) in thin.items()},
        version.classes,
        f"; {rows.description}",
    )
    return Plot(chart, version.dataset_id)


def margins(sources: Sources) -> Plot:
    """Raises NotFound (`plot-unavailable`) without data."""
    version, rows = sources.version, rows_of(sources, "distribution of margins")
    values = smallest_margins(sources.fitted, rows)
    edges = _edges(values)
    inside = np.clip(values, edges[0], edges[-1])
    groups = {
        "wrong side": (inside < 0, 1),
        "inside the margin": ((inside >= 0) & (inside < 1), 4),
        "beyond the margin": (inside >= 1, 0),
    }
    of = ", the smallest of the row's binary problems" if len(version.classes) > 2 else ""
    shares = ", ".join(f"{name} {percent(chosen.mean())}" for name, (chosen, _) in groups.items())
    chart = views.margins(
        title(version, "Margins"),
        f"Margin y f(x){of}; {rows.description}: {shares}.",
        edges,
        {
            f"{name}: {percent(chosen.mean())}": (color, np.histogram(inside[chosen], edges)[0])
            for name, (chosen, color) in groups.items()
        },
    )
    return Plot(chart, version.dataset_id)


def reliability(sources: Sources) -> Plot:
    """Raises InvalidContent (`not-calibrated`), NotFound (`plot-unavailable`) without metrics."""
    version, fitted = sources.version, sources.fitted
    if fitted.calibration is None:
        raise _not_calibrated(version, "has no probabilities", "`calibration` and `validation`")
    validation = version.result.get("metrics", {}).get("validation", {})
    measured = validation.get("calibration")
    if measured is None:
        raise unavailable("there is no reliability diagram: the probabilities were not measured")
    n = sum(map(sum, validation["confusion_matrix"]))
    chart = views.reliability(
        title(version, "Reliability"),
        [
            (one["n_samples"], one["mean_probability"], one["accuracy"])
            for one in measured["reliability"]
        ],
        measured["expected_calibration_error"],
        "validation rows, each with a calibration that was fitted on others",
        effective(validation, n) / n,
    )
    return Plot(chart)


def none_of_these(sources: Sources) -> Plot:
    """Raises InvalidContent (`not-calibrated`) if the model withholds no label."""
    version, rejection = sources.version, sources.fitted.rejection
    if rejection is None:
        raise _not_calibrated(version, "withholds no label", "`validation`")
    decisions, n = rejection.decisions, len(rejection.decisions)
    curve = thin_out(np.stack([decisions, np.arange(n) / n], axis=1))
    series = [Series(curve[:, 0], curve[:, 1], mark="steps")]
    caption = f"Share of {n:,} rows of known classes with a label less certain than a threshold."
    for share, threshold in rejection.thresholds([USUAL.withheld]):
        withheld = float(np.mean(decisions < threshold))
        series.append(Series([threshold], [withheld], color="ink", mark="dots"))
        caption += f" {percent(share, 0)} are withheld, or fewer, at {threshold:.4g}, the dot."
    panel = Panel(views.share_axis("share withheld of known classes"), series)
    x = Axis("threshold of the certainty")
    return Plot(Chart(title(version, "None of these"), caption, x, [panel]))


def smallest_margins(fitted: FittedPipeline, rows: ScoredRows) -> Vector:
    """(n,) the smallest y·f(x) over the binary problems of a row's class: at least 0 if all of
    them are on the correct side."""
    smallest = np.full(len(rows.codes), np.inf)
    for k, split in enumerate(splits_of(fitted.multiclass, len(fitted.classes))):
        positive, negative = rows.codes == split.positive, np.isin(rows.codes, split.negative)
        scores = rows.scores[:, k]
        smallest[positive] = np.minimum(smallest[positive], scores[positive])
        smallest[negative] = np.minimum(smallest[negative], -scores[negative])
    return smallest


def _edges(values: Vector) -> Vector:
    """Edges of bins, with 0 and 1 among them; outliers are left out."""
    low, high = np.quantile(values, [0.005, 0.995])
    low, high = min(float(low), -0.2), max(float(high), 1.2)
    within = BINS / (high - low)  # bins between 0 and 1
    width = 1.0 / int(within) if within >= 1 else np.ceil(1.0 / within)
    edges: Vector = np.arange(np.floor(low / width), np.ceil(high / width) + 1) * width
    return edges


def rows_of(sources: Sources, what: str, most: int = MOST_ROWS) -> ScoredRows:
    """Raises NotFound (`plot-unavailable`) without data."""
    rows = sources.rows(most)
    if rows is None:
        raise unavailable(f"there is no {what}: it needs the training data, and these were deleted")
    return rows


def _not_calibrated(version: ModelVersion, what: str, needs: str) -> InvalidContent:
    name = f"{version.model_name} version {version.version}"
    return InvalidContent("not-calibrated", f"{name} {what}; train it with {needs}")


def _measured_subset(metrics: dict[str, Any]) -> str | None:
    names = ("validation", "train")
    return next((name for name in names if "confusion_matrix" in metrics.get(name, {})), None)
