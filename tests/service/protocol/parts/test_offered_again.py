"""A part that is claimed and offered again; no schedule of a bearable length comes to that."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.jobs.core.leases import LeaseLost, Leases, Report
from service.jobs.core.store import JobStore, NewJob
from service.jobs.parts.leases import PartLeases
from service.jobs.parts.offers import Offers
from service.storage.arrays import unpack
from service.storage.blobs.local import LocalBlobs
from service.storage.database import Database
from tests.service.jobs.rows import LEASE_S, add_dataset
from tests.service.protocol.parts.simulation import packed


@pytest.fixture
def database(migrated: Path, tmp_path: Path) -> Iterator[Database]:
    shutil.copyfile(migrated, tmp_path / "service.db")
    database = Database(f"sqlite:///{tmp_path}/service.db")
    yield database
    database.close()


def test_stale_helper_changes_nothing_of_the_next_offer(database: Database, tmp_path: Path) -> None:
    """Neither the row nor its files, although the leases of a new row are counted again."""
    blobs = LocalBlobs(tmp_path / "blobs")
    jobs, leases = JobStore(database, blobs, queue_limit=9), Leases(database, blobs)
    helpers, offers = PartLeases(database, blobs), Offers(database, blobs)
    new = NewJob(
        kind="train",
        spec={},
        dataset_id=add_dataset(database),
        dataset_digest="0" * 64,
        model_name="iris",
        priority=0,
        tags={},
    )
    jobs.create(new, "caller")
    job = leases.take("worker", LEASE_S)
    assert job is not None

    def part() -> Any:
        (row,) = offers.parts(job)
        return None if row.file is None else unpack(blobs.read(*row.file))["done"]

    assert offers.offer(job, {1: packed(done=0)})
    stale = helpers.take("stale", LEASE_S)
    assert stale is not None
    leases.expire(["stale"])
    (row,) = offers.parts(job)
    assert offers.claim(job, row)
    assert offers.offer(job, {1: packed(done=1)})
    lease = helpers.take("helper", LEASE_S)
    assert lease is not None
    report = Report(progress={}, elapsed_s=0.0)
    helpers.checkpoint(lease, 1, packed(done=3), report)
    with pytest.raises(LeaseLost):
        helpers.checkpoint(stale, 1, packed(done=2), report)
    assert part() == 3
    helpers.deliver(lease, packed(done=4), report)
    with pytest.raises(LeaseLost):
        helpers.deliver(stale, packed(done=4), report)
    assert part() == 4
