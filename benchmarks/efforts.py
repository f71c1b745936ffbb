"""How much effort a peer needs for a given cost: found by trying, before it is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.solver_cases import Case
from svm.data.matrices import Vector

MOST_EFFORT = 1 << 20
REFINEMENTS = 4
"""Halvings of the last doubling of a peer's effort: it is overrated by a sixteenth at most."""


def cost(case: Case, w: Vector) -> float:
    """λ/2 ‖w‖² + (1/n) Σ hinge, from its definition: the same for everyone's weights."""
    losses = np.maximum(0.0, 1.0 - case.labels * (case.X @ w))
    return 0.5 * float(w @ w) / (len(losses) * case.C) + float(losses.mean())


class Ladder:
    """What a peer reaches with an effort and one seed, tried once each."""

    def __init__(self, case: Case, fit: Callable[[int], Vector], budget: float) -> None:
        self._case, self._fit, self._budget = case, fit, budget
        self._tried: dict[int, tuple[float, bool]] = {}

    def tried(self, effort: int) -> tuple[float, bool]:
        """(The primal value after that effort, whether it took no longer than the budget.)"""
        if effort not in self._tried:
            start = time.process_time()
            w = self._fit(effort)
            within = time.process_time() - start <= self._budget
            self._tried[effort] = cost(self._case, w), within
        return self._tried[effort]

    def least(self, target: float) -> tuple[int | None, str]:
        """The least effort found whose primal value is at most `target`, and a note on it."""
        effort = 1
        while self.tried(effort)[0] > target:
            if not self.tried(effort)[1] or effort > MOST_EFFORT:
                nearest = min(value for value, _ in self._tried.values())
                return None, f"> {self._budget:.0f} s, {nearest / target - 1.0:+.1%} too high"
            effort *= 2
        low, high = effort // 2, effort
        for _ in range(REFINEMENTS):
            middle = (low + high) // 2
            if middle not in (low, high):
                low, high = (low, middle) if self.tried(middle)[0] <= target else (middle, high)
        return high, ""


def efforts_to(ladders: Sequence[Ladder], target: float) -> tuple[list[int], str]:
    """The least effort found for each seed, none if one of them needs too long; and a note."""
    efforts = []
    for ladder in ladders:
        effort, note = ladder.least(target)
        if effort is None:
            return [], note
        efforts.append(effort)
    return efforts, "effort " + " ".join(map(str, efforts))
