"""Runs batch predictions: a file of predictions, in input order."""

from __future__ import annotations

from service.jobs.batch_predictions.results import write
from service.jobs.core.attempts import Attempt
from service.jobs.core.kind import RunContext
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.core.scoring import Scorer
from service.storage.database import new_id


class Runner:
    """Carries out batch predictions."""

    def __init__(self, context: RunContext) -> None:
        self._scorer = Scorer(context)
        self._blobs = context.blobs

    def __call__(self, attempt: Attempt) -> None:
        """Predict, and end the job as succeeded, or as canceled. Raises as the scorer."""
        spec = attempt.job.spec
        scored = self._scorer(attempt, spec["outputs"])
        if scored is None:
            return
        with self._blobs.temporary() as path:
            write(spec["format"], path, scored.fitted.classes, scored.columns)
            blob = self._blobs.adopt(f"predictions/{new_id('results')}", path)
        attempt.finish(Outcome(state=State.SUCCEEDED, stop_reason="finished", results=blob))
