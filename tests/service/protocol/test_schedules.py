"""The real stores and the step function of attempts, step by step beside the model."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.seeds import seed_from
from tests.service.protocol.conftest import RunSchedule

STEPS = 200


def counts(first: int, submitted: int, nightly: int) -> list[Any]:
    """Schedules in `make test`, in what every submission has to pass, and in `make protocol`."""
    long = pytest.param(submitted, marks=pytest.mark.long)
    return [first, long, pytest.param(nightly, marks=pytest.mark.protocol)]


@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("count", counts(4, 60, 20_000))
def test_every_schedule_is_one_of_the_model(run_schedule: RunSchedule, count: int) -> None:
    """Kills, stops, lost replies, full disks and jumps of the clock at any turn."""
    _run(run_schedule, count)


@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("count", counts(1, 5, 2000))
def test_every_schedule_on_postgres_is_one_of_the_model(
    run_on_postgres: RunSchedule, count: int
) -> None:
    """With its own transactions, locks and types. The clock is the simulated one."""
    _run(run_on_postgres, count)


def _run(run_schedule: RunSchedule, count: int) -> None:
    first = seed_from("PROTOCOL_SEED")
    for seed in range(first, first + (1 if "PROTOCOL_SEED" in os.environ else count)):
        run_schedule(seed, STEPS)
