"""Training time against the size of the data, or against support vectors: a small SVG.

The time is that of the processor: it does not depend on what else the machine does.
Both axes are logarithmic: a time that grows as a power of the size is a straight line. Written by
hand, since the process that answers requests does not import matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal, TypeAlias

from service.errors import NotFound
from service.models.plots.palette import CARD, COLORS, DARK_STYLE, FONT, INK, LINE

SizePlot: TypeAlias = Literal["time-by-rows", "time-by-columns", "time-by-support-vectors"]

_AXIS: dict[SizePlot, tuple[str, str]] = {
    "time-by-rows": ("rows", "training rows"),
    "time-by-columns": ("columns", "features"),
    "time-by-support-vectors": ("n_support_vectors", "support vectors"),
}
WIDTH, HEIGHT = 520, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 30, 46
MOST_LINES = 8
LEGEND = 15

Points = list[tuple[float, float]]


def plot(kind: SizePlot, entries: Sequence[Mapping[str, Any]]) -> str:
    """A picture of the entries that have finished, at most eight kinds of them. Raises NotFound
    (`plot-unavailable`)."""
    field, label = _AXIS[kind]
    lines: dict[str, Points] = {}
    for entry in sorted(entries, key=lambda entry: int(entry["number"])):
        x, y = entry[field], entry["cpu_s"]
        if entry["rank"] is not None and x and y:
            lines.setdefault(_title(entry["spec"]), []).append((float(x), float(y)))
    shown = dict(list(lines.items())[:MOST_LINES])
    if not shown:
        detail = f"no entry that has finished has a count of {label}; see `sizes`"
        raise NotFound("plot-unavailable", detail)
    points = [point for line in shown.values() for point in line]
    across = _Axis.of([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = _Axis.of([y for _, y in points], HEIGHT - BOTTOM, TOP)
    bottom = HEIGHT + LEGEND * len(shown)
    title = f"Training time by {label}"
    description = (
        f"Seconds of processor time of training against {label}, both logarithmic. "
        + "; ".join(
            f"{name}: " + ", ".join(f"{y:.3g} s at {x:,.0f}" for x, y in sorted(line))
            for name, line in shown.items()
        )
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom}" '
            f'width="{WIDTH}" height="{bottom}" role="img" font-family="{FONT}" '
            f'font-size="11" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            DARK_STYLE,
            f'<rect width="{WIDTH}" height="{bottom}" fill="{CARD}"/>',
            f'<text x="{LEFT}" y="18" font-size="13">{escape(title)}</text>',
            *(
                f'<path d="M{across.at(x):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{LINE}"/>'
                f'<text x="{across.at(x):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">'
                f"{x:,.7g}</text>"
                for x in across.ticks
            ),
            *(
                f'<path d="M{LEFT} {up.at(y):.1f}H{WIDTH - RIGHT}" stroke="{LINE}"/>'
                f'<text x="{LEFT - 6}" y="{up.at(y) + 4:.1f}" text-anchor="end">{y:.7g}</text>'
                for y in up.ticks
            ),
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
            f"{label}</text>",
            f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" '
            f'transform="rotate(-90 14 {HEIGHT / 2})">seconds of processor time</text>',
            *(
                _line(k, name, sorted(line), across, up)
                for k, (name, line) in enumerate(shown.items())
            ),
            "</svg>\n",
        ]
    )


def _line(k: int, name: str, points: Points, across: _Axis, up: _Axis) -> str:
    color = COLORS[k]
    places = [f"{across.at(x):.1f} {up.at(y):.1f}" for x, y in points]
    dots = "".join(
        f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>' for x, y in map(str.split, places)
    )
    y = HEIGHT + LEGEND * k
    return (
        f'<path d="M{"L".join(places)}" fill="none" stroke="{color}" stroke-width="2"/>{dots}'
        f'<path d="M{LEFT} {y - 4}h22" stroke="{color}" stroke-width="3"/>'
        f'<text x="{LEFT + 30}" y="{y}">{escape(name)}</text>'
    )


class _Axis:
    """From values to places on a logarithmic axis."""

    def __init__(self, least: float, most: float, start: float, end: float) -> None:
        self._least, self._most, self._start, self._end = least, most, start, end

    @classmethod
    def of(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        """Wide enough for the values, with some room."""
        return cls(math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1, start, end)

    def at(self, value: float) -> float:
        share = (math.log10(value) - self._least) / (self._most - self._least)
        return self._start + share * (self._end - self._start)

    @property
    def ticks(self) -> list[float]:
        """Powers of ten; if they are few, twice and five times these, too."""
        powers = range(math.floor(self._least), math.ceil(self._most) + 1)
        steps = (1, 2, 5) if self._most - self._least < 2.5 else (1,)
        values = [step * 10.0**power for power in powers for step in steps]
        return [v for v in values if self._least <= math.log10(v) <= self._most]


def _title(spec: Mapping[str, Any]) -> str:
    """The solver and its regularization, and the features if there are any."""
    solver, features = spec["solver"], spec["features"]["name"]
    strength = next((f", {n} = {solver[n]:g}" for n in ("lambda", "C") if solver.get(n)), "")
    kernel = (solver.get("kernel") or {}).get("name")
    parts = [f", {kernel}" if kernel else "", "" if features == "identity" else f", {features}"]
    return f"{solver['name']}{strength}{''.join(parts)}"
