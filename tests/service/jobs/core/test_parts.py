"""The table of parts: a part has one worker, and belongs to its job."""

from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sa

from service.jobs.core.job import State
from service.jobs.core.leases import Lease, LeaseLost, Leases, Outcome
from service.jobs.core.store import JobStore
from service.jobs.parts.leases import MAX_FAILURES, PartLeases
from service.jobs.parts.lending import Offers, Part
from service.storage.arrays import pack
from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.database.tables import job_parts
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.rows import MEMORY, queue, report, take

pytestmark = ON_ALL_BACKENDS

SUCCEEDED = Outcome(state=State.SUCCEEDED, stop_reason="converged")


@pytest.fixture
def parts(database: Database, blobs: Blobs) -> PartLeases:
    return PartLeases(database, blobs)


@pytest.fixture
def offers(database: Database, blobs: Blobs) -> Offers:
    return Offers(database, blobs)


@pytest.fixture
def lease(jobs: JobStore, leases: Leases, offers: Offers, dataset_id: str) -> Lease:
    """Of a job that has lent the parts 1 and 2."""
    queue(jobs, dataset_id)
    lease = take(leases)
    assert offers.offer(lease, {1: None, 2: pack({"x": np.asarray(1)})})
    return lease


def only(offers: Offers, lease: Lease, number: int) -> Part:
    (part,) = [part for part in offers.parts(lease) if part.number == number]
    return part


def expire(database: Database) -> None:
    with database.write() as connection:
        connection.execute(sa.update(job_parts).values(lease_expires_at=0.0))


def test_part_is_done_once_and_its_result_is_read(
    parts: PartLeases, offers: Offers, lease: Lease
) -> None:
    first, second = parts.take("one", 30), parts.take("two", 30)
    assert first is not None
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert parts.take("three", 30) is None
    assert not any(part.is_free for part in offers.parts(lease))
    parts.deliver(second, pack({"y": np.asarray(2)}), report())
    done = only(offers, lease, 2)
    assert (done.is_done, done.is_free) == (True, False)
    assert {name: int(value) for name, value in offers.content(done).items()} == {"y": 2}


def test_part_that_its_job_has_claimed_is_no_longer_the_helpers(
    database: Database, parts: PartLeases, offers: Offers, lease: Lease
) -> None:
    part = parts.take("one", 30)
    assert part is not None
    assert not offers.claim(lease, only(offers, lease, 1)), "its lease lives"
    parts.checkpoint(part, 1, pack({"x": np.asarray(5)}), report())
    parts.release(part, report())
    free = only(offers, lease, 1)
    assert offers.claim(lease, free)
    assert int(offers.content(free)["x"]) == 5
    assert not offers.claim(lease, free)
    for write in (
        lambda: parts.heartbeat(part, 30, MEMORY),
        lambda: parts.control_flags(part),
        lambda: parts.report(part, report()),
        lambda: parts.checkpoint(part, 2, b"", report()),
        lambda: parts.deliver(part, b"", report()),
        lambda: parts.release(part, report()),
        lambda: parts.refuse(part, report()),
    ):
        with pytest.raises(LeaseLost):
            write()
    assert [part.number for part in offers.parts(lease)] == [2]


def test_lost_helper_changes_nothing_and_the_next_begins_with_its_checkpoint(
    database: Database, parts: PartLeases, offers: Offers, lease: Lease
) -> None:
    lost = parts.take("one", 30)
    assert lost is not None
    parts.checkpoint(lost, 1, pack({"x": np.asarray(5)}), report())
    expire(database)
    following = parts.take("two", 30)
    assert following is not None
    assert (following.number, following.job.attempt) == (1, lost.job.attempt + 1)
    assert following.job.checkpoint_key is not None
    with pytest.raises(LeaseLost):
        parts.deliver(lost, b"", report())
    parts.control_flags(following)


def test_part_at_which_helpers_are_lost_is_left_to_the_job(
    database: Database, parts: PartLeases, offers: Offers, lease: Lease
) -> None:
    for _ in range(MAX_FAILURES):
        part = parts.take("one", 30)
        assert part is not None
        assert part.number == 1
        expire(database)
    part = parts.take("one", 30)
    assert part is not None
    assert part.number == 2
    assert offers.claim(lease, only(offers, lease, 1))
    parts.refuse(part, report())
    assert parts.take("one", 30) is None
    assert offers.claim(lease, only(offers, lease, 2))


def test_dead_helper_is_known_at_once(
    leases: Leases, parts: PartLeases, offers: Offers, lease: Lease
) -> None:
    assert parts.take("one", 30) is not None
    leases.expire(["one"])
    assert only(offers, lease, 1).is_free


def test_no_part_is_taken_of_a_job_that_stops(
    jobs: JobStore, leases: Leases, parts: PartLeases, lease: Lease
) -> None:
    part = parts.take("one", 30)
    assert part is not None
    assert not parts.control_flags(part).pause
    jobs.pause(lease.job.id)
    assert parts.control_flags(part).pause
    assert parts.take("two", 30) is None
    leases.release(lease, report())
    assert parts.control_flags(part).pause
    assert parts.take("two", 30) is None


def test_helper_leaves_when_a_job_waits(
    jobs: JobStore, parts: PartLeases, offers: Offers, lease: Lease, dataset_id: str
) -> None:
    """Nor does a job lend anything then."""
    part = parts.take("one", 30)
    assert part is not None
    queue(jobs, dataset_id)
    assert parts.control_flags(part).pause
    assert not offers.offer(lease, {3: None})


@pytest.mark.parametrize("ends", ["finished", "canceled"])
def test_end_of_a_job_is_the_end_of_its_parts(
    jobs: JobStore,
    leases: Leases,
    parts: PartLeases,
    offers: Offers,
    blobs: Blobs,
    lease: Lease,
    ends: str,
) -> None:
    part = parts.take("one", 30)
    assert part is not None
    parts.checkpoint(part, 1, b"x", report())
    if ends == "finished":
        leases.finish(lease, SUCCEEDED, report())
    else:
        jobs.cancel(lease.job.id, keep_model=False)
    assert offers.parts(lease) == []
    with pytest.raises(LeaseLost):
        parts.deliver(part, b"y", report())
    assert list(blobs.keys("checkpoints/")) == []


def test_lost_job_neither_offers_nor_claims(
    database: Database, leases: Leases, offers: Offers, lease: Lease
) -> None:
    """Its successor may have claimed the part already."""
    leases.expire(["test"])
    leases.reclaim()
    following = leases.take("next", 30)
    assert following is not None
    part = only(offers, following, 1)
    with pytest.raises(LeaseLost):
        offers.claim(lease, part)
    with pytest.raises(LeaseLost):
        offers.offer(lease, {3: None})
    assert offers.claim(following, part)


def test_offer_whose_reply_was_lost_is_repeated(
    parts: PartLeases, offers: Offers, lease: Lease
) -> None:
    """The parts that exist stay as they are."""
    part = parts.take("one", 30)
    assert part is not None
    assert offers.offer(lease, {1: None, 2: None, 3: None})
    assert [part.number for part in offers.parts(lease)] == [1, 2, 3]
    parts.deliver(part, pack({"y": np.asarray(1)}), report())
    assert only(offers, lease, 2).file is not None
