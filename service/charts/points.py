"""The points of a chart as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator

from service.charts.chart import Axis, Chart, Series


def write(chart: Chart) -> str:
    """A row for each point, or for each bar with both of its edges. The line of a series has its
    name, or that of the vertical axis. Areas, which are shapes and not data, are left out."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    bars = any(one.mark == "bars" for panel in chart.panels for one in panel.series)
    edges = [f"{chart.x.label} from", "to"] if bars else [chart.x.label]
    single = len(chart.panels) == 1
    rows.writerow(["series", *edges, chart.panels[0].y.label if single else "value"])
    for panel in chart.panels:
        for one in panel.series:
            if one.mark == "area":
                continue
            name = one.name or panel.y.label
            rows.writerows([name, *point] for point in _points(one, chart.x, panel.y, bars))
    return file.getvalue()


def _points(series: Series, x: Axis, y: Axis, bars: bool) -> Iterator[list[str]]:
    if series.mark == "bars":
        for left, right, value in zip(series.x[:-1], series.x[1:], series.y, strict=True):
            yield [_cell(left, x), _cell(right, x), _cell(value, y)]
        return
    values = series.texts if series.mark == "cells" and series.texts else None
    for k, (across, up) in enumerate(zip(series.x, series.y, strict=True)):
        row = [_cell(across, x), *([""] if bars else []), _cell(up, y)]
        yield [*row, values[k]] if values else row


def _cell(value: float, axis: Axis) -> str:
    number = float(value)
    if axis.names and number.is_integer() and 0 <= number < len(axis.names):
        return axis.names[int(number)]
    return "" if not math.isfinite(number) else repr(number).removesuffix(".0")
