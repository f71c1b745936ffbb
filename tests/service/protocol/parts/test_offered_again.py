"""Parts that are claimed and offered again, or left to their job; rare in schedules."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.jobs.core.attempts import Attempt
from service.jobs.core.leases import Lease, LeaseLost, Leases, Report
from service.jobs.core.store import JobStore, NewJob
from service.jobs.parts.leases import PartLease, PartLeases, PartWork, carry_out_part
from service.jobs.parts.lending import Lending, Offers
from service.settings import Settings
from service.storage.arrays import unpack
from service.storage.blobs.local import LocalBlobs
from service.storage.database import Database
from tests.service.jobs.rows import LEASE_S, add_dataset
from tests.service.protocol.parts.simulation import packed

REPORT = Report(progress={}, elapsed_s=0.0)


@dataclass(frozen=True)
class Stores:
    blobs: LocalBlobs
    leases: Leases
    helpers: PartLeases
    offers: Offers
    job: Lease
    """That of a worker."""
    settings: Settings

    def done(self) -> int:
        """In the file of the part."""
        (row,) = self.offers.parts(self.job)
        assert row.file is not None
        return int(unpack(self.blobs.read(*row.file))["done"])

    def take(self, worker: str) -> PartLease:
        lease = self.helpers.take(worker, LEASE_S)
        assert lease is not None
        return lease


@pytest.fixture
def stores(migrated: Path, tmp_path: Path) -> Iterator[Stores]:
    """With a job that has lent part 1."""
    shutil.copyfile(migrated, tmp_path / "service.db")
    database = Database(f"sqlite:///{tmp_path}/service.db")
    blobs = LocalBlobs(tmp_path / "blobs")
    leases, offers = Leases(database, blobs), Offers(database, blobs)
    new = NewJob(
        kind="train",
        spec={},
        dataset_id=add_dataset(database),
        dataset_digest="0" * 64,
        model_name="iris",
        priority=0,
        tags={},
    )
    JobStore(database, blobs, queue_limit=9).create(new, "caller")
    job = leases.take("worker", LEASE_S)
    assert job is not None
    assert offers.offer(job, {1: packed(done=0)})
    settings = Settings(data_dir=tmp_path, lease_s=LEASE_S)
    yield Stores(blobs, leases, PartLeases(database, blobs), offers, job, settings)
    database.close()


def test_stale_helper_changes_nothing_of_the_next_offer(stores: Stores) -> None:
    """Neither the row nor its files, although the leases of a new row are counted again."""
    helpers, offers = stores.helpers, stores.offers
    stale = stores.take("stale")
    stores.leases.expire(["stale"])
    (row,) = offers.parts(stores.job)
    assert offers.claim(stores.job, row)
    assert offers.offer(stores.job, {1: packed(done=1)})
    lease = stores.take("helper")
    helpers.checkpoint(lease, 1, packed(done=3), REPORT)
    with pytest.raises(LeaseLost):
        helpers.checkpoint(stale, 1, packed(done=2), REPORT)
    assert stores.done() == 3
    helpers.deliver(lease, packed(done=4), REPORT)
    with pytest.raises(LeaseLost):
        helpers.deliver(stale, packed(done=4), REPORT)
    assert stores.done() == 4


def test_result_that_cannot_be_used_is_followed_by_another(stores: Stores) -> None:
    lending = Lending(
        stores.offers, Attempt(stores.job, stores.leases, stores.settings, threading.Event())
    )
    for done in (4, 5):
        stores.helpers.deliver(stores.take("helper"), packed(done=done), REPORT)
        lending.wait()
        ((number, result),) = lending.results([1])
        assert (number, int(result["done"])) == (1, done)
        lending.reclaim(1)
        assert 1 not in lending
        assert lending.offer({1: packed(done=0)})


@pytest.mark.parametrize("error", [OSError("no such file"), ValueError("it fails")])
def test_part_that_fails_is_left_to_its_job(stores: Stores, error: Exception) -> None:
    """Else a helper whose machine lacks a file takes it again and again, before its job can."""
    part = PartWork(stores.take("helper"), stores.helpers, stores.settings, threading.Event())

    def fail(_: PartWork) -> None:
        raise error

    carry_out_part(fail, part)
    assert stores.helpers.take("another", LEASE_S) is None
    (row,) = stores.offers.parts(stores.job)
    assert row.is_free
