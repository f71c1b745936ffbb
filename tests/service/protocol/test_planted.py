"""Wrong versions of the real protocol: the schedules find each."""

from __future__ import annotations

import pytest

from tests.service.protocol.conftest import RunSchedule
from tests.service.protocol.planted_code import PLANTED
from tests.service.protocol.schedules import Violation

SCHEDULES, STEPS = 100, 200
FOUND_BY = {
    "no_state_in_the_fence": 3,
    "lease_not_renewed": 1,
    "file_deleted_at_a_lost_reply": 4,
    "checkpoint_does_not_forgive": 1,
    "checkpoints_deleted_at_release": 2,
    "pause_forgotten_at_release": 3,
    "revision_not_counted": 5,
    "failed_at_the_second_loss": 2,
    "losses_never_fail": 7,
    "lost_job_forgets_its_pause": 3,
    "lost_job_forgets_its_cancel": 5,
    "pause_ignored_by_the_work": 3,
    "failed_checkpoint_counts": 4,
    "pause_of_a_canceled_job": 15,
    "resume_of_an_ended_job": 33,
    "sweep_of_young_files": 17,
}
"""The first seed that finds a fault, if it is not 0: tried first, to save time."""


@pytest.mark.protocol
@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_found_by_a_schedule(
    run_schedule: RunSchedule, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The seeds are always the same."""
    PLANTED[name](monkeypatch)
    for seed in (FOUND_BY.get(name, 0), *range(SCHEDULES)):
        try:
            run_schedule(seed, STEPS)
        except Violation as violation:
            print(seed, violation)
            return
    raise AssertionError("it was not found")
