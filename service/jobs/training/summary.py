"""What jobs that train show of a training: its progress, its result, and its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.datasets.dataset import Dataset
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.training.rows import Confusion
from service.jobs.training.schemas import JobCreate
from service.models.described import described
from svm.data.matrices import Indices
from svm.model.pipeline import FittedPipeline
from svm.stopping import StopReason
from svm.training.curve import Progress
from svm.training.results import TrainingResult
from svm.training.warm_start import WarmStart

CHECKPOINT_LOST = (
    "The last checkpoint could not be used, so the training started again from the beginning."
)


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
    """Of a job with this model: `epochs`, `updates` and `certificate` are read from it."""
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


def measured_on_trained(trained: int | None, n_samples: int, what: str) -> tuple[str, ...]:
    """A warning, if half of the rows that a model is measured on, or more, are of its training."""
    if trained is None or 2 * trained < n_samples:
        return ()
    count = "All" if trained == n_samples else f"{trained:,}"
    return (
        f"{count} of the {n_samples:,} {what} are equal to training rows, labels included: on new "
        "rows the accuracy is probably lower.",
    )


def result_of(result: TrainingResult, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The `result` of a job and of its model version."""
    table = described(result.fitted)
    encoding = {} if table is None else {"encoding": table["notes"]}
    return {
        "metrics": {**metrics, **encoding},
        "certificate": result.certificate.as_dict(result.fitted.classes),
        "stop_reason": result.stop_reason,
        "converged": result.converged,
        "epochs": result.epochs,
        "updates": result.updates,
        "notes": list(result.notes),
    }


def fold_of(result: TrainingResult, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of the training of a fold."""
    return {
        **metrics,
        "stop_reason": result.stop_reason,
        "epochs": result.epochs,
        "relative_gap": result.certificate.worst.relative_gap,
    }


def sum_of_folds(folds: Sequence[Mapping[str, Any]]) -> Confusion:
    """The confusion matrices of all folds together."""
    counts = np.sum([fold["confusion_matrix"] for fold in folds], axis=0)
    weights = [fold["weighted"]["confusion_matrix"] for fold in folds if "weighted" in fold]
    return Confusion(counts, np.sum(weights, axis=0) if weights else None)


def metrics_of_folds(confusion: Confusion, folds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Metrics of all rows, each predicted by the training that did not see it; `confusion` is the
    sum of all folds."""
    accuracies = [fold["accuracy"] for fold in folds]
    return {
        **confusion.metrics(),
        "accuracy_mean": float(np.mean(accuracies)),
        "accuracy_std": float(np.std(accuracies, ddof=1)) if len(folds) > 1 else None,
        "folds": list(folds),
    }


def finish_with_model(
    context: RunContext,
    attempt: Attempt,
    outcome: Outcome,
    fitted: FittedPipeline,
    warm_start: WarmStart,
    *,
    dataset: Dataset,
    rows: Indices,
    request: JobCreate,
    spec: dict[str, Any],
    result: dict[str, Any],
    n_support_vectors: int | None,
) -> None:
    """End the job and register its model, trained on these `rows` of the dataset. `request` names
    it, `spec` has the solver that was chosen."""
    prepared = context.models.files.prepare(
        fitted,
        None if dataset.columns is None else list(dataset.columns),
        warm_start.with_rows(rows).to_arrays(),
        small_in_rows=True,
    )
    reading = dataset.reading
    attempt.finish(
        outcome,
        lambda connection: context.models.register(
            connection,
            prepared,
            model_name=request.model_name,
            job_id=attempt.job.id,
            dataset=dataset,
            spec=spec,
            seed=request.seed,
            result=result if reading is None else {**result, "reading": dict(reading)},
            n_support_vectors=n_support_vectors,
            set_alias=None if outcome.state is State.CANCELED else request.set_alias,
        ),
    )
