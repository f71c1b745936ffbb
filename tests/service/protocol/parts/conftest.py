"""A simulated service with parts, emptied for each schedule."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.jobs.parts import lending
from tests.service.jobs.rows import add_dataset
from tests.service.protocol.parts.schedules import PartsSchedule
from tests.service.protocol.parts.simulation import Parts
from tests.service.protocol.simulation import Service

RunParts = Callable[[int, int], None]


@pytest.fixture
def run_parts(
    migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunParts]:
    """Runs the schedule of a seed with that many steps; raises Violation."""
    shutil.copyfile(migrated, tmp_path / "service.db")
    service = Service(f"sqlite:///{tmp_path}/service.db", tmp_path / "blobs")
    monkeypatch.setattr(lending, "time", Parts(service).time)

    def run(seed: int, steps: int) -> None:
        service.empty()
        try:
            PartsSchedule(Parts(service), add_dataset(service.database), seed).run(steps)
        except BaseException as error:
            error.add_note(f"repeat with PROTOCOL_SEED={seed}")
            raise

    yield run
    service.close()
