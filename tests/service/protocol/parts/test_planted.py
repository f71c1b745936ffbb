"""Wrong versions of the real protocol of parts: the schedules find each."""

from __future__ import annotations

import pytest

from tests.service.protocol.parts.conftest import RunParts
from tests.service.protocol.parts.planted_code import PLANTED
from tests.service.protocol.schedules import Violation

SCHEDULES, STEPS = 20, 300
FOUND_BY = {
    "no_attempt_in_the_fence": 9,
    "claim_without_the_jobs_lease": 4,
    "take_of_a_live_lease": 2,
    "take_after_two_losses": 2,
    "parts_of_stopped_jobs_taken": 2,
    "offer_overwrites_a_row": 3,
    "claim_of_what_the_job_has": 567,
}
"""The first seed that finds a fault, if it is not 0: tried first, to save time."""


@pytest.mark.protocol
@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_found_by_a_schedule(
    run_parts: RunParts, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The seeds are always the same."""
    PLANTED[name](monkeypatch)
    for seed in (FOUND_BY.get(name, 0), *range(SCHEDULES)):
        try:
            run_parts(seed, STEPS)
        except Violation as violation:
            print(seed, violation)
            return
    raise AssertionError("it was not found")
