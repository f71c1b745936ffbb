"""A simulated service, emptied for each schedule."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
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
    with closing(Service(f"sqlite:///{tmp_path}/service.db", tmp_path / "blobs")) as service:
        yield _runner(service)


@pytest.fixture
def run_on_postgres(postgres_database_url: str, tmp_path: Path) -> Iterator[RunSchedule]:
    """The same with PostgreSQL."""
    with closing(Service(postgres_database_url, tmp_path / "blobs")) as service:
        yield _runner(service)


def _runner(service: Service) -> RunSchedule:
    def run(seed: int, steps: int) -> None:
        service.empty()
        try:
            with closing(Schedule(service, add_dataset(service.database), seed)) as schedule:
                schedule.run(steps)
        except BaseException as error:
            error.add_note(f"repeat with PROTOCOL_SEED={seed}")
            raise

    return run
