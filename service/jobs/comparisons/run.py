"""The kind of job that trains several models on one dataset, and ranks them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from service.datasets.dataset import Dataset
from service.jobs.comparisons.chain_run import ChainRun
from service.jobs.comparisons.checkpoint import ComparisonState
from service.jobs.comparisons.entries import entries_of
from service.jobs.comparisons.order import Step
from service.jobs.comparisons.results import SCORES, EntryResult, Error, report
from service.jobs.comparisons.run_sequence import ComparisonSequence
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.submission import error_of, refusals_of
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt, Command
from service.jobs.core.job import Job
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.parts.helping import PartWork
from service.jobs.training.schemas import JobCreate
from service.jobs.training.summary import (
    CHECKPOINT_LOST,
    final_progress,
    finish_with_model,
    measured_on_trained,
)
from service.jobs.training.validation_set import rare_classes
from service.storage.arrays import Arrays
from service.storage.blobs import BlobDamaged
from service.storage.database import new_id
from service.storage.disk import file_errors_reported
from svm.errors import CheckpointMismatch, Interrupted
from svm.model.metrics import explain_unpredicted
from svm.training.curve import Progress
from svm.training.training import Training


def run(context: RunContext, attempt: Attempt) -> None:
    """Train all entries, and end the job.

    Raises what the stores raise, Interrupted after the checkpoint was saved, and LeaseLost.
    """
    attempt.check()
    body = ComparisonCreate.model_validate_json(json.dumps(attempt.job.spec))
    entries = entries_of(body)
    dataset = context.datasets.get(attempt.job.dataset_id)
    refused, state, saved, warnings = _resumed(context, attempt.job, entries, dataset)
    with file_errors_reported():  # rows that stay in files are written again
        sequence = ComparisonSequence(
            context, attempt, body, entries, dataset, refused, state, saved
        )
        canceled = sequence.run()
    results = report(entries, state.results, body.rank_by)
    best = results["entries"][0] if results["entries"][0]["rank"] else None
    seen = None
    if best is not None and (confusion := state.results[best["number"] - 1].confusion) is not None:
        seen = sequence.trained_rows()
        total = int(confusion.counts.sum())
        warnings = (*warnings, *measured_on_trained(seen, total, "validation rows"))
    attempt.show(final_progress(attempt, canceled, best), [])
    final = State.CANCELED if canceled else State.SUCCEEDED if best else State.FAILED
    outcome = Outcome(
        state=final,
        stop_reason="canceled" if canceled else "finished" if best else "error",
        result=None if best is None else _headline(best) | {"trained_rows": seen},
        warnings=(*rare_classes(body.validation, dataset.only(body.classes)), *warnings),
        error=_all_failed(state.results) if final is State.FAILED else None,
        results=context.blobs.write(f"comparisons/{new_id('results')}", orjson.dumps(results)),
    )
    if state.best is None:
        return attempt.finish(outcome)
    metrics = state.best.record["result"]["metrics"]
    metrics["validation"]["trained_rows"] = seen
    spec = state.best.record["spec"]
    classes = state.best.warm_start.fitted.classes.tolist()
    said = explain_unpredicted(metrics, classes, spec["class_weight"])
    outcome = replace(outcome, warnings=(*outcome.warnings, *said))
    finish_with_model(
        context,
        attempt,
        outcome,
        state.best.warm_start.fitted,
        state.best.warm_start,
        dataset=dataset,
        rows=sequence.splits[0].training,
        request=entries[state.best.entry].model_copy(update={"set_alias": body.set_alias}),
        spec=spec,
        result=state.best.record["result"],
        n_support_vectors=best and best["n_support_vectors"],
    )


def help(context: RunContext, part: PartWork) -> None:
    """Train one chain of another worker's comparison, and deliver it. Raises as `run`."""
    part.check()
    body = ComparisonCreate.model_validate_json(json.dumps(part.job.spec))
    entries = entries_of(body)
    dataset = context.datasets.get(part.job.dataset_id)
    refused, state, saved, _ = _resumed(context, part.job, entries, dataset)

    def show(step: Step, progress: Progress, training: Training) -> None:
        steps = len(chain.chains[part.number].steps)
        part.show({"fraction": (state.position + progress.fraction) / steps}, [])
        if part.checkpoint_is_due:
            part.save(chain.packed(state))

    with file_errors_reported():
        chain = ChainRun(context, part, body, entries, dataset, refused, show, saved)
        state.chain = part.number
        try:
            while (step := chain.step(state)) is not None:
                part.check()
                chain.take(state, step)
        except Interrupted:
            if part.command is Command.SAVE_AND_RELEASE:
                part.save(chain.packed(state))
            raise
    part.deliver(chain.packed(state))


def _resumed(
    context: RunContext, job: Job, entries: Sequence[JobCreate], dataset: Dataset
) -> tuple[list[bool], ComparisonState, Arrays, tuple[str, ...]]:
    """Which entries cannot be trained, the state at the last checkpoint or at the start, the
    checkpoint of the unfinished training, and warnings."""
    refusals = refusals_of(entries, dataset, context.settings.limits)
    refused = [refusal is not None for refusal in refusals]
    fresh = ComparisonState(results=[EntryResult(error=error_of(refusal)) for refusal in refusals])
    try:
        saved = context.checkpoint(job)
        if saved is None:
            return refused, fresh, {}, ()
        return refused, *ComparisonState.unpacked(saved, entries), ()
    except (BlobDamaged, CheckpointMismatch):
        return refused, fresh, {}, (CHECKPOINT_LOST,)


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


def _all_failed(results: Sequence[EntryResult]) -> Error:
    first = next(each.error for each in results if each.error is not None)
    detail = f"none of the {len(results)} entries could be trained; the first: {first['detail']}"
    return {**first, "detail": detail}
