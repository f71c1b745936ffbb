"""The real stores and the step function of attempts, step by step beside the model."""

from __future__ import annotations

import os

import pytest

from tests.seeds import seed_from
from tests.service.protocol.conftest import RunSchedule

STEPS = 200


@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("count", [60, pytest.param(20_000, marks=pytest.mark.protocol)])
def test_every_schedule_is_one_of_the_model(run_schedule: RunSchedule, count: int) -> None:
    """Kills, stops, lost replies, full disks and jumps of the clock at any turn."""
    first = seed_from("PROTOCOL_SEED")
    for seed in range(first, first + (1 if "PROTOCOL_SEED" in os.environ else count)):
        run_schedule(seed, STEPS)
