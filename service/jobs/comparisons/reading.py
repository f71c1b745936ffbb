"""The reply for a comparison: its results, or those so far in its checkpoint."""

from __future__ import annotations

import json
from typing import Any

from service.jobs.comparisons.checkpoint import read_results
from service.jobs.comparisons.entries import entries_of
from service.jobs.comparisons.results import EntryResult, report
from service.jobs.comparisons.schemas import (
    ComparisonCreate,
    ComparisonRead,
    ComparisonResults,
    ComparisonSummary,
)
from service.jobs.core.job import Job
from service.jobs.core.lifecycle import State
from service.jobs.core.store import JobStore


def comparison(jobs: JobStore, job: Job) -> ComparisonRead:
    """Raises Corrupt."""
    if file := jobs.open_results(job):
        with file:
            results = ComparisonResults.model_validate_json(file.read())
    else:
        results = ComparisonResults.model_validate(_so_far(jobs, job))
    return ComparisonRead(
        **ComparisonSummary.values(job),
        dataset_digest=job.dataset_digest,
        entries=results.entries,
        objectives=results.objectives,
    )


def _so_far(jobs: JobStore, job: Job) -> dict[str, Any]:
    body = ComparisonCreate.model_validate_json(json.dumps(job.spec))
    entries = entries_of(body)
    results = None
    file = jobs.open_checkpoint(job)
    if file is None and job.checkpoint_key is not None:  # a newer one has replaced it
        file = jobs.open_checkpoint(jobs.get(job.id))
    if file is not None:
        with file:
            results = read_results(file)
    shown = report(entries, results or [EntryResult() for _ in entries], body.rank_by)
    if job.state == State.RUNNING:
        for entry in shown["entries"]:
            if entry["number"] == job.progress.get("entry") and entry["state"] == "waiting":
                entry["state"] = "running"
    return shown
