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
