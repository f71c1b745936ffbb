"""A job: one row of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from service.jobs.core.lifecycle import FINAL, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A row of `jobs`, as it was when it was read."""

    id: str
    number: int
    """Of its place in lists and in the queue."""
    kind: str
    state: State
    priority: int
    caller: str
    """Who created it; callers share the workers fairly."""
    request_id: str | None
    """The request that made it, for the logs."""
    callback: str | None
    """The URL that is called when the job ends."""
    spec: dict[str, Any]
    """The request that made the job, with every default written out."""
    tags: dict[str, str]
    dataset_id: str
    dataset_digest: str
    model_name: str | None
    model_version: int | None
    created_at: float
    started_at: float | None
    finished_at: float | None
    attempt: int
    attempts_without_progress: int
    lease_expires_at: float | None
    worker: str | None
    worker_memory_bytes: int | None
    """Resident memory of the worker at its last heartbeat, and its limit."""
    worker_memory_limit_bytes: int | None
    cancel_requested: bool
    keep_model: bool
    pause_requested: bool
    """A worker must save and release the job; false again once it has."""
    progress: dict[str, Any]
    elapsed_s: float
    checkpoint_key: str | None
    checkpoint_sha256: str | None
    stop_reason: str | None
    converged: bool | None
    result: dict[str, Any] | None
    warnings: list[str]
    error: dict[str, Any] | None
    results_key: str | None
    """Of the file of results."""
    results_sha256: str | None
    results_bytes: int | None
    revision: int
    """Grows with every visible change; also the number of the job's last event."""

    @classmethod
    def from_row(cls, row: sa.Row[Any]) -> Job:
        values = dict(row._mapping)
        return cls(**{**values, "state": State(values["state"])})

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def log_context(self) -> dict[str, Any]:
        """The fields of every log line of the current attempt."""
        made_by = {} if self.request_id is None else {"request_id": self.request_id}
        return {"job_id": self.id, "attempt": self.attempt, **made_by}
