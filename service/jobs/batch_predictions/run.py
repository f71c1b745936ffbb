"""Runs batch predictions: a file of predictions, in input order."""

from __future__ import annotations

from service.jobs.batch_predictions.results import write
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.job import State
from service.jobs.core.leases import Outcome
from service.jobs.parts.leases import PartWork
from service.jobs.scoring import Outputs, score, score_piece
from service.storage.database import new_id
from svm.model.calibration import unlikely_labels

SHOWN_ROWS = 10


def run(context: RunContext, attempt: Attempt) -> None:
    """Predict, and end the job as succeeded, or as canceled. Raises as `score`."""
    spec = attempt.job.spec
    scored = score(context, attempt)
    if scored is None:
        return
    with context.blobs.temporary() as path:
        write(spec["format"], path, scored.fitted.classes, scored.outputs)
        blob = context.blobs.adopt(f"predictions/{new_id('results')}", path)
    attempt.finish(
        Outcome(
            state=State.SUCCEEDED,
            stop_reason="finished",
            result={"unknown_cells": scored.unknown},
            warnings=_unlikely(scored.outputs),
            results=blob,
        )
    )


def _unlikely(outputs: Outputs) -> tuple[str, ...]:
    if not {"label", "probability"} <= outputs.keys():
        return ()
    rows = unlikely_labels(outputs["probability"], outputs["label"])
    if not len(rows):
        return ()
    shown = ", ".join(map(str, rows[:SHOWN_ROWS] + 1)) + (", …" if len(rows) > SHOWN_ROWS else "")
    return (
        f"In {len(rows):,} of the rows ({shown}) the label is not the class with the largest "
        "probability: labels follow the decision values.",
    )


def help(context: RunContext, part: PartWork) -> None:
    """Score some rows for another worker's batch prediction. Raises as `score`."""
    score_piece(context, part)
