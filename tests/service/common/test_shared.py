"""Numbers that processes share: each writes its own, and all see the sums."""

from __future__ import annotations

import os
import time

import pytest

from service.common.callers import Rate
from service.common.shared import MOST, NEAR, TIMES, Shared, Times


def _in_a_fork(shared: Shared, place: int) -> None:
    """Count there, in another process that then ends."""
    if (pid := os.fork()) == 0:
        shared.take(place)
        shared.numbers("http", "GET")[0] += 2
        shared.count("streams").own += 3
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_a_process_counted_outlives_it_but_not_what_it_had() -> None:
    shared = Shared(3)
    shared.take(1)
    shared.numbers("http", "GET")[0] += 1
    shared.count("streams").own += 1
    _in_a_fork(shared, 2)
    assert shared.totals("http")["GET",][0] == 3
    assert shared.count("streams").total == 4
    shared.leave(2)
    _in_a_fork(shared, 2)  # continues
    assert shared.totals("http")["GET",][0] == 5
    assert shared.count("streams").total == 4


def test_records_are_used_again_and_too_many_are_not_shown() -> None:
    shared = Shared()
    for key in ("kept", "forgotten"):
        shared.numbers("of", key)[0] = 1
    shared.forget("of", "forgotten")
    assert set(shared.totals("of")) == {("kept",)}
    assert shared.numbers("of", "forgotten")[0] == 0
    shared.numbers("x" * 300)[0] += 1
    for n in range(MOST):
        shared.numbers("many", str(n))[0] += 1
    assert len(shared.totals("many")) == MOST - 2


def test_caller_whose_bucket_is_full_makes_room_for_another() -> None:
    """Also if more callers than have a place are active: then for the one that waits least."""
    times, soon = Times(), time.monotonic() + 60
    near = [1 + i * TIMES for i in range(NEAR + 2)]
    for i, caller in enumerate(near[:NEAR]):
        times.at[times.place(caller)] = soon + i
    times.at[times.place(near[3])] = 1.0
    assert times.at[times.place(near[NEAR])] == 0
    times.at[times.place(near[NEAR])] = soon + 100
    assert times.at[times.place(near[4])] == soon + 4
    times.place(near[NEAR + 1])
    assert times.at[times.place(near[1])] == soon + 1


@pytest.mark.parametrize("per_s", [0.5, 20.0])
def test_rate_allows_its_burst_and_then_its_pace(per_s: float) -> None:
    rate, burst = Rate(per_s, Times(), "ada"), int(max(1.0, per_s))
    for _ in range(burst):
        assert rate.wait_s() == 0
        rate.count()
    assert 0.9 / per_s < rate.wait_s() <= 1 / per_s
