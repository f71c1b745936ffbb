"""The jobs table as callers of the API use it; `leases` is the side of the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from service.errors import Conflict, NotFound, Unavailable
from service.jobs.lifecycle import FINAL, Cancellation, State, cancellation, sources
from service.storage.blobs import Blobs
from service.storage.database import Database, new_id, now
from service.storage.pages import Page, PageRequest, newest_first
from service.storage.tables import datasets, job_trace, jobs

QUEUE_RETRY_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A row of the table."""

    id: str
    kind: str
    state: State
    priority: int
    spec: dict[str, Any]
    """The request that made the job, with every default written out."""
    labels: dict[str, str]
    dataset_id: str
    dataset_digest: str
    model_name: str | None
    model_version: int | None
    created_at: float
    started_at: float | None
    finished_at: float | None
    attempt: int
    fruitless_attempts: int
    lease_expires_at: float | None
    worker: str | None
    cancel_requested: bool
    keep_model: bool
    progress: dict[str, Any]
    elapsed_s: float
    checkpoint_key: str | None
    checkpoint_sha256: str | None
    stop_reason: str | None
    converged: bool | None
    result: dict[str, Any] | None
    warnings: list[str]
    error: dict[str, Any] | None
    revision: int

    @classmethod
    def from_row(cls, row: sa.Row[Any]) -> Job:
        values = dict(row._mapping)
        return cls(**{**values, "state": State(values["state"])})

    @property
    def is_final(self) -> bool:
        return self.state in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list shows; None lets all pass."""

    state: State | None = None
    model_name: str | None = None
    dataset_id: str | None = None
    label: tuple[str, str] | None = None


class JobStore:
    """Creates, shows, cancels and deletes jobs. Safe to share between threads."""

    def __init__(self, database: Database, blobs: Blobs, queue_limit: int) -> None:
        self._database = database
        self._blobs = blobs
        self._queue_limit = queue_limit

    def create(
        self,
        *,
        kind: str,
        spec: Mapping[str, Any],
        dataset_id: str,
        dataset_digest: str,
        model_name: str | None,
        priority: int,
        labels: Mapping[str, str],
    ) -> Job:
        """Queue a job; once this returns it is durable.

        Raises NotFound where the dataset is gone, Unavailable `queue-full`.
        """
        values = {
            "id": new_id("job"),
            "kind": kind,
            "state": State.QUEUED,
            "priority": priority,
            "spec": dict(spec),
            "labels": dict(labels),
            "dataset_id": dataset_id,
            "dataset_digest": dataset_digest,
            "model_name": model_name,
            "created_at": now(),
            "attempt": 0,
            "fruitless_attempts": 0,
            "cancel_requested": False,
            "keep_model": False,
            "progress": {},
            "elapsed_s": 0.0,
            "warnings": [],
            "revision": 0,
        }
        queued = sa.select(sa.func.count()).where(jobs.c.state == State.QUEUED)
        dataset = sa.select(datasets.c.id).where(datasets.c.id == dataset_id)
        with self._database.write() as connection:
            # In the same transaction: from here on the dataset cannot be deleted.
            if connection.execute(dataset).first() is None:
                raise NotFound("not-found", f"there is no dataset {dataset_id}")
            if connection.execute(queued).scalar_one() >= self._queue_limit:
                raise Unavailable(
                    "queue-full",
                    f"{self._queue_limit} jobs are queued already",
                    retry_after_s=QUEUE_RETRY_S,
                )
            return Job.from_row(
                connection.execute(sa.insert(jobs).values(values).returning(*jobs.c)).one()
            )

    def get(self, job_id: str) -> Job:
        """Raises NotFound."""
        with self._database.read() as connection:
            return _get(connection, job_id)

    def page(self, filter: JobFilter, page: PageRequest) -> Page[Job]:
        """Jobs newest first."""
        statement = sa.select(jobs)
        if filter.state is not None:
            statement = statement.where(jobs.c.state == filter.state)
        if filter.model_name is not None:
            statement = statement.where(jobs.c.model_name == filter.model_name)
        if filter.dataset_id is not None:
            statement = statement.where(jobs.c.dataset_id == filter.dataset_id)
        if filter.label is not None:
            key, value = filter.label
            statement = statement.where(jobs.c.labels[key].as_string() == value)
        with self._database.read() as connection:
            return newest_first(
                connection, statement, jobs.c.created_at, jobs.c.id, page, Job.from_row
            )

    def trace(self, job_id: str) -> list[dict[str, Any]]:
        """Rows of `job_trace`, ordered by pair and updates. Raises NotFound."""
        statement = (
            sa.select(job_trace)
            .where(job_trace.c.job_id == job_id)
            .order_by(job_trace.c.pair, job_trace.c.updates)
        )
        with self._database.read() as connection:
            _get(connection, job_id)
            return [dict(row) for row in connection.execute(statement).mappings()]

    def cancel(self, job_id: str, *, keep_model: bool) -> tuple[Job, Cancellation]:
        """Cancel now, or ask the worker to. Raises NotFound, Conflict `invalid-state`."""
        with self._database.write() as connection:
            job = _get(connection, job_id)
            what = cancellation(
                job.state, keep_model=keep_model, has_checkpoint=job.checkpoint_key is not None
            )
            if what is Cancellation.IMPOSSIBLE:
                raise Conflict("invalid-state", f"the job has {job.state} already")
            requested = sa.update(jobs).values(
                cancel_requested=True, keep_model=keep_model, revision=jobs.c.revision + 1
            )
            if what is Cancellation.AT_ONCE:
                requested = move(State.CANCELED).values(
                    cancel_requested=True, keep_model=False, stop_reason="canceled"
                )
            if what is not Cancellation.ALREADY:
                connection.execute(requested.where(jobs.c.id == job_id))
                job = _get(connection, job_id)
        if what is Cancellation.AT_ONCE:
            self._blobs.delete(checkpoint_folder(job_id))
        return job, what

    def delete(self, job_id: str) -> None:
        """Remove a job that has ended, and its trace. Raises NotFound, Conflict."""
        with self._database.write() as connection:
            job = _get(connection, job_id)
            if not job.is_final:
                raise Conflict("invalid-state", f"the job is {job.state}; cancel it first")
            connection.execute(sa.delete(jobs).where(jobs.c.id == job_id))
        self._blobs.delete(checkpoint_folder(job_id))

    def counts(self) -> dict[State, int]:
        """How many jobs are in each state."""
        statement = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
        with self._database.read() as connection:
            found = {State(state): count for state, count in connection.execute(statement)}
        return {state: found.get(state, 0) for state in State}


def move(target: State) -> sa.Update:
    """An update to the state `target`, of jobs in a state that it may follow."""
    values: dict[str, Any] = {"state": target, "revision": jobs.c.revision + 1}
    if target is not State.RUNNING:
        values |= {"worker": None, "lease_expires_at": None}
    if target in FINAL:
        values |= {"checkpoint_key": None, "checkpoint_sha256": None, "finished_at": now()}
    return sa.update(jobs).where(jobs.c.state.in_(sources(target))).values(values)


def checkpoint_folder(job_id: str) -> str:
    """The blobs of a job's checkpoints."""
    return f"checkpoints/{job_id}"


def _get(connection: sa.Connection, job_id: str) -> Job:
    row = connection.execute(sa.select(jobs).where(jobs.c.id == job_id)).first()
    if row is None:
        raise NotFound("not-found", f"there is no job {job_id}")
    return Job.from_row(row)
