"""Plots of a model's predictions on rows: confusion matrix, ROC, margins, reliability, labels that
are withheld."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from service.errors import InvalidContent
from service.models.outputs import USUAL
from service.models.plots import drawing
from service.models.plots.drawing import SHOWN_CLASSES, names_of, unavailable
from service.models.plots.palette import CARD, COLORS, FAINT, INK
from service.models.sources import ScoredRows, Sources
from service.storage.database.tables import ModelVersion
from svm.data.matrices import Vector
from svm.model.metrics import RocCurve, roc_curve
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline

MOST_ROWS = 5000
CURVE_POINTS = 150
NUMBERED_CLASSES = 12
"""Confusion matrices with more classes do not show the counts."""
SHADES = 8
BINS = 40


def confusion(sources: Sources) -> drawing.Picture:
    """Uses the metrics of the version, not the data."""
    version = sources.version
    subset = _measured_subset(version.result.get("metrics", {}))
    if subset is None:
        raise unavailable(f"{version.model_name} version {version.version} has no confusion matrix")
    counts = np.asarray(version.result["metrics"][subset]["confusion_matrix"])
    picture, (ax,) = drawing.axes(version, "Confusion matrix", 1, (5.2, 4.8))
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    _shade(ax, shares)
    n = len(counts)
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    ax.set(xlabel="predicted class", ylabel="true class")
    names = names_of(version.classes)
    step = max(1, -(-n // 25))
    ticks = list(range(0, n, step))
    ax.set_xticks(ticks, [names[k] for k in ticks], rotation=90 if n > 4 else 0)
    ax.set_yticks(ticks, [names[k] for k in ticks])
    if n <= NUMBERED_CLASSES:
        for i, j in np.ndindex(n, n):
            ink = CARD if shares[i, j] > 0.55 else INK if counts[i, j] else FAINT
            ax.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", color=ink, fontsize=8)
    right = int(np.diag(counts).sum())
    rows = {"train": "training", "validation": "validation"}[subset]
    description = (
        f"Rows: true class; columns: predicted class; shades: share of the true class. "
        f"{right:,} of {counts.sum():,} {rows} rows are on the diagonal."
    )
    return picture.describe(description)


def roc(sources: Sources) -> drawing.Picture:
    """A curve for each class against the others; one curve for two classes.

    Raises NotFound (`plot-unavailable`) without data.
    """
    version, rows = sources.version, rows_of(sources, "ROC curve")
    decision = sources.fitted.decision_from_scores(rows.scores)
    picture, (ax,) = drawing.axes(version, "ROC", 1, (4.8, 4.8))
    columns = {1: decision} if decision.ndim == 1 else dict(enumerate(decision.T))
    curves: dict[int, RocCurve] = {}
    for code, values in columns.items():
        curve = roc_curve(rows.codes == code, values)
        if curve is not None:
            curves[code] = curve
    if not curves:
        raise unavailable("there is no ROC curve: all rows are of one class")
    names = names_of(version.classes)
    many = len(curves) > SHOWN_CLASSES
    ax.plot([0, 1], [0, 1], "--", color=FAINT, linewidth=0.8)
    for code, curve in curves.items():
        thin = curve.thinned(40 if many else CURVE_POINTS)
        label = None if many else f"{names[code]}: area {curve.area:.4f}"
        style: dict[str, Any] = {"color": FAINT, "linewidth": 0.6} if many else {}
        ax.plot(
            thin.false_positive_rate,
            thin.true_positive_rate,
            label=label,
            **({"color": drawing.color(code)} | style),
        )
    ax.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    ax.grid(True)
    if not many:
        ax.legend(loc="lower right")
    areas = [curve.area for curve in curves.values()]
    of = "one curve for each class against the others" if len(curves) > 1 else names[1]
    description = f"{of}; {rows.description}. Area under the curve: {np.mean(areas):.4f}"
    description += " on average." if len(curves) > 1 else "."
    return picture.describe(description, version.dataset_id)


def margins(sources: Sources) -> drawing.Picture:
    """Raises NotFound (`plot-unavailable`) without data."""
    version, rows = sources.version, rows_of(sources, "distribution of margins")
    values = smallest_margins(sources.fitted, rows)
    picture, (ax,) = drawing.axes(version, "Margins", 1, (5.2, 3.6))
    edges = _edges(values)
    inside = np.clip(values, edges[0], edges[-1])
    groups = {
        "wrong side": (inside < 0, COLORS[1]),
        "inside the margin": ((inside >= 0) & (inside < 1), COLORS[4]),
        "beyond the margin": (inside >= 1, COLORS[0]),
    }
    ax.hist(
        [inside[chosen] for chosen, _ in groups.values()],
        bins=edges.tolist(),
        stacked=True,
        histtype="stepfilled",
        color=[shade for _, shade in groups.values()],
        label=[f"{name}: {chosen.mean():.1%}" for name, (chosen, _) in groups.items()],
    )
    for position in (0.0, 1.0):
        ax.axvline(position, color=INK, linewidth=0.8, linestyle="--")
    ax.set(xlabel="margin y·f(x)", ylabel="rows")
    ax.legend()
    of = ", the smallest of the row's binary problems" if len(version.classes) > 2 else ""
    shares = ", ".join(f"{name} {chosen.mean():.1%}" for name, (chosen, _) in groups.items())
    description = f"Margin y f(x){of}; {rows.description}: {shares}."
    return picture.describe(description, version.dataset_id)


def reliability(sources: Sources) -> drawing.Picture:
    """Raises InvalidContent (`not-calibrated`), NotFound (`plot-unavailable`) without metrics."""
    version, fitted = sources.version, sources.fitted
    if fitted.calibration is None:
        raise _not_calibrated(version, "has no probabilities", "`calibration` and `validation`")
    measured = version.result.get("metrics", {}).get("validation", {}).get("calibration")
    if measured is None:
        raise unavailable("there is no reliability diagram: the probabilities were not measured")
    bins = measured["reliability"]
    heights = {"height_ratios": [3, 1]}
    picture, (ax, below) = drawing.axes(
        version, "Reliability", 2, (4.8, 5.2), sharex=True, gridspec_kw=heights
    )
    predicted = [one["mean_probability"] for one in bins]
    ax.plot([0, 1], [0, 1], "--", color=FAINT, linewidth=0.8)
    ax.plot(predicted, [one["accuracy"] for one in bins], "o-", ms=4, color=COLORS[0])
    ax.set(ylabel="share that is correct", xlim=(0, 1), ylim=(0, 1.02))
    below.bar(predicted, [one["n_samples"] for one in bins], width=0.02, color=COLORS[0])
    below.set(xlabel="largest probability", ylabel="rows")
    for one in (ax, below):
        one.grid(True)
    error = measured["expected_calibration_error"]
    total = sum(one["n_samples"] for one in bins)
    description = (
        f"How often the class with the largest probability is the true one, against that "
        f"probability; {total:,} validation rows, each with a calibration that was fitted on "
        f"others. Expected calibration error {error:.4f}."
    )
    return picture.describe(description)


def none_of_these(sources: Sources) -> drawing.Picture:
    """Raises InvalidContent (`not-calibrated`) if the model withholds no label."""
    version, rejection = sources.version, sources.fitted.rejection
    if rejection is None:
        raise _not_calibrated(version, "withholds no label", "`validation`")
    picture, (ax,) = drawing.axes(version, "None of these", 1, (5.2, 3.6))
    decisions, n = rejection.decisions, len(rejection.decisions)
    curve = np.stack([decisions, np.arange(n) / n], axis=1)
    ax.plot(*drawing.thin_out(curve).T, drawstyle="steps-post", color=COLORS[0])
    description = (
        f"Share of {n:,} rows of known classes with a label less certain than a threshold."
    )
    for share, threshold in rejection.thresholds([USUAL.withheld]):
        ax.plot([threshold], [np.mean(decisions < threshold)], "o", ms=5, color=INK)
        description += f" {share:.0%} are withheld, or fewer, at {threshold:.4g}, the dot."
    ax.set(xlabel="threshold of the certainty", ylabel="share withheld of known classes")
    ax.set(ylim=(0, 1.02))
    ax.grid(True)
    return picture.describe(description)


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


def _shade(ax: Axes, shares: npt.NDArray[np.float64]) -> None:
    """Cells of one shade as one path, neighbors in a row joined; empty cells stay white."""
    shades = np.ceil(shares * SHADES).astype(np.int64)
    for shade in range(1, SHADES + 1):
        corners: list[tuple[float, float]] = []
        for i in range(len(shades)):
            edges = np.diff(np.concatenate([[0], shades[i] == shade, [0]]))
            for j, end in zip(np.flatnonzero(edges > 0), np.flatnonzero(edges < 0), strict=True):
                left, right = j - 0.5, end - 0.5
                corners += [(left, i - 0.5), (right, i - 0.5), (right, i + 0.5), (left, i + 0.5)]
                corners.append((left, i - 0.5))
        if corners:
            kinds = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
            path = Path(np.array(corners), np.tile(kinds, len(corners) // 5))
            path.should_simplify = False
            ax.add_patch(
                PathPatch(path, facecolor=COLORS[0], alpha=shade / SHADES, edgecolor="none")
            )
