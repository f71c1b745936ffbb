"""A chart as SVG: the same bytes every time, as a part of a page or as a file.

In a page, colors are variables of its style sheet. In a file they are attributes, which a rule
replaces in dark mode: a program that knows no rules shows them as they are. Texts are larger where
the picture is narrow; there is room for these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from service.charts.chart import Chart, Panel, Series, length, plain
from service.charts.palette import DARK_STYLE, FONT, Role, paint
from service.charts.scales import Array, Scale, scale

WIDTH = 440
TEXT = 11.5
LINE = 17
"""Height of a line of text."""
TOP = 24
"""Room above a panel, for the label of its vertical axis."""
WIDE = 7.2
"""Room for a character, also of the larger text."""
MOST_BESIDE = 5
"""More series have a legend below the chart, and not labels at the ends of their lines."""
LONGEST_BESIDE = 15
LONGEST = 40
MOST_IN_LEGEND = 12
MARKERS = 60
"""Lines of more points have no markers."""
SHADES = 8
NUMBERED = 24
"""Narrower cells have no text."""
TINT = 0.22
NARROW = "<style>@media (max-width: 400px) { text { font-size: 14px } }</style>"


def write(chart: Chart, *, page: bool) -> str:
    """The chart as a part of a page, or as a file with its title, on a background of its own."""
    return _Writer(page).chart(chart)


Mask = npt.NDArray[np.bool_]


class _Writer:
    def __init__(self, page: bool) -> None:
        self._page = page

    def _paint(self, attribute: str, color: int | Role) -> str:
        return f'{attribute}="{paint(color, page=self._page)}"'

    def _text(self, x: float, y: float, text: str, role: Role = "ink", anchor: str = "") -> str:
        fill = f" {self._paint('fill', role)}" if role != "ink" else ""
        anchored = f' text-anchor="{anchor}"' if anchor else ""
        return f'<text x="{_n(x)}" y="{_n(y)}"{anchored}{fill}>{escape(text)}</text>'

    def _key(self, series: Series, x: float, y: float) -> str:
        """The name of a series, behind a line of its color."""
        stroke = self._paint("stroke", series.color)
        name = self._text(x + 16, y, plain(series.name, LONGEST))
        return f'<path d="M{_n(x)} {_n(y - 4)}h11" {stroke} stroke-width="3.5"/>{name}'

    def chart(self, chart: Chart) -> str:
        title = plain(chart.title, 160)
        named = [one for panel in chart.panels for one in panel.series if one.name]
        beside = all(_fit_beside(panel) for panel in chart.panels)
        right = 22.0
        if beside and named:
            right = 24 + WIDE * max(length(one.name) for one in named)
        lines = [] if self._page else _wrapped(title)
        top = 8.0 + LINE * len(lines)
        parts = [
            f'<g font-size="13">{self._text(12, 8 + LINE * (k + 0.6), line)}</g>'
            for k, line in enumerate(lines)
        ]
        ups, bottoms = [], []
        for panel in chart.panels:
            top += TOP
            bottoms.append((top, top + panel.height))
            ups.append(_up(panel, top + panel.height, top))
            top += panel.height + 10
        left = 14 + WIDE * max([2.0, *(length(text) for up in ups for _, text in up.ticks)])
        across = scale(chart.x, _values(chart.panels, "x"), left, WIDTH - right, room=_room(chart))
        for panel, up, (high, low) in zip(chart.panels, ups, bottoms, strict=True):
            parts += self._panel(panel, across, up, high, low)
            if beside:
                parts += self._beside(panel, up, WIDTH - right)
        # Names that do not fit beside each other are turned.
        widths = [WIDE * length(text) for _, text in across.ticks]
        turned = bool(chart.x.names) and sum(widths) + 6 * len(widths) > across.end - across.start
        parts.append(self._across(across, bottoms[-1][1], turned))
        top += (max(widths) if turned else LINE) + LINE
        middle = (left + WIDTH - right) / 2
        parts.append(self._text(middle, top - 4, plain(chart.x.label), "soft", "middle"))
        if named and not beside:
            legend, top = self._legend(named, left, top + LINE)
            parts += legend
        height = _n(top + 8)
        own = 'class="graph"'
        if not self._page:
            own = f'width="{WIDTH}" height="{height}" font-family="{FONT}"'
            back = f'<rect width="{WIDTH}" height="{height}" {self._paint("fill", "card")}/>'
            parts = [NARROW, DARK_STYLE, back, *parts]
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'{own} font-size="{TEXT}" {self._paint("fill", "ink")}'
        )
        desc = escape(plain(chart.caption, 10_000))
        about = f"<title>{escape(title)}</title><desc>{desc}</desc>"
        return "\n".join([f"{opening}>", about, *parts, "</svg>"]) + "\n"

    def _panel(
        self, panel: Panel, across: Scale, up: Scale, high: float, low: float
    ) -> Iterator[str]:
        """The grid, the series, and the labels of the vertical axis."""
        left, right = across.start, across.end
        label = plain(panel.y.label)
        yield self._text(left, high - 9, label, "soft")
        shaded = any(one.mark in ("area", "cells") for one in panel.series)
        grid, labels = [], []
        for value, text in up.ticks:
            y = float(up.at(value))
            if not shaded:
                grid.append(f"M{_n(left)} {_n(y)}H{_n(right)}")
            labels.append(self._text(left - 6, y + 4, text))
        yield self._labels(labels, "end")
        if not shaded:
            places = across.at([value for value, _ in across.ticks])
            grid += [f"M{_n(x)} {_n(high)}V{_n(low)}" for x in places.tolist()]
        else:
            grid.append(f"M{_n(left)} {_n(high)}H{_n(right)}V{_n(low)}H{_n(left)}z")
        yield f'<path d="{"".join(grid)}" fill="none" {self._paint("stroke", "line")}/>'
        yield (
            f'<svg x="{_n(left - 4)}" y="{_n(high - 4)}" width="{_n(right - left + 8)}" '
            f'height="{_n(low - high + 8)}" '
            f'viewBox="{_n(left - 4)} {_n(high - 4)} {_n(right - left + 8)} {_n(low - high + 8)}"'
            f"{self._ends('x', across)}{self._ends('y', up)}>"
        )  # which cuts off what is outside
        stacked = np.zeros(0)
        for one in panel.series:
            if one.mark == "bars":
                heights = np.asarray(one.y, dtype=np.float64)
                below = stacked if len(stacked) == len(heights) else np.zeros(len(heights))
                stacked = below + heights
                yield self._bars(one, across.at(one.x), up.at(below), up.at(stacked))
            elif one.mark == "cells":
                yield from self._cells(one, across, up)
            else:
                yield from self._line(
                    one, across.at(one.x), up.at(one.y), one.name or panel.y.label
                )
        yield "</svg>"
        if not any(len(one.x) for one in panel.series):
            middle = (left + right) / 2, (high + low) / 2
            yield self._text(*middle, "no points yet", "soft", "middle")
        until = left + WIDE * length(label)
        for guide in panel.guides:
            x = float(across.at(guide.value))
            yield (
                f'<path d="M{_n(x)} {_n(high - 6)}V{_n(low)}" {self._paint("stroke", "ink")} '
                f'stroke-width=".8" stroke-dasharray="4 3"/>'
            )
            shown = plain(guide.label)
            room = WIDE * length(shown) / 2
            if until < x - room and x + room < WIDTH:  # else it covers another one
                until = x + room
                yield self._text(x, high - 9, shown, "soft", "middle")

    def _labels(self, labels: Sequence[str], anchor: str) -> str:
        return f'<g text-anchor="{anchor}" {self._paint("fill", "soft")}>{"".join(labels)}</g>'

    def _ends(self, name: str, shown: Scale) -> str:
        """For a script of a page, which reads values: the axis with its ends and their places."""
        if not self._page:
            return ""
        ends = f"{shown.low:.6g} {shown.high:.6g} {_n(shown.start)} {_n(shown.end)}"
        return f' data-{name}="{shown.axis.scale} {"%" * shown.axis.percent} {ends}"'

    def _line(self, series: Series, x: Array, y: Array, name: str) -> Iterator[str]:
        points = np.stack([x, y], axis=1)
        stroke = self._paint("stroke", series.color)
        known = _finite(*points.T)
        if series.mark == "area":
            fill = self._paint("fill", series.color)
            yield f'<path d="{_path(points, known, "z")}" {fill} fill-opacity="{TINT}"/>'
            return
        if series.mark in ("line", "marked", "steps"):
            faint = series.color == "faint"
            if series.mark == "steps":
                points = np.repeat(points, 2, axis=0)
                points = np.stack([points[1:, 0], points[:-1, 1]], axis=1)
                known = _finite(*points.T)
            dash = ' stroke-dasharray="5 3"' if series.dashed else ""
            if self._page and not faint:
                dash += f' data-name="{escape(plain(name, LONGEST))}"'
            yield (
                f'<path d="{_path(points, known)}" fill="none" {stroke} '
                f'stroke-width="{0.8 if faint else 2 if series.name or not series.dashed else 1}"'
                f' stroke-linejoin="round"{dash}/>'
            )
            n = int(known.sum())
            if n != 1 and (series.mark != "marked" or n > MARKERS):
                return
        # Each dot is a line of length 0, so that only its caps are visible.
        dots = "".join(f"M{_n(a)} {_n(b)}h0" for a, b in np.stack([x, y], 1)[_finite(x, y)])
        if not dots:
            return
        square, many = series.mark == "squares", len(x) > 5 * MARKERS
        cap = "square" if square else "round"
        width = 4.0 if many else 4.4 if square else 5.5
        if series.mark in ("dots", "squares"):
            back = self._paint("stroke", "card")
            yield f'<path d="{dots}" {back} stroke-width="{width + 1.4:g}" stroke-linecap="{cap}"/>'
        yield f'<path d="{dots}" {stroke} stroke-width="{width:g}" stroke-linecap="{cap}"/>'

    def _bars(self, series: Series, x: Array, bottom: Array, top: Array) -> str:
        parts = [
            f"M{_n(left)} {_n(low)}V{_n(high)}H{_n(max(left + 0.4, right - 0.6))}V{_n(low)}z"
            for left, right, low, high in zip(x[:-1], x[1:], bottom, top, strict=True)
            if low - high > 0.04
        ]
        return f'<path d="{"".join(parts)}" {self._paint("fill", series.color)}/>'

    def _cells(self, series: Series, across: Scale, up: Scale) -> Iterator[str]:
        """One path for each shade, cells of a row joined; empty ones are left white."""
        columns, rows = len(across.axis.names), len(up.axis.names)
        shades = np.zeros((rows, columns + 2), dtype=np.int64)
        x, y = np.asarray(series.x, dtype=int), np.asarray(series.y, dtype=int)
        shades[y, x + 1] = np.ceil(np.asarray(series.shades) * SHADES)
        wide, high = (across.end - across.start) / columns, abs(up.end - up.start) / rows
        begin = min(up.start, up.end)
        yield (
            f'<g transform="translate({_n(across.start)} {_n(begin)}) '
            f'scale({wide:.3f} {high:.3f})" {self._paint("fill", series.color)}>'
        )
        for shade in range(1, SHADES + 1):
            edges = np.diff((shades == shade).astype(np.int8), axis=1)
            starts, ends = np.argwhere(edges > 0), np.argwhere(edges < 0)
            path = "".join(
                f"M{j} {i}h{end - j}v1h{j - end}z"
                for (i, j), end in zip(starts.tolist(), ends[:, 1].tolist(), strict=True)
            )
            if path:
                yield f'<path d="{path}" fill-opacity="{shade / SHADES:g}"/>'
        yield "</g>"
        if wide < NUMBERED:
            return
        for a, b, text, share in zip(
            across.at(x).tolist(), up.at(y).tolist(), series.texts, series.shades, strict=False
        ):
            role: Role = "card" if share > 0.55 else "ink" if share > 0 else "faint"
            yield self._text(a, b + 4, plain(text, 12), role, "middle")

    def _across(self, across: Scale, low: float, turned: bool) -> str:
        """The labels below the panels."""
        labels, until = [], -1e9
        for value, text in across.ticks:
            x = float(across.at(value))
            room = WIDE * length(text) / 2
            if turned:
                labels.append(
                    f'<text transform="translate({_n(x + 4)} {_n(low + 8)}) rotate(-90)" '
                    f'text-anchor="end">{escape(text)}</text>'
                )
            elif x - room > until:
                # A label at the end of the axis stays inside the picture.
                labels.append(self._text(min(x, WIDTH - 1 - room), low + 18, text))
                until = x + room + 4
        return self._labels(labels, "middle")

    def _beside(self, panel: Panel, up: Scale, x: float) -> Iterator[str]:
        """Labels at the ends of the lines."""
        for one, y in zip(*_places(panel, up), strict=True):
            yield self._key(one, x + 5, y + 4)

    def _legend(self, named: Sequence[Series], left: float, top: float) -> tuple[list[str], float]:
        parts, x = [], left
        seen = list({(one.name, one.color): one for one in named}.values())
        rest = len(seen) - MOST_IN_LEGEND
        for one in seen[:MOST_IN_LEGEND]:
            width = 30 + WIDE * length(plain(one.name, LONGEST))
            if x > left and x + width > WIDTH:
                x, top = left, top + LINE
            parts.append(self._key(one, x, top))
            x += width
        if rest > 0:
            top += LINE
            parts.append(self._text(left, top, f"and {rest} more"))
        return parts, top


def _up(panel: Panel, start: float, end: float) -> Scale:
    values = _values([panel], "y")
    if any(one.mark == "bars" for one in panel.series):
        values = np.append(values, 0.0)
    return scale(panel.y, values, start, end, whole=True)


def _values(panels: Sequence[Panel], which: str) -> Array:
    """All values of a direction; of stacked bars, their sums."""
    parts = [np.zeros(0)]
    for panel in panels:
        stacked = np.zeros(0)
        for one in panel.series:
            values = np.asarray(getattr(one, which), dtype=np.float64)
            if one.mark == "bars" and which == "y":
                stacked = values + (stacked if len(stacked) == len(values) else 0.0)
                values = stacked
            parts.append(values)
    return np.concatenate(parts)


def _room(chart: Chart) -> float:
    """Dots at the ends of the axis are drawn whole."""
    marks = {one.mark for panel in chart.panels for one in panel.series}
    return 0.03 if marks & {"dots", "marked"} else 0.0


def _fit_beside(panel: Panel) -> bool:
    """Whether the names of the series fit at the ends of their lines."""
    named = [one for one in panel.series if one.name]
    return len(named) <= MOST_BESIDE and all(
        one.mark in ("line", "marked", "steps") and length(one.name) <= LONGEST_BESIDE
        for one in named
    )


def _places(panel: Panel, up: Scale) -> tuple[list[Series], list[float]]:
    """The named series from top to bottom, and where their labels are: at the ends of the lines,
    but a line of text from each other."""
    ends = []
    for k, one in enumerate(panel.series):
        known = up.at(one.y)
        known = known[np.isfinite(known)]
        if one.name and len(known):
            ends.append((float(known[-1]), k))
    ends.sort()
    high, low = min(up.start, up.end), max(up.start, up.end)
    places: list[float] = []
    for y, _ in ends:
        places.append(max(min(y, low), high + 4, places[-1] + LINE if places else high + 4))
    for k in range(len(places) - 1, -1, -1):
        most = low if k == len(places) - 1 else places[k + 1] - LINE
        places[k] = min(places[k], most)
    return [panel.series[k] for _, k in ends], places


def _path(points: Array, known: Mask, closed: str = "") -> str:
    """Lines through the points, each part that gaps separate by itself."""
    parts = []
    cuts = np.flatnonzero(~known)
    for part in np.split(points, cuts):
        part = part[np.isfinite(part).all(axis=1)]
        if len(part):
            part = _simplified(part)
            parts.append("M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in part.tolist()) + closed)
    return "".join(parts)


def _simplified(points: Array) -> Array:
    """Without every second point that is within a tenth of a unit of the line through its
    neighbors, as long as there are any."""
    while len(points) > 4:
        before, at, after = points[:-2:2], points[1:-1:2], points[2::2]
        n = min(len(before), len(at), len(after))
        before, at, after = before[:n], at[:n], after[:n]
        along = after - before
        length = np.hypot(along[:, 0], along[:, 1])
        cross = along[:, 0] * (at - before)[:, 1] - along[:, 1] * (at - before)[:, 0]
        dot = (along * (at - before)).sum(axis=1)
        flat = (np.abs(cross) <= 0.1 * length) & (dot >= 0) & (dot <= length**2) & (length > 0)
        if not flat.any():
            break
        keep = np.ones(len(points), dtype=bool)
        keep[1 : 2 * n : 2] = ~flat
        points = points[keep]
    return points


def _finite(x: Array, y: Array) -> Mask:
    finite: Mask = np.isfinite(x) & np.isfinite(y)
    return finite


def _n(value: float) -> str:
    """At most one digit behind the point."""
    return f"{value:.1f}".removesuffix(".0").replace("-0.0", "0")


def _wrapped(title: str) -> list[str]:
    """A title in lines that fit."""
    most = 58
    if length(title) <= most:
        return [title]
    return [title[:most], plain(title[most:], most)]
