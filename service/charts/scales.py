"""From values to places on an axis, and its ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from service.charts.chart import Axis, plain

FARTHEST = 1e300
"""Values beyond it are drawn at it, so that differences are finite; on a logarithmic axis also
those below its reciprocal."""
TICKS = 5
MOST_NAMES = 20
LONGEST_NAME = 14
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis with its ends: `low` is drawn at `start`, `high` at `end`."""

    axis: Axis
    low: float
    """Of a logarithmic axis, its logarithm."""
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    """(value, text) of each."""

    def at(self, values: object) -> Array:
        """Places of values; not a number for those that have none."""
        known = np.asarray(values, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.axis.scale == "log":
                positive = np.where(known > 0.0, known, np.nan)
                known = np.log10(np.clip(positive, 1 / FARTHEST, FARTHEST))
            known = np.where(np.isfinite(known), known, np.nan)
            share = (np.clip(known, -FARTHEST, FARTHEST) - self.low) / (self.high - self.low)
        places: Array = self.start + np.clip(share, -1.0, 2.0) * (self.end - self.start)
        return places


def scale(
    axis: Axis, values: Array, start: float, end: float, *, whole: bool = False, room: float = 0.0
) -> Scale:
    """The axis for values (n,): from its first to its last tick if `whole`, and with some `room`, a
    share of its length, at both ends."""
    if axis.names:
        n = len(axis.names)
        every = -(-n // MOST_NAMES)
        ticks = tuple((float(k), plain(axis.names[k], LONGEST_NAME)) for k in range(0, n, every))
        ends = (n - 0.5, -0.5) if axis.reverse else (-0.5, n - 0.5)
        return Scale(axis, *ends, start, end, ticks)
    log = axis.scale == "log"
    known = values[np.isfinite(values) & ((values > 0.0) | (not log))]
    known = np.clip(known, 1 / FARTHEST if log else -FARTHEST, FARTHEST)
    given = [value for value in (axis.low, axis.high) if value is not None]
    empty = not len(known)
    if empty:
        known = np.array(given or [1.0])
    low = float(known.min()) if axis.low is None else axis.low
    high = float(known.max()) if axis.high is None else axis.high
    if log:
        low, high = math.log10(low), math.log10(high)
    if not high - low > max(1e-9 * max(abs(low), abs(high)), 1e-300):  # one value
        around = 0.5 if log else 0.5 * abs(low) or 0.5
        low, high = low - around, high + around
    elif room:
        around = room * (high - low)
        low = low if axis.low is not None else low - around
        high = high if axis.high is not None else high + around
    if empty and len(given) < 2:
        return Scale(axis, low, high, start, end, ())
    if log:
        if whole and high - low > 0.5:
            low, high = float(math.floor(low + 1e-9)), float(math.ceil(high - 1e-9))
        ticks = _powers(low, high, axis.percent)
        return Scale(axis, low, high, start, end, ticks)
    step = max(_step(high - low), 1.0 if axis.whole else 0.0)
    if whole:
        low = low if axis.low is not None else math.floor(low / step + 1e-9) * step
        high = high if axis.high is not None else math.ceil(high / step - 1e-9) * step
    return Scale(axis, low, high, start, end, _steps(low, high, step, axis.percent))


def _step(span: float) -> float:
    """Of 1, 2 or 5 times a power of ten: about `TICKS` of them are in the span."""
    power: float = 10.0 ** math.floor(math.log10(span / TICKS))
    return next(power * k for k in (1, 2, 5, 10) if power * k >= span / TICKS * 0.999)


def _steps(low: float, high: float, step: float, percent: bool) -> tuple[tuple[float, str], ...]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last - first > 50:  # the step is below the digits of the values
        first, last, step = 0, 1, high
    values = [k * step for k in range(first, last + 1)]
    shown = step * (100.0 if percent else 1.0)
    digits = max(0, -math.floor(math.log10(abs(shown)) + 1e-9))
    return tuple((value, text(value, digits, percent)) for value in values)


def _powers(low: float, high: float, percent: bool) -> tuple[tuple[float, str], ...]:
    """Ticks at powers of ten only; if they are fewer than two, at twice and five times these."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if last - first >= 1:
        stride = next(
            k * 10**p
            for p in range(4)
            for k in (1, 2, 5)
            if last - first <= (TICKS + 1) * k * 10**p
        )
        powers = range(-(-first // stride) * stride, last + 1, stride)
        return tuple((10.0**power, text(10.0**power, None, percent)) for power in powers)
    values = [k * 10.0**power for power in range(first - 1, last + 2) for k in (1, 2, 5)]
    inside = [value for value in values if low - 1e-9 <= math.log10(value) <= high + 1e-9]
    if len(inside) < 2:
        inside = [10.0**low, 10.0**high]
    return tuple((value, text(value, None, percent)) for value in inside)


def text(value: float, digits: int | None = None, percent: bool = False) -> str:
    """A value as people write it: with `digits` behind the point, else with three figures."""
    shown = value * 100.0 if percent else value
    unit = " %" if percent else ""
    if shown == 0.0:
        return f"0{unit}"
    if 1e-4 <= abs(shown) < 1e6 and (digits is None or digits <= 6):
        written = f"{shown:,.{digits}f}" if digits is not None else _short(shown)
        return f"{written}{unit}".replace("-", "−")
    power = math.floor(math.log10(abs(shown)) + 1e-9)
    factor = f"{shown / 10.0**power:.3g}"
    exponent = f"10{str(power).translate(_SUPERSCRIPTS)}{unit}"
    sign = "−" if shown < 0 else ""
    factor = factor.lstrip("-")
    return f"{sign}{exponent}" if factor == "1" else f"{sign}{factor}·{exponent}"


def _short(value: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"
