"""Plots of a model version, as SVG and CSV, made by the process that renders files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from service.charts.chart import Chart, ChartFormat, plain
from service.errors import NotFound
from service.storage.database.tables import ModelVersion

PlotKind: TypeAlias = Literal[
    "boundary",
    "learning-curve",
    "cost-by-epoch",
    "cost-by-update",
    "cost-by-time",
    "confusion",
    "roc",
    "margins",
    "reliability",
    "none-of-these",
    "predicted-against-actual",
    "residuals",
]
ONLY_OF: Mapping[PlotKind, Literal["classes", "numbers"]] = {
    "boundary": "classes",
    "confusion": "classes",
    "roc": "classes",
    "margins": "classes",
    "reliability": "classes",
    "none-of-these": "classes",
    "predicted-against-actual": "numbers",
    "residuals": "numbers",
}
"""What a version must predict to have the plot; any version can have the others."""
STYLE_VERSION = 4
"""Increase it when plots change: stored files are then rendered again."""


def file_name(kind: PlotKind, format: ChartFormat = "svg") -> str:
    """The name under which the plot is stored."""
    return f"plots-{STYLE_VERSION}/{kind}.{format}"


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart, and the dataset whose data it shows."""

    chart: Chart
    dataset_id: str | None = None


def title(version: ModelVersion, what: str) -> str:
    """Of `what` of the version."""
    return plain(f"{what} of {version.model_name} version {version.version}", 160)


def unavailable(why: str) -> NotFound:
    """The error for a plot that is not possible."""
    return NotFound("plot-unavailable", why)


def check_offered(kind: PlotKind, version: ModelVersion) -> None:
    """Raises NotFound (`plot-unavailable`) for a plot of classes of a version that predicts
    numbers, and the other way round."""
    only = ONLY_OF.get(kind, version.predicts)
    if only != version.predicts:
        name = f"{version.model_name} version {version.version}"
        message = f"`{kind}` is a plot of {only}, and {name} predicts {version.predicts}"
        raise NotFound("plot-unavailable", message)
