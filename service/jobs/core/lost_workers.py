"""The next state of a job whose worker was lost, and why the worker was lost."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from service.jobs.core import events
from service.jobs.core.changes import change, move
from service.jobs.core.job import Job
from service.jobs.core.lifecycle import FINAL, MAX_ATTEMPTS_WITHOUT_PROGRESS, State
from service.storage.database.tables import jobs

NEAR_THE_LIMIT = 0.75
"""A worker that was lost while it used this part of its memory limit was killed for that: the limit
is enforced at 0.95, and memory may have grown since the last heartbeat."""


def resolve_lost(connection: sa.Connection, job: Job) -> Job:
    """Move a job whose worker was lost to its next state."""
    attempts = job.attempts_without_progress + 1
    values: dict[str, Any] = {"attempts_without_progress": attempts}
    if job.cancel_requested and not job.checkpoint_key:
        target, values = State.CANCELED, {"stop_reason": "canceled"}
    elif job.pause_requested:
        target = State.PAUSED
    elif attempts >= MAX_ATTEMPTS_WITHOUT_PROGRESS:
        target, values = State.FAILED, {"stop_reason": "error", "error": _worker_lost(job)}
    else:
        target = State.QUEUED
    builders = [events.warning(f"the worker of attempt {job.attempt} {_loss(job)}"), events.state]
    if target in FINAL:
        builders.append(events.end)
    update = move(target).where(jobs.c.id == job.id).values(values)
    changed = change(connection, update, *builders)
    assert changed is not None, "the row is locked"
    return changed


def _worker_lost(job: Job) -> dict[str, Any]:
    often = f"{MAX_ATTEMPTS_WITHOUT_PROGRESS} times without a new checkpoint"
    detail = f"the worker was lost {often}; the last one {_loss(job)}"
    hint = "look for the reason in the log of the workers"
    if _out_of_memory(job):
        hint = (
            "train on less data or with a smaller feature map, or give workers more memory: "
            "SVM_LIMITS__WORKER_MEMORY_BYTES"
        )
    return {"code": "worker-lost", "detail": detail, "hint": hint}


def _loss(job: Job) -> str:
    """How the worker of the job was lost, by its last heartbeat."""
    if job.worker_memory_bytes is None or job.worker_memory_limit_bytes is None:
        return "was lost before its first heartbeat"
    used, limit = job.worker_memory_bytes / 2**30, job.worker_memory_limit_bytes / 2**30
    seen = f"when it used {used:.2f} of {limit:.2f} GiB"
    return f"ran out of memory: it was lost {seen}" if _out_of_memory(job) else f"was lost {seen}"


def _out_of_memory(job: Job) -> bool:
    used, limit = job.worker_memory_bytes, job.worker_memory_limit_bytes
    return used is not None and limit is not None and used >= NEAR_THE_LIMIT * limit
