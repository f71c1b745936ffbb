"""A worker's side of the jobs table: lease the next job, keep it, end it.

A lease is a job together with its attempt number. Every write carries both and is refused once a
newer attempt exists or the job is no longer `running`, so a worker that was wrongly considered lost
cannot change anything. A part of a job is leased in the same way (`service.jobs.parts.leases`).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import sqlalchemy as sa

from service.errors import ServiceError, StorageFull
from service.jobs.core import events
from service.jobs.core.events import carry_out, change, move, revise
from service.jobs.core.job import FINAL, MAX_ATTEMPTS_WITHOUT_PROGRESS, WAITING, Job, State
from service.jobs.core.store import checkpoint_folder
from service.storage.arrays import Content
from service.storage.blobs import Blob, Blobs
from service.storage.database import Database, now, put, transaction_lock
from service.storage.database.tables import job_parts, job_trace, jobs
from svm.errors import Diverged, InvalidData

logger = logging.getLogger(__name__)


class LeaseLost(Exception):
    """The job is no longer this worker's: it was canceled, or another attempt took it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a job, until it expires or is given back."""

    job: Job
    """The job as it was when the lease began."""

    @property
    def key(self) -> dict[str, Any]:
        """The parameters of the condition that a row is that of this lease."""
        return {"leased_job": self.job.id, "leased_attempt": self.job.attempt}

    def file(self, name: object) -> str:
        """The blob of a checkpoint."""
        return f"{checkpoint_folder(self.job.id)}/{self.job.attempt}-{name}"


@dataclass(frozen=True, slots=True)
class ControlFlags:
    """What the caller has requested."""

    end: bool
    """The job is canceled, and the model so far must be kept."""
    pause: bool
    busy: int = 1
    """Workers of this machine that have a job, or a part of one."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a worker process, to explain later why it died."""

    used_bytes: int
    limit_bytes: int


@dataclass(frozen=True, kw_only=True)
class Report:
    """Progress of an attempt."""

    progress: dict[str, Any]
    elapsed_s: float
    """Training time of all attempts together."""
    trace: list[dict[str, Any]] = field(default_factory=list)
    """Rows of `job_trace` without the job's id; a row seen before is replaced."""
    trace_begins: bool = False
    """Whether earlier rows are of a training that the job has replaced."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended; `state` is final."""

    state: State
    stop_reason: str
    converged: bool | None = None
    result: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    error: dict[str, Any] | None = None
    results: Blob | None = None
    """A file that the job made."""


def error_of(error: Exception) -> dict[str, Any]:
    """The `error` of a job that ends with an exception, which is logged if it is unexpected."""
    hint = None
    match error:
        case InvalidData():
            code, detail = error.code, error.message
        case Diverged():
            code, detail, hint = "diverged", error.message, error.suggestion
        case ServiceError():
            code, detail = error.code, error.detail
            if isinstance(error, StorageFull):
                hint = "free disk space where the workers keep their files, then train again"
        case MemoryError():
            code, detail = "out-of-memory", "a worker's memory is too small"
            hint = "send less data at once, or raise the memory limit of workers"
        case _:
            logger.exception("job failed")
            code, detail = "internal-error", "an unexpected error; it was logged under the job's id"
    return {"code": code, "detail": detail, "hint": hint}


CANCELED = Outcome(state=State.CANCELED, stop_reason="canceled")

Register = Callable[[sa.Connection], int]
"""Inserts the model's version in the given transaction and returns its number."""


OWNED = sa.and_(
    jobs.c.id == sa.bindparam("leased_job"),
    jobs.c.attempt == sa.bindparam("leased_attempt"),
    jobs.c.state == State.RUNNING,
)
"""The condition that a row is that of a lease; `Lease.key` has its parameters."""
LEASE_S = sa.bindparam("lease_s", type_=sa.Float())


class LeasedRows(ABC):
    """What workers write about leased work, the rows of one table: jobs or parts of jobs. Every
    method raises LeaseLost. Safe to share between threads."""

    _table: ClassVar[sa.Table]
    _owned: ClassVar[sa.ColumnElement[bool]]
    _losses: ClassVar[str]
    """The column that counts leases without a new checkpoint."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        end: sa.ColumnElement[bool],
        pause: sa.ColumnElement[bool],
    ) -> None:
        """`end` and `pause` are the control flags of a row."""
        self._database = database
        self._blobs = blobs
        self._flags = sa.select(end.label("end"), pause.label("pause")).where(self._owned)
        self._lock = sa.select(self._table).where(self._owned).with_for_update()
        self._update = sa.update(self._table).where(self._owned)

    def heartbeat(self, lease: Lease, lease_s: float, memory: Memory) -> ControlFlags:
        """Keep the lease for another `lease_s` seconds."""
        values: dict[str, Any] = {"lease_expires_at": now() + lease_s}
        if "worker_memory_bytes" in self._table.c:  # a part that needs too much is left to the job
            values["worker_memory_bytes"] = memory.used_bytes
            values["worker_memory_limit_bytes"] = memory.limit_bytes
        with self._database.write() as connection:
            if connection.execute(self._update.values(values), lease.key).rowcount == 0:
                raise LeaseLost(lease.job.id)
            return self._read_flags(connection, lease)

    def control_flags(self, lease: Lease) -> ControlFlags:
        """What the caller has requested. Writes nothing."""
        with self._database.read() as connection:
            return self._read_flags(connection, lease)

    def report(self, lease: Lease, report: Report) -> None:
        """Write the progress of the attempt."""
        with self._database.write() as connection:
            self._write(connection, lease, report, {}, events.progress)

    def checkpoint(self, lease: Lease, number: int, content: Content, report: Report) -> None:
        """Make `content` what the next attempt begins with.

        Once the row has its key, the count of attempts without progress is zero. Callers write a
        checkpoint only if there was progress since the last one.
        """
        blob = self._blobs.write(lease.file(number), content)
        previous = self._name(lease, report, "checkpoint", blob, {self._losses: 0})
        if previous is not None:
            self._blobs.delete(previous)

    @abstractmethod
    def release(self, lease: Lease, report: Report) -> None:
        """Release unfinished work: another worker continues it."""

    def _name(
        self, lease: Lease, report: Report, name: str, blob: Blob, values: Mapping[str, Any]
    ) -> str | None:
        """Write the name of a file; returns that of the checkpoint before."""
        named = {f"{name}_key": blob.key, f"{name}_sha256": blob.sha256}
        try:
            with self._database.write() as connection:
                previous: str | None = self._first(connection, self._lock, lease).checkpoint_key
                self._write(connection, lease, report, {**values, **named}, events.checkpoint)
        except LeaseLost:
            self._blobs.delete(blob.key)
            raise
        return previous

    def _read_flags(self, connection: sa.Connection, lease: Lease) -> ControlFlags:
        row = self._first(connection, self._flags, lease)
        return ControlFlags(row.end, row.pause, _busy_workers(connection, lease))

    def _first(
        self, connection: sa.Connection, statement: sa.Executable, lease: Lease
    ) -> sa.Row[Any]:
        """The leased row."""
        row: sa.Row[Any] | None = connection.execute(statement, lease.key).first()
        if row is None:
            raise LeaseLost(lease.job.id)
        return row

    def _write(
        self,
        connection: sa.Connection,
        lease: Lease,
        report: Report,
        values: Mapping[str, Any],
        *builders: events.EventBuilder,
        target: State | None = None,
    ) -> None:
        """Write values and the report, and move a job to `target`: roll back if it raises."""
        reported = {"progress": report.progress, "elapsed_s": report.elapsed_s}
        parameters = {**lease.key, **reported, **values}
        if not self._carry_out(connection, target, parameters, builders):
            raise LeaseLost(lease.job.id)
        if report.trace_begins:
            own = job_trace.c.job_id == lease.job.id
            connection.execute(sa.delete(job_trace).where(own))
        if report.trace:
            newest = {(row["pair"], row["updates"]): row for row in report.trace}
            put(connection, job_trace, [{"job_id": lease.job.id, **row} for row in newest.values()])

    def _carry_out(
        self,
        connection: sa.Connection,
        target: State | None,
        values: Mapping[str, Any],
        builders: Sequence[events.EventBuilder],
    ) -> bool:
        """Whether the lease is held, so that its row has these values now. Parts have no events."""
        return connection.execute(self._update, values).rowcount > 0


class Leases(LeasedRows):
    """All that workers write about jobs."""

    _table, _owned, _losses = jobs, OWNED, "attempts_without_progress"

    def __init__(
        self, database: Database, blobs: Blobs, running_per_caller: int | None = None
    ) -> None:
        """At most `running_per_caller` jobs of a caller run at once."""
        super().__init__(database, blobs, jobs.c.cancel_requested, jobs.c.pause_requested)
        self._updates: dict[State | None, sa.Executable] = {None: revise(self._update)}
        for target in (*WAITING, *FINAL):
            self._updates[target] = revise(move(target).where(self._owned))
        waiting, ids = waiting_jobs(running_per_caller)
        first = ids.limit(1).with_for_update(of=waiting, skip_locked=True)
        self._look = sa.select(
            sa.exists().where(_expired()), sa.exists(ids.with_only_columns(sa.literal(1)))
        )
        self._take = revise(
            move(State.RUNNING)
            .where(jobs.c.id == first.scalar_subquery())
            .values(
                attempt=jobs.c.attempt + 1,
                worker_memory_bytes=None,
                worker_memory_limit_bytes=None,
                lease_expires_at=now() + LEASE_S,
                started_at=sa.func.coalesce(jobs.c.started_at, now()),
            )
        )

    def take(self, worker: str, lease_s: float) -> Lease | None:
        """Lease the next job for `lease_s` seconds. Writes nothing if there is none.

        The highest priority goes first; among equals the caller with the fewest running jobs, and
        of its jobs the oldest.
        """
        with self._database.read() as connection:
            expired, waits = connection.execute(self._look).one()
        if expired:
            self.reclaim()
        elif not waits:
            return None
        # A loss of power ends this worker, too: then the job must be queued.
        with self._database.write(synced=False) as connection:
            # Two workers at once would not count each other's job as running.
            transaction_lock(connection, "take")
            values = {"worker": worker, "lease_s": lease_s}
            job = carry_out(connection, self._take, values, events.state)
        return None if job is None else Lease(job)

    def any(self) -> bool:
        """Whether a worker has a job, or had one when it was lost."""
        with self._database.read() as connection:
            return bool(connection.scalar(_ANY))

    def expire(self, workers: Sequence[str]) -> None:
        """End the leases of workers that are known to be dead: jobs and parts need not wait."""
        with self._database.write(makes_room=True) as connection:
            of_jobs = sa.update(jobs).where(jobs.c.state == State.RUNNING)
            for table, update in (jobs, of_jobs), (job_parts, sa.update(job_parts)):
                lost = update.where(table.c.worker.in_(workers))
                connection.execute(lost.values(lease_expires_at=now() - 1))

    def reclaim(self) -> None:
        """Resolve the jobs of lost workers: most are queued again."""
        lost = sa.select(jobs).where(_expired()).with_for_update(skip_locked=True)
        with self._database.write() as connection:
            lost_jobs = [Job.from_row(row) for row in connection.execute(lost)]
            resolved = [resolve_lost(connection, job) for job in lost_jobs]
        for job in resolved:
            if job.is_final:
                self._blobs.delete(checkpoint_folder(job.id))

    def release(self, lease: Lease, report: Report) -> None:
        """Release an unfinished job: the next free worker takes it, or it is paused."""
        with self._database.write(makes_room=True) as connection:
            pause = self._first(connection, self._lock, lease).pause_requested
            target = State.PAUSED if pause else State.QUEUED
            self._write(connection, lease, report, {}, events.state, target=target)

    def finish(
        self, lease: Lease, outcome: Outcome, report: Report, register: Register | None = None
    ) -> None:
        """End the job and register its model, both or neither."""
        with self._database.write() as connection:
            # For a lost lease `_write` raises: then nothing is registered.
            values = {
                "stop_reason": outcome.stop_reason,
                "converged": outcome.converged,
                "result": outcome.result,
                "warnings": list(outcome.warnings),
                "error": outcome.error,
                "results_key": outcome.results and outcome.results.key,
                "results_sha256": outcome.results and outcome.results.sha256,
                "results_bytes": outcome.results and outcome.results.size_bytes,
                "model_version": None if register is None else register(connection),
            }
            warnings = (events.warning(message) for message in outcome.warnings)
            ends = (*warnings, events.state, events.end)
            self._write(connection, lease, report, values, *ends, target=outcome.state)
        self._blobs.delete(checkpoint_folder(lease.job.id))

    def _carry_out(
        self,
        connection: sa.Connection,
        target: State | None,
        values: Mapping[str, Any],
        builders: Sequence[events.EventBuilder],
    ) -> bool:
        return carry_out(connection, self._updates[target], values, *builders) is not None


_ANY = sa.select(sa.exists().where(jobs.c.state == State.RUNNING))
_OF_HOST = sa.bindparam("of_host", type_=sa.String())
_BUSY = sa.select(
    sa.select(sa.func.count())
    .where(jobs.c.state == State.RUNNING, jobs.c.worker.like(_OF_HOST))
    .scalar_subquery()
    + sa.select(sa.func.count()).where(job_parts.c.worker.like(_OF_HOST)).scalar_subquery()
)


def _busy_workers(connection: sa.Connection, lease: Lease) -> int:
    """How many workers have work on the machine of this one."""
    assert lease.job.worker is not None
    host = lease.job.worker.partition(":")[0]
    return connection.scalar(_BUSY, {"of_host": f"{host}:%"}) or 1


def waiting_jobs(running_per_caller: int | None) -> tuple[sa.FromClause, sa.Select[Any]]:
    """The table of waiting jobs, and the ids of those that may run, the next one first."""
    waiting = jobs.alias("waiting")
    running = (
        sa.select(jobs.c.caller, sa.func.count().label("jobs"))
        .where(jobs.c.state == State.RUNNING)
        .group_by(jobs.c.caller)
        .subquery("running")
    )
    running_jobs = sa.func.coalesce(running.c.jobs, 0)
    ids = (
        sa.select(waiting.c.id)
        .outerjoin(running, running.c.caller == waiting.c.caller)
        .where(waiting.c.state == State.QUEUED)
        .order_by(waiting.c.priority.desc(), running_jobs, waiting.c.number, waiting.c.id)
    )
    if running_per_caller is not None:
        ids = ids.where(running_jobs < running_per_caller)
    return waiting, ids


def _expired() -> sa.ColumnElement[bool]:
    return sa.and_(jobs.c.state == State.RUNNING, jobs.c.lease_expires_at < now())


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
