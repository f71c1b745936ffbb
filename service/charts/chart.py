"""The description of a chart: what it says, its axes, and its series of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from unicodedata import east_asian_width

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
    whole: bool = False
    """Of whole numbers, which have no ticks between them."""
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
    """A dashed vertical line at one value, with a label above it."""

    value: float
    label: str


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
    """Text from a caller: without characters that XML cannot contain, and shortened in its middle,
    since names often differ at their ends."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if length(shown) <= most:
        return shown
    begin, end = shown[:most], shown[-most:]
    while length(begin) > most - most // 3 - 1:
        begin = begin[:-1]
    while length(end) > most // 3:
        end = end[1:]
    return f"{begin.rstrip()}…{end.lstrip()}"


def length(text: str) -> float:
    """In characters; wide ones count as two."""
    return sum(2.0 if east_asian_width(c) in "WF" else 1.0 for c in text)


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
