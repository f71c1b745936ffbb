"""Charts: a description (`chart`), which is drawn as SVG (`svg`) and written as CSV (`points`)."""

from service.charts import points, svg
from service.charts.chart import Chart, ChartFormat


def write(chart: Chart, format: ChartFormat) -> str:
    """The chart as a file."""
    return svg.write(chart, page=False) if format == "svg" else points.write(chart)
