"""What a running job lends to other workers, and gets back."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from service.jobs.core.attempts import PASSING, Attempt
from service.jobs.core.job import State
from service.jobs.core.leases import OWNED as JOB_OWNED
from service.jobs.core.leases import Lease, LeaseLost
from service.jobs.parts.leases import FREE, part_folder
from service.storage.arrays import Arrays, Content
from service.storage.blobs import BlobDamaged, Blobs
from service.storage.database import Database, announce_work
from service.storage.database.tables import job_parts, jobs

ATTEMPT_BITS = 30
"""Length of the random number from which the attempts of an offered part are counted."""


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
        on_machines: bool = True,
    ) -> None:
        """`on_offered` is called when there are new parts, to wake other workers; `has_takers` if
        there can be any, `on_machines` if they can be on other ones."""
        self.has_takers, self.on_machines = has_takers, on_machines
        self._database = database
        self._blobs = blobs
        self._on_offered = on_offered

    def offer(self, lease: Lease, checkpoints: Mapping[int, Content | None]) -> bool:
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
        """What its file holds; empty if it has none. Raises BlobDamaged."""
        return {} if part.file is None else self._blobs.read_arrays(*part.file)


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


LEND_S = 0.1
"""A job lends what it has not begun when it has worked this long; a shorter one does it sooner."""
RETRY_S = 1.0
"""Pause before it tries again."""
LOOK_S = 0.5
"""How often a job looks at its parts while it works."""
WAIT_S = 0.05
"""How often it looks while it has nothing else to do."""

logger = logging.getLogger(__name__)


class Lending:
    """The parts that one attempt at a job has lent, by number.

    While the database fails nothing is lent and nothing comes back; the job works on.
    """

    def __init__(self, offers: Offers, attempt: Attempt) -> None:
        self._offers = offers
        self._lease = attempt.lease
        self._lend_at = time.monotonic() + LEND_S
        self._look_at = 0.0
        self._parts: dict[int, Part] = {}
        self._given: set[int] = set()
        if attempt.job.attempt > 1:  # an earlier attempt may have lent them
            self.look()

    @property
    def numbers(self) -> list[int]:
        """Numbers of all parts that are lent, or done by another worker."""
        return list(self._parts)

    def __contains__(self, number: int) -> bool:
        """Whether the part is lent, or done by another worker."""
        return number in self._parts

    @property
    def is_due(self) -> bool:
        """Whether the job should lend what it can."""
        return self._offers.has_takers and time.monotonic() >= self._lend_at

    @property
    def reaches_machines(self) -> bool:
        """Whether others than this one can do parts; this one can use all its processors itself."""
        return self._offers.on_machines

    @property
    def fractions(self) -> dict[int, float]:
        """How much of each part is done, without those whose results were given."""
        return {
            number: 1.0 if part.is_done else part.progress.get("fraction", 0.0)
            for number, part in self._parts.items()
            if number not in self._given
        }

    def offer(self, checkpoints: Mapping[int, Content | None]) -> bool:
        """Lend these parts, each from its checkpoint; False if it cannot be now, because a job
        waits or the database fails. Raises LeaseLost."""
        lent = False
        try:
            lent = self._offers.offer(self._lease, checkpoints)
        except PASSING:
            logger.exception("no parts could be lent")
        if not lent:
            self._lend_at = time.monotonic() + RETRY_S
        self._look_at = 0.0
        self.look()
        return lent

    def lend(self, ready: Iterable[int], packed: Callable[[int], Content | None]) -> None:
        """Lend the parts that are ready and not lent, each from its checkpoint, if it is time.
        Raises LeaseLost."""
        self.look()
        if self.is_due and (new := {n: packed(n) for n in ready if n not in self}):
            self.offer(new)

    def look(self) -> None:
        """Read how far the parts are, if that was not done just now."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        with suppress(*PASSING):
            self._parts = {part.number: part for part in self._offers.parts(self._lease)}

    def wait(self) -> None:
        """Wait a moment for other workers."""
        time.sleep(WAIT_S)
        self._look_at = 0.0
        self.look()

    def results(self, numbers: Container[int]) -> Iterator[tuple[int, Arrays]]:
        """Number and result of those of these parts that are done, of each once. Raises
        LeaseLost."""
        for part in list(self._parts.values()):
            if part.is_done and part.number in numbers and part.number not in self._given:
                with suppress(*PASSING):
                    try:
                        result = self._offers.content(part)
                    except BlobDamaged:
                        self._claim(part)
                    else:
                        self._given.add(part.number)
                        yield part.number, result

    def latest(self) -> Iterator[tuple[int, Arrays]]:
        """Number and result or last checkpoint of all parts."""
        for part in self._parts.values():
            with suppress(*PASSING, BlobDamaged):
                yield part.number, self._offers.content(part)

    def reclaim(self, number: int) -> None:
        """The result cannot be used: the job does the part itself. Raises LeaseLost."""
        self._given.discard(number)  # if it cannot be claimed now, the result is given again
        with suppress(*PASSING):
            self._claim(self._parts[number])

    def claim(self, numbers: Container[int]) -> tuple[int, Arrays] | None:
        """One of these parts that no one does, which is the job's own now, and its checkpoint.
        Raises LeaseLost.

        Others can be lent, too, which the job has done itself: if the reply to an offer was lost.
        """
        for part in list(self._parts.values()):
            with suppress(*PASSING):
                if part.number in numbers and part.is_free and self._claim(part):
                    with suppress(BlobDamaged):
                        return part.number, self._offers.content(part)
                    return part.number, {}
        return None

    def choose(self, ready: Sequence[int]) -> tuple[int, Arrays] | None:
        """The next of these parts for the job itself, and its checkpoint: one that is not lent, or
        that no one does. None after a moment, if others do all. Raises LeaseLost."""
        for number in ready:
            if number not in self:
                return number, {}
        claimed = self.claim(ready)
        if claimed is None:
            self.wait()
        return claimed

    def _claim(self, part: Part) -> bool:
        if not self._offers.claim(self._lease, part):
            return False
        del self._parts[part.number]
        return True
