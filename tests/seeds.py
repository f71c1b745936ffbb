"""Seeds of random tests: another one in each run, and any run can be repeated."""

from __future__ import annotations

import os
import random


def seed_from(variable: str) -> int:
    """The seed in this environment variable, or a random one; printed, for a failure to show."""
    given = os.environ.get(variable)
    seed = random.SystemRandom().randrange(2**32) if given is None else int(given)
    print(f"repeat with {variable}={seed}", flush=True)
    return seed


def seeds_of_schedules(count: int) -> range:
    """As many from TORTURE_SEED on; or that in PROTOCOL_SEED alone, to repeat one schedule."""
    if (given := os.environ.get("PROTOCOL_SEED")) is not None:
        return range(int(given), int(given) + 1)
    first = seed_from("TORTURE_SEED")
    return range(first, first + count)
