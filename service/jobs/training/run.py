"""Runs trainings: a dataset becomes a model version."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from service.common.malloc import return_free_memory
from service.common.phases import MEASURING, SAVING
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.job import State
from service.jobs.core.leases import Outcome
from service.jobs.parts.leases import PartWork
from service.jobs.parts.lending import Lending
from service.jobs.training import separation, summary, training_sequence
from service.jobs.training.auditing import audit_of, constant_columns
from service.jobs.training.rows import LabeledRows
from service.jobs.training.schemas import JobCreate
from service.jobs.training.trainings import JobTrainings
from service.storage.arrays import Arrays, below, under
from service.storage.disk import file_errors_reported
from svm.data.matrices import Indices, Vector
from svm.model.calibration import cross_fit
from svm.model.metrics import calibration_metrics
from svm.model.pipeline import FittedPipeline

NOT_CALIBRATED = (
    "The job was canceled before the first fold was done, so the model has no probabilities: there "
    "are no scores to fit them on."
)

FEW_ROWS = 1000
FEW_FOR_STEPS = (
    "The isotonic steps of the probabilities were fitted on {:,} rows: below "
    f"{FEW_ROWS:,} they follow chance. `sigmoid` needs fewer rows."
)
NO_INTERVALS = (
    "The model has no prediction intervals, which need rows that played no part in its training: "
    "give `validation` a `fraction` or another dataset, and no `patience`."
)
CHOSEN_BY_FOLDS = (
    "The metrics of the folds are a little too good: their rows chose the setting that they measure"
)
NOT_MEASURED = (
    "The error of the probabilities is not known: a class has a single row or group in the "
    "validation set, and rows are not measured with a calibration that was fitted on them."
)


def run(context: RunContext, attempt: Attempt) -> None:
    """Train, and end the job as succeeded or canceled.

    Raises what the training raises, Interrupted after the checkpoint was saved, and LeaseLost.
    """
    attempt.check()
    trainings = JobTrainings(context, attempt)
    spec = trainings.spec
    with file_errors_reported():  # rows that stay in files are copied to a scratch file
        lending = Lending(context.offers, attempt)
        begin = partial(training_sequence.TrainingSequence, attempt, trainings, lending)
        sequence, warnings = context.resume(attempt.job, begin)
        canceled = sequence.run()
    attempt.begin(MEASURING)
    return_free_memory()  # of the states of all classes
    result = sequence.model
    fitted = result.fitted
    metrics = trainings.metrics(fitted, sequence.folds, sequence.scores)
    notes: tuple[str, ...] = ()
    if spec.calibration is not None:
        held_out = trainings.held_out(fitted, sequence.scores)
        if held_out is None:
            warnings = (*warnings, NOT_CALIBRATED)
        else:
            fitted, measured, said = _calibrated(spec, fitted, *held_out)
            metrics["validation"]["calibration"] = measured
            warnings = (*warnings, *said)
    if fitted.target is not None:
        if (unseen := trainings.unseen) is None:
            notes = (NO_INTERVALS,)
        else:
            fitted = fitted.with_intervals(unseen.actual, unseen.predicted)
            metrics["validation"]["conformal"] = summary.coverages_of(fitted)
    elif trainings.certain is not None:
        fitted = fitted.with_rejection(trainings.certain)
        assert fitted.rejection is not None
        left_out = list(sequence.folds.values())
        metrics["validation"]["none_of_these"] = summary.prices_of(fitted.rejection, left_out)
    found = trainings.outcome if sequence.is_chosen else None
    apart = separation.facts_of(trainings.rows, trainings.splits, trainings.dataset)
    if apart and "validation" in metrics:
        metrics["validation"]["split"] = apart
        notes += apart["said"]
    measures = summary.result_of(result, metrics, notes)
    constant = constant_columns(
        trainings.rows, trainings.splits[0].training, trainings.dataset.only(spec.classes)
    )
    classes = trainings.rows.classes
    measures["audit"] = audit_of(
        *(trainings.dataset, spec, spec.validation, metrics, classes),
        [*constant, *trainings.findings],
    )
    if found is not None:
        measures["search"] = summary.search_of(found)
        chosen_by = (CHOSEN_BY_FOLDS,) if "folds" in metrics.get("validation", {}) else ()
        measures["notes"][:0] = found.summary, *chosen_by
    if canceled:
        measures["stop_reason"] = "canceled"
    attempt.begin(SAVING)
    attempt.show(summary.final_progress(attempt, canceled, measures))
    outcome = Outcome(
        state=State.CANCELED if canceled else State.SUCCEEDED,
        stop_reason=measures["stop_reason"],
        converged=result.converged,
        result=measures,
        warnings=(*warnings, *trainings.warnings, *result.warnings, *summary.unproven(result)),
    )
    summary.finish_with_model(
        context,
        attempt,
        outcome,
        fitted,
        result.warm_start,
        dataset=trainings.dataset,
        rows=trainings.splits[0].training,
        spec=spec.trained_by(result.warm_start.pipeline),
        result=measures,
        n_support_vectors=result.n_support_vectors,
    )


def _calibrated(
    spec: JobCreate, fitted: FittedPipeline, rows: LabeledRows, some: Indices, scores: Vector
) -> tuple[FittedPipeline, dict[str, Any] | None, tuple[str, ...]]:
    """The model with probabilities, their metrics, and warnings. The metrics are those of
    cross-fitted probabilities, None if a class has too few rows for these."""
    assert spec.calibration is not None
    assert spec.seed is not None
    codes = rows.codes(some)
    calibrated = fitted.calibrated(spec.calibration, scores, codes)
    warnings: tuple[str, ...] = ()
    if spec.calibration == "isotonic" and len(scores) < FEW_ROWS:
        warnings = (FEW_FOR_STEPS.format(len(scores)),)
    scheme, n_classes = fitted.multiclass, len(fitted.classes)
    groups = None if rows.apart.groups is None else rows.apart.groups[some]
    probabilities = cross_fit(
        *(spec.calibration, scores, codes, scheme, n_classes), seed=spec.seed, groups=groups
    )
    if probabilities is None:
        return calibrated, None, (*warnings, NOT_MEASURED)
    labels = fitted.codes_from_decision(fitted.decision_from_scores(scores))
    return calibrated, calibration_metrics(probabilities, labels, codes), warnings


def _compare(trainings: JobTrainings, part: PartWork) -> None:
    """Do a task of a search."""
    search = trainings.search
    assert search is not None
    task = search.tasks()[part.number - training_sequence.SEARCH.start]
    part.deliver({"losses": search.compute(task)})


def help(context: RunContext, part: PartWork) -> None:
    """Train a fold, or some pairs of the model, for another worker. Raises as `run`."""
    part.check()
    trainings = part.once(lambda: JobTrainings(context, part))
    trainings.work = part
    saved: Arrays = context.checkpoint(part.job) or {}
    number = 0 if part.number >= training_sequence.GROUPS.start else part.number
    trainings.compare(below("search", saved))
    if part.number in training_sequence.SEARCH:
        return _compare(trainings, part)
    own = {"budget_s": saved["budget_s"]}
    with file_errors_reported():
        training = trainings.begin(
            number, float(saved["budget_s"]), below("training", saved) or None
        )
        pairs = None if number else training.own
        trainings.prepared = None if number else training.prepared

        def packed() -> Arrays:
            return own | under("training", training.checkpoint(pairs))

        with part.saving(packed):
            for progress in training:
                before_s = part.elapsed_s - training.elapsed_s
                rows = [] if number else training_sequence.trace_rows(progress, before_s, training)
                part.show({"fraction": progress.fraction}, rows)
                if part.checkpoint_is_due:
                    part.save(packed())
        if number == 0:
            return part.deliver(packed())
        measured, scores = trainings.measure(number, training.result())
    arrays: dict[str, Any] = {
        "fold": np.asarray(json.dumps(measured)),
        "elapsed_s": np.asarray(training.elapsed_s),
    }
    if scores is not None:
        arrays["scores"] = scores
    part.deliver(arrays)
