"""The real stores and the step function of attempts, step by step beside the model."""

from __future__ import annotations

import os

import pytest

from tests.seeds import seed_from
from tests.service.protocol.conftest import RunSchedule

STEPS = 200


@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("count", [12, pytest.param(20_000, marks=pytest.mark.protocol)])
def test_every_schedule_is_one_of_the_model(run_schedule: RunSchedule, count: int) -> None:
    """Kills, stops, lost replies, full disks and jumps of the clock at any turn."""
    _run(run_schedule, count)


@pytest.mark.protocol
@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("count", [5, pytest.param(2000, marks=pytest.mark.protocol)])
def test_every_schedule_on_postgres_is_one_of_the_model(
    run_on_postgres: RunSchedule, count: int
) -> None:
    """With its own transactions, locks and types. The clock is the simulated one."""
    _run(run_on_postgres, count)


def _run(run_schedule: RunSchedule, count: int) -> None:
    first = seed_from("PROTOCOL_SEED")
    for seed in range(first, first + (1 if "PROTOCOL_SEED" in os.environ else count)):
        run_schedule(seed, STEPS)
