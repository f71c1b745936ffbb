"""The model of parts, explored to exhaustion; and that it finds what is wrong."""

from __future__ import annotations

import pytest

from tests.service.protocol.exploration import Broken
from tests.service.protocol.parts.exploration import Size, explore
from tests.service.protocol.parts.planted_rules import PLANTED
from tests.service.protocol.parts.rules import Rules

SMALL = Size(1, 1, 1, units=2)
NIGHTLY = {
    Size(1, 2, 1, damages=False): 130_000,
    Size(1, 1, 2): 300_000,
    Size(1, 2, 1, units=2): 100_000,
    Size(2, 1, 1): 300_000,
}
"""To exhaustion, with at least this number of states."""
WHERE = {
    Size(1, 1, 1): None,
    Size(1, 1, 2, damages=False): 100_000,
    Size(1, 2, 1, damages=False): 40_000,
    Size(1, 1, 1, units=2): None,
}
"""Where planted faults are looked for: up to this many states, None all."""


@pytest.mark.timeout(600)
def test_no_reachable_state_breaks_an_invariant() -> None:
    """And from each the job can end."""
    explored = explore(SMALL, Rules(SMALL.units, damages=SMALL.damages))
    print(explored)
    assert explored.states >= 30_000


@pytest.mark.protocol
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("size", NIGHTLY, ids=str)
def test_no_state_of_larger_models_breaks_an_invariant(size: Size) -> None:
    explored = explore(size, Rules(size.units, damages=size.damages))
    print(explored)
    assert explored.states >= NIGHTLY[size]


@pytest.mark.protocol
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_planted_fault_is_found_in_the_model(planted: type[Rules]) -> None:
    """With the steps that lead there."""
    for size, limit in WHERE.items():
        try:
            explore(size, planted(size.units, damages=size.damages), limit)
        except Broken as broken:
            print(broken)
            return
    raise AssertionError("it was not found")
