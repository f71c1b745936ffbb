"""Randomness is a function of counters, so no generator is ever saved.

Every draw is determined by the seed, the pair, the epoch and its purpose.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

STREAMS = {"order": 0, "start": 1, "split": 2, "features": 3, "sizes": 4, "classes": 5}


def generator(
    purpose: Literal["order", "start", "split", "features", "sizes", "classes"],
    seed: int,
    pair: int = 0,
    epoch: int = 0,
) -> np.random.Generator:
    """A generator of its own for every combination of arguments; `seed` is 0 … 2⁶⁴ - 1."""
    key = np.array([seed, pair], dtype=np.uint64)
    counter = np.array([0, 0, STREAMS[purpose], epoch], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
