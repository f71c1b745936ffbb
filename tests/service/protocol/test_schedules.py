"""The real stores and the step function of attempts, step by step beside the model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.seeds import seeds_of_schedules
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
    for seed in seeds_of_schedules(count):
        run_schedule(seed, STEPS)
