"""The time that a training still needs, from how its gap falls and its epochs become slower."""

from __future__ import annotations

import math

from svm.stopping import Stopping
from svm.training.curve import Progress

SPACING = math.log(1.3)
"""Of the times of two points that are compared: closer ones are noise."""

LONGEST = math.log(1000.0)
"""Forecasts of a thousand times the time so far say nothing."""


class Forecast:
    """Gap and epoch are powers of the time between two points. The gap of a stochastic solver stays
    on one power; that of a fast one falls by ever higher powers, which a third point shows."""

    def __init__(self, stopping: Stopping) -> None:
        resolved = stopping.resolve()
        self._gap, self._epochs = resolved.duality_gap, resolved.max_epochs
        self._points: list[tuple[float, float, float]] = []
        self._end_s: float | None = None

    def after(self, progress: Progress, elapsed_s: float) -> float | None:
        """Seconds to the end, from progress after `elapsed_s` seconds of training; None if there is
        no forecast."""
        if progress.evaluation is not None:
            self.add(elapsed_s, progress.relative_gap, progress.epoch)
        return self.left(elapsed_s)

    def left(self, elapsed_s: float) -> float | None:
        """Seconds to the end that was forecast; None if there is none, or if it has passed."""
        if self._end_s is None or elapsed_s > self._end_s:
            return None
        return self._end_s - elapsed_s

    def add(self, elapsed_s: float, gap: float | None, epoch: int) -> None:
        """A new evaluation, after `elapsed_s` seconds of training."""
        if gap is not None and gap > 0.0 and elapsed_s > 0.0 and epoch > 0:
            growth = self._growth(elapsed_s, gap, epoch)
            self._end_s = None if growth > LONGEST else elapsed_s * math.exp(growth)

    def _growth(self, elapsed_s: float, gap: float, epoch: int) -> float:
        """The logarithm of the factor from now to the end; infinite before there are two points."""
        if self._gap is not None and gap <= self._gap:
            return 0.0
        now = math.log(elapsed_s), math.log(gap), math.log(epoch)
        kept = [point for point in self._points if now[0] - point[0] >= SPACING][-2:]
        if not self._points or now[0] - self._points[-1][0] >= SPACING:
            self._points = [*self._points[-2:], now]
        if not kept:
            return math.inf
        growth = [math.inf]
        fall = _slope(kept[-1], now, 1)
        if self._gap is not None and fall < 0.0:
            faster = 0.0
            if len(kept) == 2 and (before := _slope(kept[0], kept[1], 1)) < 0.0:
                faster = 2.0 * math.log(fall / before) / (now[0] - kept[0][0])
            growth.append(_time_to(now[1] - math.log(self._gap), -fall, min(max(faster, 0.0), 1.0)))
        rise = _slope(kept[-1], now, 2)
        if self._epochs is not None and rise > 0.0:
            growth.append(max(0.0, math.log(self._epochs) - now[2]) / rise)
        return min(growth)


def _slope(before: tuple[float, ...], after: tuple[float, ...], k: int) -> float:
    return (after[k] - before[k]) / (after[0] - before[0])


def _time_to(distance: float, power: float, faster: float) -> float:
    """The logarithm of the factor in time after which ln gap has fallen by `distance`, if the power
    grows like t^faster."""
    if faster < 1e-3:
        return distance / power
    return math.log1p(faster * distance / power) / faster
