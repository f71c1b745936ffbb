"""What evaluations of two versions measured on the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from service.errors import Corrupt
from service.jobs.collection.submission import Stores
from service.jobs.core.job import FINAL, Job, State
from service.jobs.core.store import JobFilter, JobStore
from service.jobs.evaluations.routes import evaluation
from service.jobs.kinds import EVALUATION
from service.models.differences import Evaluated
from service.storage.database.pages import PageRequest
from service.storage.database.tables import ModelVersion

RECENT = PageRequest(size=200)
"""Of the evaluations of a model those that are looked at."""


def both_of(jobs: JobStore, ids: Sequence[str]) -> str | None:
    """Such as `iris/1,iris/2`: the versions that these evaluations measure, if they are two. Raises
    NotFound."""
    found = [jobs.get(id) for id in ids]
    if any(job.kind != EVALUATION.name for job in found):
        return None
    versions = dict.fromkeys("{}/{}".format(*_version_of(job)) for job in found)
    return ",".join(versions) if len(versions) == 2 else None


def evaluated(
    stores: Stores, one: ModelVersion, other: ModelVersion
) -> tuple[Evaluated | None, int]:
    """(what the latest evaluations of both on all rows of the same data measured, how many of their
    evaluations have not ended)."""
    wanted = [(version.model_name, version.version) for version in (one, other)]
    found = [
        job
        for name in {name for name, _ in wanted}
        for job in stores.jobs.page(JobFilter(kind=EVALUATION.name, model_name=name), RECENT).items
        if _version_of(job) in wanted
    ]
    waiting = sum(job.state not in FINAL for job in found)
    by_data: dict[str, dict[tuple[str, int], Job]] = {}
    for job in sorted(found, key=lambda job: job.created_at, reverse=True):
        # Rows that were held out, or not trained on, are not the same of both.
        some = job.spec.get("validation_only") or job.spec.get("leave_out_trained")
        if job.state != State.SUCCEEDED or some:
            continue
        pair = by_data.setdefault(job.dataset_digest, {})
        pair.setdefault(_version_of(job), job)
        if all(version in pair for version in wanted):
            name = stores.datasets.names([job.dataset_id]).get(job.dataset_id) or "unnamed data"
            with suppress(Corrupt):
                measured = [evaluation(stores.jobs, pair[each]).metrics for each in wanted]
                metrics = [each.model_dump() for each in measured if each]
                if len(metrics) == 2:
                    return Evaluated(name, (metrics[0], metrics[1])), waiting
    return None, waiting


def _version_of(job: Job) -> tuple[str, int]:
    """The version that an evaluation measures."""
    model = job.spec["model"]
    return model["name"], model["version"]
