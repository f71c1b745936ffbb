"""Wrong versions of the protocol of parts, planted in the real code: each replaces one function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container
from typing import Any

import pytest
import sqlalchemy as sa

from service.jobs.core import events
from service.jobs.core.job import State
from service.jobs.core.leases import LEASE_S, Lease
from service.jobs.parts import leases, lending
from service.jobs.parts.leases import PartLeases
from service.jobs.parts.lending import Lending, Offers, Part
from service.storage.blobs import Blob
from service.storage.database import now
from service.storage.database.tables import job_parts, jobs
from tests.service.protocol.parts.simulation import SimulatedOffers

Patch = pytest.MonkeyPatch


def _owned(patch: Patch, *conditions: Any) -> None:
    patch.setattr(PartLeases, "_owned", sa.and_(*conditions))


def _free(patch: Patch, module: Any, condition: Any) -> None:
    patch.setattr(module, "FREE", condition)


def no_attempt_in_the_fence(patch: Patch) -> None:
    attempt = sa.bindparam("leased_attempt", type_=sa.Integer())
    _owned(
        patch,
        job_parts.c.job_id == sa.bindparam("leased_job"),
        job_parts.c.number == sa.bindparam("leased_part"),
        job_parts.c.attempt + attempt >= 0,
    )


def claim_without_the_jobs_lease(patch: Patch) -> None:
    patch.setattr(lending, "_check", lambda connection, lease: None)


def claim_of_a_leased_part(patch: Patch) -> None:
    _free(patch, lending, job_parts.c.result_key.is_(None))
    parts = sa.select(job_parts, job_parts.c.result_key.is_(None).label("is_free"))
    patch.setattr(lending, "_PARTS", parts.where(job_parts.c.job_id == sa.bindparam("job")))


def take_of_a_live_lease(patch: Patch) -> None:
    _free(patch, leases, job_parts.c.result_key.is_(None))
    _take_again(patch)


def take_of_a_done_part(patch: Patch) -> None:
    _free(patch, leases, job_parts.c.worker.is_(None) | (job_parts.c.lease_expires_at < now()))
    _take_again(patch)


def _take_again(patch: Patch, **values: Any) -> None:
    """The statements of `take` with another condition, or other values."""
    patch.setattr(leases, "_NEXT", leases._next())
    own = {
        "attempt": job_parts.c.attempt + 1,
        "failures": job_parts.c.failures + 1,
        "worker": sa.bindparam("worker"),
        "lease_expires_at": now() + LEASE_S,
    }
    take = sa.update(job_parts).where(
        job_parts.c.job_id == sa.bindparam("chosen_job"),
        job_parts.c.number == sa.bindparam("chosen_part"),
        leases.FREE,
    )
    taken = take.values(own | values).returning(*job_parts.c)
    patch.setattr(leases, "_TAKE", taken)


def failures_not_counted(patch: Patch) -> None:
    _take_again(patch, failures=job_parts.c.failures)


def take_after_two_losses(patch: Patch) -> None:
    patch.setattr(leases, "MAX_FAILURES", 1000)
    patch.setattr(leases, "_NEXT", leases._next())


def parts_of_stopped_jobs_taken(patch: Patch) -> None:
    parts = sa.select(
        job_parts.c.job_id.label("chosen_job"), job_parts.c.number.label("chosen_part")
    )
    free = parts.where(leases.FREE, job_parts.c.failures < leases.MAX_FAILURES)
    patch.setattr(leases, "_NEXT", free.limit(1))


def helpers_stay_while_a_job_waits(patch: Patch) -> None:
    real = PartLeases.__init__

    def begin(self: PartLeases, *given: Any) -> None:
        real(self, *given)
        requested = jobs.c.cancel_requested | jobs.c.pause_requested
        stops = requested | (jobs.c.state == State.PAUSED)
        flags = sa.select(sa.false().label("end"), stops.label("pause"))
        self._flags = flags.select_from(leases._PARTS_OF_JOBS).where(leases.OWNED)

    patch.setattr(PartLeases, "__init__", begin)


def _named_first(patch: Patch, name: str) -> None:
    real = PartLeases._name

    def write(self: PartLeases, lease: Lease, *given: Any) -> None:
        content = next(each for each in given if isinstance(each, bytes))
        number = given[0] if name == "checkpoint" else name
        key = lease.file(number)
        blob = Blob(key, hashlib.sha256(content).hexdigest(), len(content))
        values = {"failures": 0} if name == "checkpoint" else leases._LEFT
        real(self, lease, given[-1], name, blob, values)
        self._blobs.write(key, content)

    patch.setattr(PartLeases, "deliver" if name == "result" else name, write)


def result_without_its_file(patch: Patch) -> None:
    _named_first(patch, "result")


def checkpoint_named_before_it_is_written(patch: Patch) -> None:
    _named_first(patch, "checkpoint")


def checkpoint_does_not_forgive(patch: Patch) -> None:
    real: Callable[..., Any] = PartLeases._name

    def name(*given: Any) -> Any:
        *others, values = given
        return real(*others, {k: v for k, v in values.items() if k != "failures"})

    patch.setattr(PartLeases, "_name", name)


def release_forgets_the_checkpoint(patch: Patch) -> None:
    def release(self: PartLeases, lease: Lease, report: Any) -> None:
        forgets = {"checkpoint_key": "checkpoints/none", "failures": 0, **leases._LEFT}
        with self._database.write() as connection:
            self._first(connection, self._lock, lease)
            self._write(connection, lease, report, forgets)

    patch.setattr(PartLeases, "release", release)


def end_leaves_rows(patch: Patch) -> None:
    nothing = sa.delete(job_parts).where(
        job_parts.c.job_id == sa.bindparam("ended"), job_parts.c.number < 0
    )
    patch.setattr(events, "_DELETE_PARTS", nothing)


def offer_overwrites_a_row(patch: Patch) -> None:
    real = Offers.offer

    def offer(self: Offers, lease: Lease, checkpoints: Any) -> bool:
        mine = (job_parts.c.job_id == lease.job.id) & job_parts.c.number.in_(list(checkpoints))
        with self._database.write() as connection:
            connection.execute(sa.delete(job_parts).where(mine))
        return real(self, lease, checkpoints)

    patch.setattr(Offers, "offer", offer)


def claim_of_what_the_job_has(patch: Patch) -> None:
    real = Lending.claim

    def claim(self: Lending, numbers: Container[int]) -> Any:
        return real(self, range(1000))

    patch.setattr(Lending, "claim", claim)


def lost_claim_awaited(patch: Patch) -> None:
    """A look does not forget the parts that have no row."""
    real = SimulatedOffers.parts
    seen: dict[tuple[int, int], Part] = {}

    def parts(self: SimulatedOffers, lease: Lease) -> list[Part]:
        for part in real(self, lease):
            seen[id(lease), part.number] = part
        return [part for (of, _), part in seen.items() if of == id(lease)]

    patch.setattr(SimulatedOffers, "parts", parts)


def damaged_result_awaited(patch: Patch) -> None:
    patch.setattr(Lending, "_claim", _claim_unless_done(Lending._claim))


def _claim_unless_done(real: Callable[[Lending, Part], bool]) -> Callable[[Lending, Part], bool]:
    return lambda self, part: not part.is_done and real(self, part)


PLANTED: dict[str, Callable[[Patch], None]] = {
    name: plant
    for name, plant in list(globals().items())
    if callable(plant)
    and getattr(plant, "__annotations__", {}) == {"patch": "Patch", "return": "None"}
}
