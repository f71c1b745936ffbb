"""The description of a chart: what it says, its axes, and its series of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from service.charts.palette import Role

Mark: TypeAlias = Literal["line", "marked", "steps", "dots", "squares", "bars", "area", "cells"]
Scaling: TypeAlias = Literal["linear", "log"]
ChartFormat: TypeAlias = Literal["svg", "csv"]
Values: TypeAlias = Sequence[float] | npt.NDArray[Any]

MEDIA_TYPES: dict[ChartFormat, str] = {"svg": "image/svg+xml", "csv": "text/csv; charset=utf-8"}
SHOWN_CLASSES = 10
"""More classes have no distinct colors."""
MOST_POINTS = 250
"""Points of a line that a chart can show."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What is measured, and how its values are placed and written."""

    label: str
    """The quantity, with its unit."""
    scale: Scaling = "linear"
    low: float | None = None
    """The end of the axis; None: that of the data."""
    high: float | None = None
    percent: bool = False
    """Values are shares, and are written as percentages."""
    names: Sequence[str] = ()
    """Names of the values 0, 1, …, which are written in place of numbers."""
    reverse: bool = False
    """From the top to the bottom, as the rows of a matrix."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one color. A point that is not finite is a gap in a line, and separates areas."""

    x: Values
    """(n,) or, of bars, the n + 1 edges of the bins; of cells, column numbers."""
    y: Values
    """(n,); bars of several series with the same edges are stacked."""
    name: str = ""
    """In the legend; empty: not in it."""
    color: int | Role = 0
    """The number of a class, or what the series is."""
    mark: Mark = "line"
    """`marked`: a line with its points, if they are few."""
    dashed: bool = False
    shades: Values = ()
    """Of cells: (n,) shares of the full color."""
    texts: Sequence[str] = ()
    """Of cells: what is written in them."""


@dataclass(frozen=True, slots=True)
class Guide:
    """A dashed line at one value, with a label."""

    value: float
    label: str = ""
    of: Literal["x", "y"] = "x"


@dataclass(frozen=True, slots=True)
class Panel:
    """Series on one pair of axes."""

    y: Axis
    series: Sequence[Series]
    guides: Sequence[Guide] = ()
    height: int = 210
    """Of the axes, of a chart that is 440 wide."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels below each other, with the same horizontal axis."""

    title: str
    caption: str
    """What there is to see."""
    x: Axis
    panels: Sequence[Panel] = field(default=())


def plain(text: str, most: int = 60) -> str:
    """Text from a caller: shortened, without characters that XML cannot contain."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def names_of(classes: Sequence[Any]) -> list[str]:
    """Labels for a legend."""
    return [plain(str(label), 24) for label in classes]


def thin_out(values: npt.NDArray[Any], most: int = MOST_POINTS) -> npt.NDArray[Any]:
    """At most `most` rows, evenly spread, with the first and the last."""
    if len(values) <= most:
        return values
    chosen = np.linspace(0, len(values) - 1, most).astype(np.int64)
    subset: npt.NDArray[Any] = values[chosen]
    return subset
