"""What jobs that train show of a training: its progress, its result, and its model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from weakref import ref

import numpy as np

from service.common.figures import counted
from service.datasets.dataset import Dataset
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.job import State
from service.jobs.core.leases import Outcome as JobOutcome
from service.models.files import describe_table
from service.storage.database.tables import ModelOrigin
from svm.data.matrices import Indices
from svm.model.measures import Measures
from svm.model.pipeline import FittedPipeline
from svm.model.rejection import SHARES, Rejection
from svm.stopping import Stopping, StopReason
from svm.training.candidates import Candidate
from svm.training.curve import Progress
from svm.training.results import TrainingResult
from svm.training.search import Outcome, Search, Tried
from svm.training.training import Training
from svm.training.warm_start import WarmStart


def progress_of(progress: Progress) -> dict[str, Any]:
    return {
        "epoch": progress.epoch,
        "updates": progress.updates,
        "primal": progress.primal,
        "dual": progress.dual,
        "relative_gap": progress.relative_gap,
    }


def final_progress(
    attempt: Attempt, canceled: bool, model: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Progress of a job that ended with this model, with its epochs, updates and certificate."""
    done = attempt.progress.get("fraction", 0.0) if canceled else 1.0
    shown = {"fraction": done, "eta_s": 0.0}
    if model is None:
        return shown
    certificate = {
        name: model["certificate"][name] for name in ("primal", "dual", "relative_gap", "status")
    }
    return shown | {"epoch": model["epochs"], "updates": model["updates"], **certificate}


def unproven(result: TrainingResult) -> tuple[str, ...]:
    """Why a training ended before the gap that it was asked for, or the default one, was proven;
    nothing if its epochs or updates were the only rule."""
    asked = result.warm_start.pipeline.stopping.resolve()
    reason = result.stop_reason
    if result.converged or reason is StopReason.CANCELED:
        return ()
    used_up = reason in (StopReason.MAX_EPOCHS, StopReason.MAX_UPDATES)
    if used_up and asked.duality_gap is None and asked.cost_change is None:
        return ()
    return (f"The training ended before it converged ({reason}). {reason.advice}",)


def result_of(
    result: TrainingResult, metrics: Mapping[str, Any], notes: Sequence[str] = ()
) -> dict[str, Any]:
    """The `result` of a job and of its model version, with more notes."""
    table = describe_table(result.fitted)
    encoding = {} if table is None else {"encoding": table["notes"]}
    return {
        "metrics": {**metrics, **encoding},
        "certificate": result.certificate.as_dict(result.fitted.classes),
        "stop_reason": result.stop_reason,
        "converged": result.converged,
        "epochs": result.epochs,
        "updates": result.updates,
        "notes": [*result.notes, *notes],
        "warnings": list(result.warnings),
    }


def search_of(outcome: Outcome) -> dict[str, Any]:
    """What `auto` compared. Scores are accuracies, of numeric targets mean absolute errors."""
    numbers = outcome.pipeline.predicts_numbers
    return {
        "summary": outcome.summary,
        "score": _score(outcome.loss, numbers),
        "n_samples": outcome.rows,
        **outcome.groups,
        **_tried(outcome.tried, numbers, outcome.chosen),
    }


def search_so_far(search: Search) -> dict[str, Any]:
    """The same of a search that has not ended: nothing is chosen yet."""
    tried = search.tried()
    said = f"{counted(len(tried), 'setting')} tried so far"
    known = {"summary": said, "score": None, "n_samples": search.rows}
    return known | _tried(tried, search.of_numbers, None)


def _tried(tried: Sequence[Tried], numbers: bool, chosen: Candidate | None) -> dict[str, Any]:
    return {
        "score_name": "mae" if numbers else "accuracy",
        "tried": [
            {
                **asdict(each.candidate),
                "score": _score(each.loss, numbers),
                "standard_error": each.deviation if math.isfinite(each.deviation) else None,
                "folds": each.folds,
                "chosen": each.candidate == chosen,
            }
            for each in tried
        ],
    }


def _score(loss: float, numbers: bool) -> float | None:
    if not math.isfinite(loss):
        return None
    return loss if numbers else 1.0 - loss


COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Of prediction intervals; what these are worth is recorded."""


def coverages_of(fitted: FittedPipeline) -> dict[str, Any]:
    """What is known about the prediction intervals of a model, for usual coverages."""
    conformal = fitted.conformal
    assert conformal is not None
    return {
        "n_samples": len(conformal.residuals),
        "coverages": [
            {
                "coverage": coverage,
                "half_width": width,
                "mean_share": conformal.mean_share(coverage),
                "least_share": conformal.least_share(coverage),
            }
            for coverage, width in conformal.half_widths(COVERAGES)
        ],
    }


def prices_of(rejection: Rejection, left_out: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """What is known about labels that a model withholds, for usual shares of known rows: the
    threshold, the share on average and its interval of 95 %, and of the rows of all classes that
    were left out of a training, in turn, the share that was withheld."""
    n_unknown = sum(group["n_samples"] for group in left_out)

    def recall(share: float) -> float | None:
        counts = [group["withheld"].get(f"{share:g}") for group in left_out]
        return None if None in counts or not n_unknown else sum(counts) / n_unknown

    return {
        "n_samples": len(rejection.decisions),
        "prices": [
            {
                "withheld": share,
                "threshold": threshold,
                "mean_share": rejection.mean_share(share),
                "interval": list(rejection.share_interval(share)),
                "recall": recall(share),
            }
            for share, threshold in rejection.thresholds(SHARES)
        ],
        "left_out": list(left_out),
    }


def fold_of(result: TrainingResult, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of the training of a fold."""
    return {
        **metrics,
        "stop_reason": result.stop_reason,
        "epochs": result.epochs,
        "relative_gap": result.certificate.worst.relative_gap,
    }


def metrics_of_folds(measures: Measures, folds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Metrics of all rows, each predicted by the training that did not see it; `measures` are those
    of all folds together. Without folds they are those of the validation set."""
    if not folds:
        return measures.metrics()
    name = measures.SCORES[0]
    scores = [fold[name] for fold in folds]
    return {
        **measures.metrics(),
        f"{name}_mean": float(np.mean(scores)),
        f"{name}_std": float(np.std(scores, ddof=1)) if len(folds) > 1 else None,
        "folds": list(folds),
    }


def finish_with_model(
    context: RunContext,
    attempt: Attempt,
    outcome: JobOutcome,
    fitted: FittedPipeline,
    warm_start: WarmStart,
    *,
    dataset: Dataset,
    rows: Indices,
    spec: dict[str, Any],
    result: dict[str, Any],
    n_support_vectors: int | None,
) -> None:
    """End the job and register its model, trained on these `rows` of the dataset. `spec` is the
    request, with the solver that was chosen."""
    prepared = context.models.files.prepare(
        fitted,
        None if dataset.columns is None else list(dataset.columns),
        warm_start.with_rows(rows).to_arrays(),
        small_in_rows=True,
    )
    reading = dataset.reading
    origin = ModelOrigin(
        job_id=attempt.job.id,
        dataset_id=dataset.id,
        dataset_digest=dataset.matrix_digest,
        spec=spec,
        seed=spec["seed"],
        result=result if reading is None else {**result, "reading": dict(reading)},
        n_support_vectors=n_support_vectors,
    )
    alias = None if outcome.state is State.CANCELED else spec["set_alias"]
    register = context.models.register
    attempt.finish(
        outcome,
        lambda connection: register(connection, spec["model_name"], prepared, origin, alias),
    )


SPACING = math.log(1.3)
"""How far apart the times of two points are that are compared: closer ones are noise."""

LONGEST = math.log(1000.0)
"""Forecasts of a thousand times the time so far say nothing."""


class Forecast:
    """Gap and epoch are powers of the time between two points. The gap of a stochastic solver stays
    on one power; that of a fast one falls by ever higher powers, which a third point shows."""

    def __init__(self, stopping: Stopping) -> None:
        resolved = stopping.resolve()
        self._gap, self._epochs = resolved.duality_gap, resolved.max_epochs
        self._points: list[tuple[float, float, float]] = []
        self._end_s: float | None = None

    def left(self, elapsed_s: float) -> float | None:
        """Seconds to the end that was forecast; None if there is none, or if it has passed."""
        if self._end_s is None or elapsed_s > self._end_s:
            return None
        return self._end_s - elapsed_s

    def add(self, elapsed_s: float, gap: float | None, epoch: int) -> None:
        """A new evaluation, after `elapsed_s` seconds of training."""
        if gap is not None and gap > 0.0 and elapsed_s > 0.0 and epoch > 0:
            growth = self._growth(elapsed_s, gap, epoch)
            self._end_s = None if growth > LONGEST else elapsed_s * math.exp(growth)

    def _growth(self, elapsed_s: float, gap: float, epoch: int) -> float:
        """The logarithm of the factor from now to the end; infinite before there are two points."""
        if self._gap is not None and gap <= self._gap:
            return 0.0
        now = math.log(elapsed_s), math.log(gap), math.log(epoch)
        kept = [point for point in self._points if now[0] - point[0] >= SPACING][-2:]
        if not self._points or now[0] - self._points[-1][0] >= SPACING:
            self._points = [*self._points[-2:], now]
        if not kept:
            return math.inf
        growth = [math.inf]
        fall = _slope(kept[-1], now, 1)
        if self._gap is not None and fall < 0.0:
            faster = 0.0
            if len(kept) == 2 and (before := _slope(kept[0], kept[1], 1)) < 0.0:
                faster = 2.0 * math.log(fall / before) / (now[0] - kept[0][0])
            growth.append(_time_to(now[1] - math.log(self._gap), -fall, min(max(faster, 0.0), 1.0)))
        rise = _slope(kept[-1], now, 2)
        if self._epochs is not None and rise > 0.0:
            growth.append(max(0.0, math.log(self._epochs) - now[2]) / rise)
        return min(growth)


class Forecasts:
    """The forecasts of trainings that run one after another."""

    def __init__(self) -> None:
        self._latest: tuple[ref[Training], Forecast] | None = None
        """Whose rows need not stay in memory for it."""

    def left_s(
        self,
        progress: Progress,
        training: Training,
        *,
        others: Callable[[float], float],
        most_s: float,
    ) -> float | None:
        """Seconds to the end of all trainings, at most `most_s`; None if there is no forecast.
        `others` gives the time of the others from the seconds to the end of this one."""
        if self._latest is None or self._latest[0]() is not training:
            self._latest = ref(training), Forecast(training.pipeline.stopping)
        forecast, elapsed_s = self._latest[1], training.elapsed_s
        if progress.evaluation is not None:
            forecast.add(elapsed_s, progress.relative_gap, progress.epoch)
        left = forecast.left(elapsed_s)
        return None if left is None else max(0.0, min(left + others(left), most_s))


def _slope(before: tuple[float, ...], after: tuple[float, ...], k: int) -> float:
    return (after[k] - before[k]) / (after[0] - before[0])


def _time_to(distance: float, power: float, faster: float) -> float:
    """The logarithm of the factor in time after which ln gap has fallen by `distance`, if the power
    grows like t^faster."""
    if faster < 1e-3:
        return distance / power
    return math.log1p(faster * distance / power) / faster
