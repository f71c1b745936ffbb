"""A job's side of the table of parts: offer parts, claim those that no one does, get results.

What a job has not offered it does itself. A part that it claims is its own again: the row is gone.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from service.jobs.core.leases import OWNED as JOB_OWNED
from service.jobs.core.leases import Lease, LeaseLost
from service.jobs.core.lifecycle import State
from service.jobs.parts.leases import FREE, part_folder
from service.storage.arrays import Arrays, unpack
from service.storage.blobs import Blobs
from service.storage.database import Database, announce_work
from service.storage.database.tables import job_parts, jobs

ATTEMPT_BITS = 30
"""Of the random number from which the attempts of an offered part are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A row of `job_parts`, as it was when it was read."""

    number: int
    attempt: int
    is_free: bool
    """No one does it, and it is not done."""
    is_done: bool
    progress: dict[str, Any]
    file: tuple[str, str] | None
    """Name and digest of its result, or before it is done of its checkpoint."""


class Offers:
    """All writes of jobs about their parts. Safe to share between threads."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        on_offered: Callable[[], None] = lambda: None,
        *,
        has_takers: bool = True,
    ) -> None:
        """`on_offered` is called when there are new parts, to wake other workers; `has_takers` if
        there can be any."""
        self.has_takers = has_takers
        self._database = database
        self._blobs = blobs
        self._on_offered = on_offered

    def offer(self, lease: Lease, checkpoints: Mapping[int, bytes | None]) -> bool:
        """Let others do these parts, by number, each from its checkpoint; False if a job waits, so
        that no one would. Raises LeaseLost."""
        with self._database.read() as connection:
            if connection.scalar(_WAITS):
                return False
        rows = []
        for number, content in checkpoints.items():
            # A part that was claimed can be offered again: the leases and files of before, which a
            # stale helper may still have, must not be mistaken for new ones.
            attempt = secrets.randbits(ATTEMPT_BITS)
            blob = None
            if content is not None:
                folder = part_folder(lease.job.id, number, attempt)
                blob = self._blobs.write(f"{folder}/offered", content)
            rows.append(
                {
                    **{"job_id": lease.job.id, "number": number},
                    **{"attempt": attempt, "failures": 0, "progress": {}, "elapsed_s": 0.0},
                    "checkpoint_key": blob and blob.key,
                    "checkpoint_sha256": blob and blob.sha256,
                }
            )
        with self._database.write() as connection:
            _check(connection, lease)
            # Those of an offer whose reply was lost exist.
            known = {row.number for row in connection.execute(_PARTS, {"job": lease.job.id})}
            new = [row for row in rows if row["number"] not in known]
            if new:
                connection.execute(sa.insert(job_parts), new)
            announce_work(connection)
        self._on_offered()
        return True

    def parts(self, lease: Lease) -> list[Part]:
        """Those that the job has not claimed, by number."""
        with self._database.read() as connection:
            return [_part(row) for row in connection.execute(_PARTS, {"job": lease.job.id})]

    def claim(self, lease: Lease, part: Part) -> bool:
        """Make a part the job's own again, if it is as it was read. Raises LeaseLost."""
        as_read = job_parts.c.result_key.is_not(None) if part.is_done else FREE
        own = (job_parts.c.job_id == lease.job.id) & (job_parts.c.number == part.number)
        same = job_parts.c.attempt == part.attempt
        with self._database.write() as connection:
            _check(connection, lease)
            return connection.execute(sa.delete(job_parts).where(own, same, as_read)).rowcount > 0

    def content(self, part: Part) -> Arrays:
        """Of its file; empty if it has none. Raises BlobDamaged."""
        return {} if part.file is None else unpack(self._blobs.read(*part.file))


_PARTS = (
    sa.select(job_parts, FREE.label("is_free"))
    .where(job_parts.c.job_id == sa.bindparam("job"))
    .order_by(job_parts.c.number)
)
_WAITS = sa.select(sa.exists().where(jobs.c.state == State.QUEUED))
_CHECK = sa.select(jobs.c.id).where(JOB_OWNED).with_for_update()


def _check(connection: sa.Connection, lease: Lease) -> None:
    """Raises LeaseLost: roll back."""
    if connection.execute(_CHECK, lease.key).first() is None:
        raise LeaseLost(lease.job.id)


def _part(row: sa.Row[Any]) -> Part:
    is_done = row.result_key is not None
    names = ("result_key", "result_sha256") if is_done else ("checkpoint_key", "checkpoint_sha256")
    key, sha256 = (getattr(row, name) for name in names)
    return Part(
        number=row.number,
        attempt=row.attempt,
        is_free=row.is_free,
        is_done=is_done,
        progress=row.progress,
        file=None if key is None else (key, sha256),
    )
