"""Fair timing on a noisy machine: candidates take turns, and the median of CPU times counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def cpu_seconds(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each candidate over `rounds` alternating rounds, after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for round_number in range(rounds + 1):
        for name, run in candidates.items():
            start = time.process_time()
            run()
            elapsed = time.process_time() - start
            if round_number > 0:
                times[name].append(elapsed)
    return {name: statistics.median(values) for name, values in times.items()}
