"""The model of the protocol, explored to exhaustion; and that it finds what is wrong."""

from __future__ import annotations

import pytest

from tests.service.protocol.exploration import Broken, Exploration, Size
from tests.service.protocol.planted_rules import PLANTED
from tests.service.protocol.rules import Rules

AT_LEAST = 300_000
KEYS = Size(workers=1, replicas=2, epochs=1)
"""Two replicas create, steer and watch a job."""
LEASES = Size(workers=2, replicas=1, epochs=1, queued=True)
"""Two workers for one job."""
SMALL = {
    Size(workers=1, replicas=1, epochs=2, queued=True): None,
    Size(workers=0, replicas=2, epochs=1): 1000,
    Size(workers=2, replicas=1, epochs=1, queued=True): 50_000,
    Size(workers=1, replicas=1, epochs=1): None,
}
"""Where planted faults are looked for: up to this many states, None all."""
NIGHTLY = {
    Size(workers=2, replicas=1, epochs=1): 900_000,
    Size(workers=2, replicas=1, epochs=2, queued=True): 590_000,
    Size(jobs=2, workers=1, replicas=1, epochs=1, queued=True, jumps_back=False): 1_000_000,
    Size(workers=3, replicas=1, epochs=1, queued=True, jumps_back=False): 1_000_000,
}


@pytest.mark.protocol
@pytest.mark.timeout(600)
def test_no_reachable_state_breaks_an_invariant() -> None:
    """And from each the jobs can end."""
    explored = [
        Exploration(size, Rules(size.epochs)).run(check_ends=True) for size in (KEYS, LEASES)
    ]
    print(*explored, sep="\n")
    assert sum(each.canonical for each in explored) >= AT_LEAST


@pytest.mark.protocol
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("size", NIGHTLY, ids=str)
def test_no_state_of_larger_models_breaks_an_invariant(size: Size) -> None:
    """More than five million together."""
    explored = Exploration(size, Rules(size.epochs)).run()
    print(explored)
    assert explored.canonical >= NIGHTLY[size]


@pytest.mark.protocol
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_planted_fault_is_found_in_the_model(planted: type[Rules]) -> None:
    """With the steps that lead there."""
    for size, limit in SMALL.items():
        try:
            Exploration(size, planted(size.epochs)).run(limit, check_ends=limit is None)
        except Broken as broken:
            print(broken)
            return
    raise AssertionError("it was not found")
