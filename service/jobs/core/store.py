"""The jobs table as the API uses it; workers use `leases`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from io import BufferedReader
from typing import Any, TypeAlias

import sqlalchemy as sa

from service.errors import Conflict, Corrupt, NotFound, ServiceError, Unavailable
from service.jobs.core import events
from service.jobs.core.events import change, get_job, move
from service.jobs.core.job import (
    ACTIVE,
    WAITING,
    Effect,
    Job,
    State,
    cancellation,
    pausing,
    resumption,
)
from service.models.versions import find_version, lock_model
from service.storage.blobs import BlobDamaged, Blobs
from service.storage.database import Database, new_id, now, pages, transaction_lock
from service.storage.database.audit import record, record_all
from service.storage.database.tables import Action, datasets, job_tags, job_trace, jobs

QUEUE_RETRY_S = 10
KEPT_SHARE = 0.1
"""This part of the queue's length is for callers with fewer jobs in it than that."""

Also: TypeAlias = Callable[[sa.Connection, Job], None]
_Change: TypeAlias = tuple[Effect, sa.Update | None]
"""What a request does, and the update for it; None if it was requested already."""
AlsoAll: TypeAlias = Callable[[sa.Connection, list[Job | ServiceError]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to queue."""

    kind: str
    spec: Mapping[str, Any]
    dataset_id: str
    dataset_digest: str
    model_name: str | None
    priority: int
    tags: Mapping[str, str]
    callback: str | None = None
    needs_version: tuple[str, int] | None = None
    """The model version (name, number) that it reads."""

    def values(self) -> dict[str, Any]:
        """The columns of its row."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        del columns["needs_version"]
        return {**columns, "id": new_id("job")}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list shows; None: all."""

    kind: str | None = None
    state: State | None = None
    model_name: str | None = None
    dataset_id: str | None = None
    tag: tuple[str, str] | None = None
    name: str | None = None
    """A part of the name of the model, in any case; of the newest jobs."""


class JobStore:
    """Creates, shows, steers and deletes jobs. Safe to share between threads."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        queue_limit: int,
        queued_per_caller: int | None = None,
        on_queued: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_queued` is called after a commit by which a job may wait for a worker."""
        self._database = database
        self._blobs = blobs
        self._queue_limit = queue_limit
        self._queued_per_caller = queued_per_caller
        self._on_queued = on_queued

    def create(
        self, new: NewJob, caller: str, request_id: str | None = None, also: Also | None = None
    ) -> Job:
        """Queue a job; once this returns it is durable. `also` is done in the same transaction.

        Raises NotFound if what it reads is gone, Unavailable `queue-full`.
        """

        def accepted(connection: sa.Connection, results: list[Job | ServiceError]) -> None:
            if also is not None and isinstance(results[0], Job):
                also(connection, results[0])

        [result] = self.create_all([new], caller, request_id, accepted)
        if isinstance(result, ServiceError):
            raise result
        return result

    def create_all(
        self,
        new: Sequence[NewJob | ServiceError],
        caller: str,
        request_id: str | None = None,
        also: AlsoAll | None = None,
    ) -> list[Job | ServiceError]:
        """Queue jobs in one transaction, `also` in it; for each the job, or why it was refused;
        for an error itself."""
        self._blobs.check_room()
        with self._database.write() as connection:
            transaction_lock(connection, "queue")  # so that two do not take the same free place
            places = _Places(connection, caller, self._queue_limit, self._queued_per_caller)
            check = cache(partial(_check_needs, connection))  # jobs often read the same
            refused: dict[int, ServiceError] = {}
            rows = []
            for number, one in enumerate(new):
                try:
                    if isinstance(one, ServiceError):
                        raise one
                    check(one.dataset_id, one.needs_version)
                    places.take()
                    rows.append({**_NEW, **one.values(), "place": number})
                except ServiceError as error:
                    refused[number] = error
            queued: list[Job] = []
            if rows:
                by = {"caller": caller, "request_id": request_id}
                insert = _INSERT.values(**by, created_at=now(), number=_NUMBER)
                queued = [Job.from_row(row) for row in connection.execute(insert, rows)]
                pages.add_tags(connection, job_tags, queued)
                events.record(connection, queued, events.state)
                results_of = {f"jobs/{job.id}": {"kind": job.kind} for job in queued}
                record_all(connection, "job.create", results_of)
            following = iter(queued)
            results = [refused.get(n) or next(following) for n in range(len(new))]
            if also is not None:
                also(connection, results)
        if queued:
            self._on_queued()
        return results

    def get(self, job_id: str) -> Job:
        """Raises NotFound."""
        with self._database.read() as connection:
            return get_job(connection, job_id)

    def open_results(self, job: Job) -> BufferedReader | None:
        """The file of results; None if there is none. Raises Corrupt."""
        if job.results_key is None or job.results_sha256 is None:
            return None
        try:
            return self._blobs.open(job.results_key, job.results_sha256)
        except BlobDamaged:
            raise Corrupt("results-corrupt", "the file of results is damaged") from None

    def open_checkpoint(self, job: Job) -> BufferedReader | None:
        """The last checkpoint; None if there is none."""
        if job.checkpoint_key is None or job.checkpoint_sha256 is None:
            return None
        try:
            return self._blobs.open(job.checkpoint_key, job.checkpoint_sha256)
        except BlobDamaged:
            return None

    def page(self, filter: JobFilter, page: pages.PageRequest) -> pages.Page[Job]:
        """Jobs newest first, or as the page says."""
        with self._database.read() as connection:
            statement, listed = _filtered(connection, filter)
            key = listed.c.number, listed.c.id
            return pages.in_order(connection, statement, key, page, Job.from_row)

    def trace(self, job_id: str) -> list[dict[str, Any]]:
        """Rows of `job_trace`, ordered by pair and updates. Raises NotFound."""
        statement = (
            sa.select(job_trace)
            .where(job_trace.c.job_id == job_id)
            .order_by(job_trace.c.pair, job_trace.c.updates)
        )
        with self._database.read() as connection:
            get_job(connection, job_id)
            return [dict(row) for row in connection.execute(statement).mappings()]

    def cancel(self, job_id: str, *, keep_model: bool) -> tuple[Job, Effect]:
        """Cancel now, or request it of the worker. Raises NotFound, Conflict `invalid-state`."""

        def change(job: Job) -> _Change:
            has_checkpoint = job.checkpoint_key is not None
            effect = cancellation(job.state, keep_model=keep_model, has_checkpoint=has_checkpoint)
            values: dict[str, Any] = {"cancel_requested": True, "keep_model": keep_model}
            if effect is Effect.AT_ONCE:
                values |= {"keep_model": False, "stop_reason": "canceled"}
                return effect, move(State.CANCELED).values(values)
            if job.cancel_requested and job.keep_model == keep_model:
                return effect, None
            requested = move(State.QUEUED) if job.state is State.PAUSED else sa.update(jobs)
            return effect, requested.values(**values, pause_requested=False)

        return self._steer(job_id, "job.cancel", change)

    def pause(self, job_id: str) -> tuple[Job, Effect]:
        """Pause now, or request it of the worker. Raises NotFound, Conflict `invalid-state`."""

        def change(job: Job) -> _Change:
            effect = pausing(job.state, cancel_requested=job.cancel_requested)
            requested = None if job.pause_requested else _pausing(True)
            return effect, move(State.PAUSED) if effect is Effect.AT_ONCE else requested

        return self._steer(job_id, "job.pause", change)

    def resume(self, job_id: str) -> tuple[Job, Effect]:
        """Queue a paused job again, or withdraw the request to pause it.

        Raises NotFound, Conflict `invalid-state`.
        """

        def change(job: Job) -> _Change:
            effect = resumption(job.state, pause_requested=job.pause_requested)
            return effect, move(State.QUEUED) if job.state is State.PAUSED else _pausing(False)

        return self._steer(job_id, "job.resume", change)

    def _steer(
        self, job_id: str, action: Action, change: Callable[[Job], _Change]
    ) -> tuple[Job, Effect]:
        """Change the job as `change` says, unless it is so already. What changes nothing is not
        recorded."""
        with self._database.write(makes_room=action != "job.resume") as connection:
            job = get_job(connection, job_id, lock=True)
            effect, update = change(job)
            if effect is Effect.IMPOSSIBLE:
                canceling = action == "job.pause" and job.cancel_requested
                what = "is being canceled" if canceling else f"has {job.state} already"
                raise Conflict("invalid-state", f"the job {what}")
            ends = action == "job.cancel" and effect is Effect.AT_ONCE
            if effect is not Effect.ALREADY:
                if update is not None:
                    builders = [events.state, events.end] if ends else [events.state]
                    job = _changed(connection, job, update, *builders)
                record(connection, action, f"jobs/{job.id}", kind=job.kind, state=job.state)
        if ends:
            self._blobs.delete(checkpoint_folder(job_id))
        if job.state is State.QUEUED:
            self._on_queued()
        return job, effect

    def delete(self, job_id: str, check: Callable[[Job], None] = lambda job: None) -> None:
        """Remove a job that has ended, its events and its trace.

        `check` raises if the job must not be deleted. Raises NotFound, Conflict.
        """
        with self._database.write(makes_room=True) as connection:
            job = get_job(connection, job_id, lock=True)
            check(job)
            if not job.is_final:
                raise Conflict("invalid-state", f"the job is {job.state}; cancel it first")
            connection.execute(sa.delete(jobs).where(jobs.c.id == job_id))
            record(connection, "job.delete", f"jobs/{job_id}", kind=job.kind)
        self._blobs.delete(checkpoint_folder(job_id))
        if job.results_key is not None:
            self._blobs.delete(job.results_key)

    def ahead(self, job: Job) -> tuple[int, int]:
        """How many queued jobs are before this one, by priority and age, and how many run."""
        older = (jobs.c.priority == job.priority) & (jobs.c.number < job.number)
        queued = (jobs.c.state == State.QUEUED) & ((jobs.c.priority > job.priority) | older)
        count = sa.select(sa.func.count())
        before, running = count.where(queued), count.where(jobs.c.state == State.RUNNING)
        with self._database.read() as connection:
            return connection.scalar(before) or 0, connection.scalar(running) or 0

    def counts(self) -> dict[State, int]:
        """How many jobs are in each state."""
        statement = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
        with self._database.read() as connection:
            counts = {State(state): count for state, count in connection.execute(statement)}
        return {state: counts.get(state, 0) for state in State}


_NEW: dict[str, Any] = {
    "state": State.QUEUED,
    "attempt": 0,
    "attempts_without_progress": 0,
    "cancel_requested": False,
    "keep_model": False,
    "pause_requested": False,
    "progress": {},
    "elapsed_s": 0.0,
    "warnings": [],
    "revision": 1,
}
_NUMBER = pages.next_number("jobs") + sa.bindparam("place", type_=sa.Integer())
"""Jobs of one request start in its order."""
_INSERT = sa.insert(jobs).returning(*jobs.c, sort_by_parameter_order=True)


class _Places:
    """The free places in the queue for the jobs that one caller queues in one transaction.

    Some places beyond the limit are for callers with few waiting jobs: one caller that fills
    the queue does not block the others.
    """

    def __init__(
        self, connection: sa.Connection, caller: str, limit: int, per_caller: int | None
    ) -> None:
        # Paused jobs count too: each can be resumed at any time.
        waiting = sa.select(sa.func.count()).where(jobs.c.state.in_(WAITING))
        self._own = cache(lambda: connection.scalar(waiting.where(jobs.c.caller == caller)) or 0)
        self._total = connection.scalar(waiting) or 0
        self._limit, self._per_caller = limit, per_caller
        self._taken = 0

    def take(self) -> None:
        """Raises Unavailable if the queue is full for this caller."""
        limit, kept = self._limit, self._limit * KEPT_SHARE
        total, most = self._total + self._taken, self._per_caller
        if total >= limit or most is not None:
            own = self._own() + self._taken
            if most is not None and own >= most:
                raise _queue_full(f"{own} jobs of this caller are queued or paused already")
            if total >= limit and (own >= kept or total >= limit + max(1, kept)):
                raise _queue_full(f"{limit} jobs are queued or paused already")
        self._taken += 1


def _queue_full(detail: str) -> Unavailable:
    return Unavailable("queue-full", detail, retry_after_s=QUEUE_RETRY_S)


def _check_needs(
    connection: sa.Connection, dataset_id: str, version: tuple[str, int] | None
) -> None:
    """Raises NotFound if the dataset or the version that a job reads is gone."""
    # Locked: a deletion waits, and then finds the job.
    dataset = sa.select(datasets.c.id).where(datasets.c.id == dataset_id)
    if connection.execute(dataset.with_for_update(key_share=True, read=True)).first() is None:
        raise NotFound("not-found", f"there is no dataset {dataset_id}")
    if version is not None:
        lock_model(connection, version[0])
        find_version(connection, *version)


def checkpoint_folder(job_id: str) -> str:
    """The blobs of a job's checkpoints."""
    return f"checkpoints/{job_id}"


def _filtered(connection: sa.Connection, filter: JobFilter) -> tuple[sa.Select[Any], sa.Table]:
    """The jobs of the filter, and the table whose index has them in order."""
    columns = {
        jobs.c.kind: filter.kind,
        jobs.c.state: filter.state,
        jobs.c.model_name: filter.model_name,
        jobs.c.dataset_id: filter.dataset_id,
    }
    others = [column == value for column, value in columns.items() if value is not None]
    if filter.name is not None:
        others.append(pages.named_like(jobs.c.model_name, jobs.c.number, filter.name))
    statement = sa.select(jobs).where(*others)
    if filter.tag is None:
        return statement, jobs
    tagged = pages.has_tag(job_tags, filter.tag)
    if others and pages.is_common(connection, job_tags, filter.tag):
        return statement.where(sa.exists().where(job_tags.c.id == jobs.c.id, tagged)), jobs
    return statement.join(job_tags).where(tagged), job_tags


def _changed(
    connection: sa.Connection, job: Job, update: sa.Update, *builders: events.EventBuilder
) -> Job:
    """The locked job after an update that its state allows."""
    changed = change(connection, update.where(jobs.c.id == job.id), *builders)
    assert changed is not None
    return changed


def _pausing(requested: bool) -> sa.Update:
    return sa.update(jobs).values(pause_requested=requested)


WARM_START = jobs.c.spec["warm_start_from"].as_string()
"""The version that a training begins with: `name/number`."""
VALIDATION = jobs.c.spec["validation"]["dataset_id"].as_string()
"""The dataset of a training's validation set, if it has its own."""
MODEL_NAME = jobs.c.spec["model"]["name"].as_string()
MODEL_VERSION = jobs.c.spec["model"]["version"].as_integer()
"""The version that an evaluation or a batch prediction scores with."""


def job_with_dataset(connection: sa.Connection, dataset_id: str) -> str | None:
    """The id of a job that has not ended and reads the dataset."""
    return _active(connection, (jobs.c.dataset_id == dataset_id) | (dataset_id == VALIDATION))


def job_with_model(connection: sa.Connection, name: str, version: int | None = None) -> str | None:
    """The id of a job that has not ended and reads the version, or (None) any of the model's."""
    if version is None:
        return _active(connection, (name == MODEL_NAME) | WARM_START.like(f"{name}/%"))
    scores = (name == MODEL_NAME) & (version == MODEL_VERSION)
    return _active(connection, scores | (f"{name}/{version}" == WARM_START))


def _active(connection: sa.Connection, needs: sa.ColumnElement[bool]) -> str | None:
    return connection.scalar(sa.select(jobs.c.id).where(needs, jobs.c.state.in_(ACTIVE)).limit(1))
