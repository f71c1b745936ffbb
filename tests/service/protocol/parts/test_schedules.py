"""The real code of parts, step by step against the invariants."""

from __future__ import annotations

import pytest

from tests.seeds import seeds_of_schedules
from tests.service.protocol.parts.conftest import RunParts

STEPS = 300


@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("count", [3, pytest.param(10_000, marks=pytest.mark.protocol)])
def test_every_schedule_keeps_the_invariants(run_parts: RunParts, count: int) -> None:
    """Kills, stops, lost replies, full disks, damaged results and pauses at any turn."""
    for seed in seeds_of_schedules(count):
        run_parts(seed, STEPS)
