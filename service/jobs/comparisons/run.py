"""The kind of job that trains several models on one dataset, and ranks them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson

from service.datasets.dataset import Dataset
from service.jobs.comparisons.checkpoint import ComparisonState
from service.jobs.comparisons.entries import entries_of
from service.jobs.comparisons.results import SCORES, EntryResult, Error, report
from service.jobs.comparisons.run_sequence import ComparisonSequence
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.submission import error_of, refusals_of
from service.jobs.core.attempts import Attempt
from service.jobs.core.kind import RunContext
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.training.run import CHECKPOINT_LOST
from service.jobs.training.schemas import JobCreate
from service.storage.arrays import Arrays
from service.storage.blobs import BlobDamaged
from service.storage.database import new_id
from service.storage.space import file_errors_reported
from svm.errors import CheckpointMismatch


class Runner:
    """Carries out comparisons."""

    def __init__(self, context: RunContext) -> None:
        self._datasets = context.datasets
        self._models = context.models
        self._blobs = context.blobs
        self._settings = context.settings

    def __call__(self, attempt: Attempt) -> None:
        """Train all entries, and end the job.

        Raises what the stores raise, Interrupted after the checkpoint was saved, and LeaseLost.
        """
        attempt.check()
        body = ComparisonCreate.model_validate_json(json.dumps(attempt.job.spec))
        entries = entries_of(body)
        dataset = self._datasets.get(attempt.job.dataset_id)
        state, saved, warnings = self._resumed(attempt, entries, dataset)
        with file_errors_reported():  # rows that stay in files are written again
            sequence = ComparisonSequence(
                attempt, body, entries, dataset, self._datasets, self._settings, state, saved
            )
            canceled = sequence.run()
        self._finish(attempt, body, entries, dataset, sequence, canceled, warnings)

    def _resumed(
        self, attempt: Attempt, entries: Sequence[JobCreate], dataset: Dataset
    ) -> tuple[ComparisonState, Arrays, tuple[str, ...]]:
        """The state at the last checkpoint or at the start, the checkpoint of the unfinished
        training, and warnings."""
        job, limits = attempt.job, self._settings.limits
        refusals = refusals_of(entries, dataset, limits)
        fresh = ComparisonState(
            results=[EntryResult(error=error_of(refusal)) for refusal in refusals]
        )
        if job.checkpoint_key is None or job.checkpoint_sha256 is None:
            return fresh, {}, ()
        try:
            content = self._blobs.read(job.checkpoint_key, job.checkpoint_sha256)
            return *ComparisonState.unpacked(content, entries), ()
        except (BlobDamaged, CheckpointMismatch):
            return fresh, {}, (CHECKPOINT_LOST,)

    def _finish(
        self,
        attempt: Attempt,
        body: ComparisonCreate,
        entries: Sequence[JobCreate],
        dataset: Dataset,
        sequence: ComparisonSequence,
        canceled: bool,
        warnings: tuple[str, ...],
    ) -> None:
        progress = sequence.state
        results = report(entries, progress.results, body.rank_by)
        best = results["entries"][0] if results["entries"][0]["rank"] else None
        attempt.show(_final_progress(attempt.progress, best, canceled), [])
        state = State.CANCELED if canceled else State.SUCCEEDED if best else State.FAILED
        outcome = Outcome(
            state=state,
            stop_reason="canceled" if canceled else "finished" if best else "error",
            result=None if best is None else _headline(best),
            warnings=warnings,
            error=_all_failed(progress.results) if state is State.FAILED else None,
            results=self._blobs.write(f"comparisons/{new_id('results')}", orjson.dumps(results)),
        )
        if progress.best is None:
            return attempt.finish(outcome)
        model = progress.best
        fitted = model.warm_start.fitted
        entry = entries[model.entry]
        prepared = self._models.files.prepare(
            fitted,
            None if dataset.columns is None else list(dataset.columns),
            model.warm_start.with_rows(sequence.splits[0].training).to_arrays(),
        )
        assert entry.seed is not None
        seed = entry.seed
        attempt.finish(
            outcome,
            lambda connection: self._models.register(
                connection,
                prepared,
                model_name=entry.model_name,
                job_id=attempt.job.id,
                dataset=dataset,
                spec=model.record["spec"],
                seed=seed,
                result=model.record["result"],
                n_support_vectors=best and best["n_support_vectors"],
                set_alias=None if canceled else body.set_alias,
            ),
        )


def _headline(best: dict[str, Any]) -> dict[str, Any]:
    """The fields of lists."""
    scores = {name: best["validation"][name] for name in SCORES}
    return {
        "best": best["number"],
        "score": best["score"],
        "metrics": {"train": best["train"], "validation": scores},
        "epochs": best["epochs"],
        "updates": best["updates"],
    }


def _final_progress(
    progress: dict[str, Any], best: dict[str, Any] | None, canceled: bool
) -> dict[str, Any]:
    """Of the best entry, whose model becomes the job's."""
    shown = {"fraction": progress.get("fraction", 0.0) if canceled else 1.0, "eta_s": 0.0}
    if best is None:
        return shown
    certificate = {name: best["certificate"][name] for name in ("primal", "dual", "relative_gap")}
    return shown | {"epoch": best["epochs"], "updates": best["updates"], **certificate}


def _all_failed(results: Sequence[EntryResult]) -> Error:
    first = next(each.error for each in results if each.error is not None)
    detail = f"none of the {len(results)} entries could be trained; the first: {first['detail']}"
    return {**first, "detail": detail}
