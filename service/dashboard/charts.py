"""What the charts of pages show: learning curves from traces of jobs, evaluations, and costs of a
comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.charts import views
from service.charts.chart import SHOWN_CLASSES, Chart
from service.charts.views import Against
from service.common.figures import number, percent
from service.errors import NotFound
from service.jobs.collection.schemas import JobRead
from service.jobs.comparisons.schemas import ComparisonRead
from service.jobs.comparisons.size_plot import entry_title
from service.jobs.core.job import FINAL
from service.jobs.evaluations.schemas import EvaluationMetricsRead, NumberMetricsRead
from service.models.measured import effective

COLUMNS = ("epoch", "updates", "elapsed_s", "primal", "dual", "train_error", "validation_error")


@dataclass(frozen=True, slots=True)
class Curve:
    """One binary problem: a list for each of `COLUMNS`, ordered by time."""

    title: str
    of_numbers: bool
    """Its errors are mean absolute errors, not shares of rows."""
    points: views.Points

    def thinned(self, most: int) -> views.Points:
        """At most `most` points, evenly spread, with the first and the last."""
        return views.thinned(self.points, most)

    def error(self, value: float | None) -> str:
        """An error as text."""
        return number(value) if self.of_numbers else percent(value)


def curves_of(trace: Iterable[Mapping[str, Any]], *, ended: bool = True) -> list[Curve]:
    """From the rows of `JobStore.trace`: the problem with the largest gap first or, until a job has
    ended, always the same one."""
    curves = []
    problems = views.problems_of(trace)
    for points in problems if ended else sorted(problems, key=lambda one: one["pair"][0]):
        classes = points["classes"][0]
        title = " against ".join(map(str, reversed(classes)))
        alone = " against all others" if len(classes) == 1 else ""
        curves.append(Curve(title + alone, not classes, points))
    return curves


def chart_of(curves: Sequence[Curve], job: JobRead, by: Against) -> Chart | None:
    """The learning curve of a job, of its first problem until it ends and then of that with the
    largest gap, and what is known of a running job since its last point; None of a job that has
    ended without points."""
    now, running = job.progress, job.state not in FINAL
    if not (running or curves):
        return None
    points = curves[0].points if curves else {name: [] for name in COLUMNS}
    latest = {"primal": now.primal, "dual": now.dual, "epoch": now.epoch, "updates": now.updates}
    if running and len(curves) < 2 and None not in latest.values():
        newest = latest | {"elapsed_s": job.elapsed_s}
        points = {name: [*values, newest.get(name)] for name, values in points.items()}
    of = ""
    if len(curves) > 1:
        rank = "first" if running else "widest"
        of = f" of the problem {curves[0].title}, the {rank} of {len(curves)}"
    when = "so far" if running else "at the end"
    return views.learning_curve("Cost and bound", points, by, of, when=when)


def evaluation_charts(metrics: EvaluationMetricsRead | NumberMetricsRead) -> dict[str, Chart]:
    """The charts that the metrics have data for, by the names of their files."""
    if isinstance(metrics, NumberMetricsRead):
        rows, points = f"{len(metrics.points.actual):,} rows", metrics.points
        return {
            "predicted-against-actual": views.predicted_against_actual(
                "Predicted against actual", rows, points.actual, points.predicted
            ),
            "residuals": views.residuals("Residuals", rows, points.actual, points.predicted),
        }
    classes, charts = metrics.classes, {}
    rates = {
        classes.index(one.label): (one.false_positive_rate, one.true_positive_rate, one.auc)
        for one in metrics.roc
    }
    if rates:
        charts["roc"] = views.roc("ROC", rates, classes)
        charts["precision-recall"] = views.precision_recall(
            "Precision and recall", rates, classes, list(map(sum, metrics.confusion_matrix))
        )
    caption = "Rows by their margins; those left of the boundary are predicted wrongly."
    shown = metrics.margins.counts
    bars: dict[str, tuple[int, Any]] = {"": (0, np.sum(shown, axis=0))}
    if len(classes) <= SHOWN_CLASSES:
        bars = {str(classes[k]): (k, values) for k, values in enumerate(shown)}
    edges, binary = metrics.margins.edges, len(classes) == 2
    charts["margins"] = views.margins("Margins", caption, edges, bars, binary=binary)
    if metrics.calibration:
        bins = metrics.calibration.reliability
        charts["reliability"] = views.reliability(
            "Reliability",
            [(one.n_samples, one.mean_probability, one.accuracy) for one in bins],
            metrics.calibration.expected_calibration_error,
            effective=effective(metrics, metrics.n_samples) / metrics.n_samples,
        )
    return charts


def objective_chart(comparison: ComparisonRead, number: int) -> Chart:
    """Costs of the entries of a comparison that minimize one function. Raises NotFound."""
    objective = next((one for one in comparison.objectives if one.number == number), None)
    if objective is None or objective.dual <= 0:
        raise NotFound("not-found", f"the comparison has no chart of the objective {number}")
    lines = []
    for entry in comparison.entries:
        if entry.objective == number and entry.trace and entry.trace.rows:
            rows = np.array(entry.trace.rows, dtype=float)
            excess = rows[:, 1] / objective.dual - 1
            lines.append((entry_title(entry.spec), rows[:, 0], excess))
    title = f"Cost against time, λ = {objective.regularization:.4g}"
    return views.relative_costs(title, lines)
