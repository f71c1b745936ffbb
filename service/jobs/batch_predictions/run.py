"""Runs batch predictions: a file of predictions, in input order."""

from __future__ import annotations

from service.jobs.batch_predictions.results import write
from service.jobs.core.attempts import Attempt
from service.jobs.core.kind import RunContext
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.core.scoring import score
from service.storage.database import new_id


def run(context: RunContext, attempt: Attempt) -> None:
    """Predict, and end the job as succeeded, or as canceled. Raises as `score`."""
    spec = attempt.job.spec
    scored = score(context, attempt, spec["outputs"])
    if scored is None:
        return
    with context.blobs.temporary() as path:
        write(spec["format"], path, scored.fitted.classes, scored.columns)
        blob = context.blobs.adopt(f"predictions/{new_id('results')}", path)
    attempt.finish(Outcome(state=State.SUCCEEDED, stop_reason="finished", results=blob))
