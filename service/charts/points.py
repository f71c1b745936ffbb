"""The points of a chart as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator

from service.charts.chart import Axis, Chart, Series
from service.common.csv_text import csv_text


def write(chart: Chart) -> str:
    """A row for each point, or for each bar with both of its edges, or for each cell of a matrix,
    whose text is a number of rows. The line of a series has its name, or that of the vertical axis.
    Areas and dashed lines without a name are not data and are left out."""
    return csv_text(list(_rows(chart))).decode()


def _rows(chart: Chart) -> Iterator[list[str]]:
    bars = any(one.mark == "bars" for panel in chart.panels for one in panel.series)
    edges = [f"{chart.x.label} from", "to"] if bars else [chart.x.label]
    single = len(chart.panels) == 1
    if chart.panels[0].series[:1] and chart.panels[0].series[0].mark == "cells":
        [panel] = chart.panels
        yield [panel.y.label, chart.x.label, "rows"]
        for one in panel.series:
            for x, y, text in zip(one.x, one.y, one.texts, strict=True):
                yield [_cell(y, panel.y), _cell(x, chart.x), text.replace(",", "")]
        return
    yield ["series", *edges, chart.panels[0].y.label if single else "value"]
    for panel in chart.panels:
        for one in panel.series:
            if one.mark == "area" or (one.dashed and not one.name):
                continue
            name = one.name or panel.y.label
            yield from ([name, *point] for point in _points(one, chart.x, panel.y, bars))


def _points(series: Series, x: Axis, y: Axis, bars: bool) -> Iterator[list[str]]:
    if series.mark == "bars":
        for left, right, value in zip(series.x[:-1], series.x[1:], series.y, strict=True):
            yield [_cell(left, x), _cell(right, x), _cell(value, y)]
        return
    for across, up in zip(series.x, series.y, strict=True):
        yield [_cell(across, x), *([""] if bars else []), _cell(up, y)]


def _cell(value: float, axis: Axis) -> str:
    number = float(value)
    if axis.names and number.is_integer() and 0 <= number < len(axis.names):
        return axis.names[int(number)]
    return "" if not math.isfinite(number) else repr(number).removesuffix(".0")
