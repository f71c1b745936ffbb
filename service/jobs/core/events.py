"""Changes of a job: its row, its revision and its events, in one transaction.

An event's number is the revision that the change gave the job. The row is locked from the update to
the commit, so of one job lower numbers are never seen after higher ones, on any database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import anyio
import sqlalchemy as sa
from anyio.to_thread import run_sync

from service.common.event_stream import Health, message
from service.common.schemas import rfc3339
from service.errors import NotFound
from service.jobs import callbacks
from service.jobs.core.job import FINAL, Job, State, sources
from service.storage.database import Database, announce_change, announce_work, now
from service.storage.database.tables import job_events, job_parts, job_trace, jobs


class EventKind(StrEnum):
    STATE = "state"
    """The state changed, or cancel or pause was requested."""
    PROGRESS = "progress"
    CHECKPOINT = "checkpoint"
    """The progress is saved: a lost worker costs at most the work since then."""
    WARNING = "warning"
    END = "end"
    """The last event."""


@dataclass(frozen=True, slots=True)
class Event:
    number: int
    kind: EventKind
    created_at: float
    data: dict[str, Any]

    @property
    def dated(self) -> dict[str, Any]:
        """What callers get."""
        return {"at": rfc3339(self.created_at), **self.data}


EventBuilder = Callable[[Job], tuple[EventKind, dict[str, Any]]]
"""Makes an event of a job as the change left it."""


def state(job: Job) -> tuple[EventKind, dict[str, Any]]:
    return EventKind.STATE, {
        "state": job.state,
        "attempt": job.attempt,
        "cancel_requested": job.cancel_requested,
        "pause_requested": job.pause_requested,
    }


def progress(job: Job) -> tuple[EventKind, dict[str, Any]]:
    return EventKind.PROGRESS, {**_brief(job), "elapsed_s": job.elapsed_s}


def _brief(job: Job) -> dict[str, Any]:
    """Without what grows, and is with the job itself."""
    return {name: v for name, v in job.progress.items() if name not in ("phases", "search")}


def checkpoint(job: Job) -> tuple[EventKind, dict[str, Any]]:
    reached = {name: job.progress.get(name) for name in ("fraction", "epoch", "updates")}
    return EventKind.CHECKPOINT, {"attempt": job.attempt, **reached, "elapsed_s": job.elapsed_s}


def warning(message: str) -> EventBuilder:
    return lambda _: (EventKind.WARNING, {"message": message})


def end(job: Job) -> tuple[EventKind, dict[str, Any]]:
    model = None
    if job.model_version is not None:
        model = {"name": job.model_name, "version": job.model_version}
    return EventKind.END, {
        "state": job.state,
        "stop_reason": job.stop_reason,
        "converged": job.converged,
        "progress": _brief(job),
        "elapsed_s": job.elapsed_s,
        "model": model,
        "error": job.error,
    }


_INSERT = sa.insert(job_events).values(created_at=now())


def record(connection: sa.Connection, changed: Sequence[Job], *builders: EventBuilder) -> None:
    """Write these events of each job, whose revision has just grown by their number."""
    rows = [
        {"job_id": job.id, "number": number, "kind": kind, "data": data}
        for job in changed
        for number, (kind, data) in enumerate(
            (build(job) for build in builders), job.revision - len(builders) + 1
        )
    ]
    connection.execute(_INSERT, rows)
    announce_change(connection)
    if any(job.state is State.QUEUED for job in changed):
        announce_work(connection)


@dataclass(frozen=True)
class Batch:
    """Events of a job after a given one, and whether more can follow."""

    events: tuple[Event, ...]
    revision: int
    """State of the job, not later than when the events were read."""
    complete: bool
    """No further event will come."""

    @cached_property
    def messages(self) -> bytes:
        """The events as a stream has them, made once for all who follow the job."""
        return b"".join(message(each.number, each.kind, each.dated) for each in self.events)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The parts of a job that waiting requests compare."""

    revision: int
    is_final: bool


class EventLog:
    """Reads the events of jobs. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, job_id: str, after: int, limit: int) -> Batch:
        """At most `limit` events with numbers above `after`, in order. Raises NotFound."""
        job = sa.select(jobs.c.state, jobs.c.revision).where(jobs.c.id == job_id)
        events = (
            sa.select(job_events)
            .where(job_events.c.job_id == job_id, job_events.c.number > after)
            .order_by(job_events.c.number)
            .limit(limit)
        )
        with self._database.read() as connection:
            # The job first: if it has ended, all its events are written.
            current = connection.execute(job).first()
            if current is None:
                raise NotFound("not-found", f"there is no job {job_id}")
            rows = connection.execute(events).all()
        return Batch(
            tuple(Event(row.number, EventKind(row.kind), row.created_at, row.data) for row in rows),
            current.revision,
            State(current.state) in FINAL and len(rows) < limit,
        )

    def snapshots(self, job_ids: list[str]) -> dict[str, Snapshot]:
        """Revision and end of each of these jobs; deleted ones are left out."""
        statement = sa.select(jobs.c.id, jobs.c.revision, jobs.c.state).where(
            jobs.c.id.in_(job_ids)
        )
        with self._database.read() as connection:
            return {
                row.id: Snapshot(row.revision, State(row.state) in FINAL)
                for row in connection.execute(statement)
            }

    def prune(self, older_than_s: float) -> None:
        """Remove events and traces of jobs that ended more than this time ago; the jobs stay."""
        histories = (job_events, job_trace)
        kept = (sa.exists().where(table.c.job_id == jobs.c.id) for table in histories)
        old = sa.select(jobs.c.id).where(jobs.c.finished_at < now() - older_than_s, sa.or_(*kept))
        with self._database.read() as connection:
            job_ids = connection.execute(old).scalars().all()
        for job_id in job_ids:  # one by one: the write lock is never held for long
            with self._database.write() as connection:
                for table in histories:
                    connection.execute(sa.delete(table).where(table.c.job_id == job_id))


def get_job(connection: sa.Connection, job_id: str, *, lock: bool = False) -> Job:
    """The job, maybe locked until the transaction ends. Raises NotFound."""
    statement = sa.select(jobs).where(jobs.c.id == job_id)
    # SQLite has one writer at a time anyway, and no FOR UPDATE.
    row = connection.execute(statement.with_for_update() if lock else statement).first()
    if row is None:
        raise NotFound("not-found", f"there is no job {job_id}")
    return Job.from_row(row)


def move(target: State) -> sa.Update:
    """An update to the state `target`, of jobs in a state that it may follow."""
    values: dict[str, Any] = {"state": target}
    if target is not State.RUNNING:
        values |= {"worker": None, "lease_expires_at": None, "pause_requested": False}
    if target in FINAL:
        values |= {"checkpoint_key": None, "checkpoint_sha256": None, "finished_at": now()}
    return sa.update(jobs).where(jobs.c.state.in_(sources(target))).values(values)


def change(connection: sa.Connection, update: sa.Update, *builders: EventBuilder) -> Job | None:
    """Update one job and record its events; None if no job matched."""
    return carry_out(connection, revise(update), {}, *builders)


def revise(update: sa.Update) -> sa.Executable:
    """The update for `carry_out`. Statements that are built once are compiled once."""
    return update.values(revision=jobs.c.revision + _EVENTS).returning(*jobs.c)


def carry_out(
    connection: sa.Connection,
    update: sa.Executable,
    values: Mapping[str, Any],
    *builders: EventBuilder,
) -> Job | None:
    """As `change`, with an update from `revise`; `values` of columns and parameters."""
    row = connection.execute(update, {"n_events": len(builders), **values}).one_or_none()
    if row is None:
        return None
    job = Job.from_row(row)
    record(connection, [job], *builders)
    if job.is_final:
        connection.execute(_DELETE_PARTS, {"ended": job.id})
        if job.callback is not None:
            callbacks.write(connection, job.id, job.callback, _report(job))
    return job


def _report(job: Job) -> dict[str, Any]:
    """What a callback gets: the event `end`, and what job it is about."""
    about = {"id": job.id, "kind": job.kind, "url": f"/v1/jobs/{job.id}", "tags": job.tags}
    data = {**about, **end(job)[1]}
    return {"type": f"job.{job.state}", "timestamp": rfc3339(job.finished_at), "data": data}


_DELETE_PARTS = sa.delete(job_parts).where(job_parts.c.job_id == sa.bindparam("ended"))
_EVENTS = sa.bindparam("n_events", type_=sa.Integer())


POLL_S = 1.0
"""How often to look for changes that were not announced, such as those of a worker that was killed
after its commit."""
PAUSE_S = 5e-3
"""Time between two queries, however many changes are announced."""
GROUP = 8
"""Waiting requests that continue in one turn of the event loop: other requests come between."""
TURN_S = 2e-3
FAILED_S = 1.0
"""Time between two polls while the database does not answer."""

logger = logging.getLogger(__name__)

Condition = Callable[[Snapshot], bool]


class Watcher:
    """Wakes the long polls and event streams of this process. Belongs to one event loop.

    It queries after every change of a job, and once a second, for all jobs that are waited for; if
    there are none, there is no query.
    """

    def __init__(self, log: EventLog, health: Health) -> None:
        self._log = log
        self._health = health
        self._waiters: set[_Waiter] = set()
        self._wanted, self._changed = asyncio.Event(), asyncio.Event()
        """There are waiters; there may be something new for them."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading: dict[tuple[str, int, int], asyncio.Task[Batch]] = {}
        self._waking = False

    @property
    def closing(self) -> bool:
        """This process shuts down: waiting ends early."""
        return self._health.draining

    def wake(self) -> None:
        """A job has changed, or this process shuts down. Can be called in any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    async def until(self, job_id: str, condition: Condition, timeout_s: float) -> bool:
        """Wait until the job meets the condition or is deleted; False after the timeout.

        Returns True early when the process shuts down.
        """
        loop = asyncio.get_running_loop()
        waiter = _Waiter(job_id, condition, loop.create_future())
        self._waiters.add(waiter)
        self._wanted.set()
        self._changed.set()  # the change may have been announced already
        timer = loop.call_later(timeout_s, waiter.wake, False)
        try:
            return await waiter.woken
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    async def read(self, job_id: str, after: int, limit: int) -> Batch:
        """As `EventLog.read`; those who ask for the same at the same time, or are woken by the same
        change, share one query and what is made of it."""
        key = job_id, after, limit
        reading = self._reading.get(key)
        if reading is None:
            reading = asyncio.create_task(run_sync(self._log.read, *key))
            self._reading[key] = reading
            if not self._waking:
                reading.add_done_callback(lambda _: self._reading.pop(key, None))
        return await asyncio.shield(reading)  # one of them may be canceled

    async def run(self) -> None:
        """Look until canceled."""
        self._loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            with anyio.move_on_after(POLL_S):
                await self._changed.wait()
            self._changed.clear()
            if not self._waiters:
                self._wanted.clear()
                continue
            try:
                await self._look()
                await anyio.sleep(PAUSE_S)
            except Exception:  # any error: waiting requests must not hang
                logger.exception("changes of jobs cannot be read")
                await anyio.sleep(FAILED_S)

    async def _look(self) -> None:
        waiters = tuple(self._waiters)  # others may be added during the query
        if not self.closing:
            job_ids = list({waiter.job_id for waiter in waiters})
            snapshots = await run_sync(self._log.snapshots, job_ids)
            waiters = tuple(
                waiter
                for waiter in waiters
                if (job := snapshots.get(waiter.job_id)) is None or waiter.condition(job)
            )
        self._waking = True
        try:
            for first in range(0, len(waiters), GROUP):
                for waiter in waiters[first : first + GROUP]:
                    waiter.wake(True)
                await anyio.sleep(TURN_S)
        finally:
            self._waking = False
            self._reading.clear()


@dataclass(eq=False)
class _Waiter:
    job_id: str
    condition: Condition
    woken: asyncio.Future[bool]

    def wake(self, has_changed: bool) -> None:
        if not self.woken.done():
            self.woken.set_result(has_changed)
