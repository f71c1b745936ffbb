"""A simulated service, emptied for each schedule."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.service.jobs.rows import add_dataset
from tests.service.protocol.schedules import Schedule
from tests.service.protocol.simulation import Service

RunSchedule = Callable[[int, int], None]


@pytest.fixture
def run_schedule(migrated: Path, tmp_path: Path) -> Iterator[RunSchedule]:
    """Runs the schedule of a seed with that many steps; raises Violation."""
    shutil.copyfile(migrated, tmp_path / "service.db")
    service = Service(f"sqlite:///{tmp_path}/service.db", tmp_path / "blobs")

    def run(seed: int, steps: int) -> None:
        service.empty()
        try:
            Schedule(service, add_dataset(service.database), seed).run(steps)
        except BaseException as error:
            error.add_note(f"repeat with PROTOCOL_SEED={seed}")
            raise

    yield run
    service.close()
