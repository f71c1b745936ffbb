"""A helper's side of the table of parts: lease the next part, keep it, deliver its result.

A part belongs to one job. Every write carries the number of the part's attempt, and is refused if
there is a newer one, or no such row: the job has claimed the part then, or has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import sqlalchemy as sa

from service.jobs.core.attempts import Work
from service.jobs.core.job import Job, State
from service.jobs.core.leases import LEASE_S, Lease, LeasedRows, LeaseLost, Report, waiting_jobs
from service.jobs.core.store import checkpoint_folder
from service.storage.arrays import Content
from service.storage.blobs import Blobs
from service.storage.database import Database, now, transaction_lock
from service.storage.database.tables import job_parts, jobs
from svm.errors import Interrupted

MAX_FAILURES = 2
"""After this many lost leases since its last checkpoint only the job itself does a part."""


@dataclass(frozen=True, slots=True)
class PartLease(Lease):
    """The right to work on a part: attempt, checkpoint, progress and time of `job` are the part's.

    It does not keep the job, and gives no right to change it.
    """

    number: int

    @property
    def key(self) -> dict[str, Any]:
        return {
            "leased_job": self.job.id,
            "leased_attempt": self.job.attempt,
            "leased_part": self.number,
        }

    def file(self, name: object) -> str:
        return f"{part_folder(self.job.id, self.number, self.job.attempt)}/{name}"


def part_folder(job_id: str, number: int, attempt: int) -> str:
    """The files of a part's lease, or of its offer, whose number is one less than that of the first
    lease. They are deleted with the checkpoints of the job."""
    return f"{checkpoint_folder(job_id)}/part-{number}-{attempt}"


FREE = sa.and_(
    job_parts.c.result_key.is_(None),
    job_parts.c.worker.is_(None) | (job_parts.c.lease_expires_at < now()),
)
"""The condition that no one does a part."""
OWNED = sa.and_(
    job_parts.c.job_id == sa.bindparam("leased_job"),
    job_parts.c.number == sa.bindparam("leased_part"),
    job_parts.c.attempt == sa.bindparam("leased_attempt"),
)
_OWN = ("attempt", "worker", "progress", "elapsed_s", "checkpoint_key", "checkpoint_sha256")
"""Columns of a part that take the place of its job's."""
_LEFT: Mapping[str, Any] = MappingProxyType({"worker": None, "lease_expires_at": None})
_PARTS_OF_JOBS = job_parts.join(jobs, jobs.c.id == job_parts.c.job_id)


class PartLeases(LeasedRows):
    """All that helpers write about parts. A helper pauses if its job stops, or another one
    waits."""

    _table, _owned, _losses = job_parts, OWNED, "failures"

    def __init__(
        self, database: Database, blobs: Blobs, running_per_caller: int | None = None
    ) -> None:
        """`running_per_caller`: of jobs, as in `Leases`."""
        _, ids = waiting_jobs(running_per_caller)
        requested = jobs.c.cancel_requested | jobs.c.pause_requested
        waits = sa.exists(ids.with_only_columns(sa.literal(1)))
        stops = requested | (jobs.c.state == State.PAUSED) | waits
        super().__init__(database, blobs, sa.false(), stops)
        self._flags = self._flags.select_from(_PARTS_OF_JOBS)

    def take(self, worker: str, lease_s: float) -> PartLease | None:
        """Lease the next part for `lease_s` seconds. Writes nothing if there is none.

        The job with the highest priority goes first; among equals the caller with the fewest
        workers, and of its jobs the oldest.
        """
        with self._database.read() as connection:
            if connection.execute(_NEXT).first() is None:
                return None
        with self._database.write() as connection:
            transaction_lock(connection, "take")
            chosen = connection.execute(_NEXT).first()
            if chosen is None:
                return None
            values = {"worker": worker, "lease_s": lease_s, **chosen._mapping}
            part = connection.execute(_TAKE, values).first()
            if part is None:  # the job has just claimed it
                return None
            row = connection.execute(sa.select(jobs).where(jobs.c.id == part.job_id)).one()
        own = {name: getattr(part, name) for name in _OWN}
        return PartLease(replace(Job.from_row(row), **own), part.number)

    def release(self, lease: Lease, report: Report) -> None:
        """Give the part back: the job or another helper does the rest."""
        self._leave(lease, report, 0)

    def refuse(self, lease: Lease, report: Report) -> None:
        """Leave the part to the job, which meets the same error."""
        self._leave(lease, report, MAX_FAILURES)

    def deliver(self, lease: Lease, content: Content, report: Report) -> None:
        """End the part with its result."""
        self._name(lease, report, "result", self._blobs.write(lease.file("result"), content), _LEFT)

    def _leave(self, lease: Lease, report: Report, failures: int) -> None:
        with self._database.write(makes_room=True) as connection:
            self._write(connection, lease, report, {**_LEFT, "failures": failures})


def _next() -> sa.Select[Any]:
    helping = (
        sa.select(jobs.c.caller, sa.func.count().label("workers"))
        .select_from(_PARTS_OF_JOBS)
        .where(job_parts.c.worker.is_not(None))
        .group_by(jobs.c.caller)
        .subquery("helping")
    )
    return (
        sa.select(job_parts.c.job_id.label("chosen_job"), job_parts.c.number.label("chosen_part"))
        .select_from(_PARTS_OF_JOBS.outerjoin(helping, helping.c.caller == jobs.c.caller))
        .where(
            FREE,
            job_parts.c.failures < MAX_FAILURES,
            jobs.c.state == State.RUNNING,
            ~jobs.c.cancel_requested,
            ~jobs.c.pause_requested,
        )
        .order_by(
            jobs.c.priority.desc(),
            sa.func.coalesce(helping.c.workers, 0),
            jobs.c.number,
            jobs.c.id,
            job_parts.c.number,
        )
        .limit(1)
    )


_NEXT = _next()
_TAKE = (
    sa.update(job_parts)
    .where(
        job_parts.c.job_id == sa.bindparam("chosen_job"),
        job_parts.c.number == sa.bindparam("chosen_part"),
        FREE,
    )
    .values(
        attempt=job_parts.c.attempt + 1,
        failures=job_parts.c.failures + 1,
        worker=sa.bindparam("worker"),
        lease_expires_at=now() + LEASE_S,
    )
    .returning(*job_parts.c)
)


T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass
class Kept:
    """What a worker has prepared for the parts of one job."""

    job_id: str = ""
    value: Any = None


class PartWork(Work):
    """A leased part. `job` is its job with the attempt, checkpoint and progress of the part."""

    _leases: PartLeases

    def __init__(
        self,
        lease: PartLease,
        leases: PartLeases,
        *given: Any,
        kept: Kept | None = None,
        **also: Any,
    ) -> None:
        super().__init__(lease, leases, *given, **also)
        self.number = lease.number
        self._kept = kept or Kept()

    def once(self, make: Callable[[], T]) -> T:
        """What `make` gave for an earlier part of the same job in this worker, or gives now."""
        if self._kept.job_id != self.job.id:
            self._kept.job_id, self._kept.value = "", None  # free its memory first
            self._kept.value = make()
            self._kept.job_id = self.job.id
        value: T = self._kept.value
        return value

    def deliver(self, content: Content) -> None:
        """End the part with its result. Raises LeaseLost."""
        write = self._leases.deliver
        self.insist(lambda: write(self.lease, content, self.latest_report()))

    def refuse(self) -> None:
        """Leave the part to its job. Raises LeaseLost."""
        self.insist(lambda: self._leases.refuse(self.lease, self.latest_report()))


def carry_out_part(run: Callable[[PartWork], None], part: PartWork) -> None:
    """Do a part, or give it back, whatever happens. Raises LeaseLost, and PASSING errors if this
    process stops before the end could be written."""
    try:
        run(part)
    except Interrupted:
        part.give_back()
    except LeaseLost:
        raise
    except Exception:  # such as a training that diverges, or a file that only this machine lacks
        logger.info("part left to its job", exc_info=True)
        part.refuse()
