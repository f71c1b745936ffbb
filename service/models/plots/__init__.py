"""Plots of a model version, as SVG. Only the process that renders files imports matplotlib."""

from __future__ import annotations

from typing import Literal, TypeAlias

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
]

STYLE_VERSION = 2
"""Increase it when plots change: stored files are then rendered again."""


def file_name(kind: PlotKind) -> str:
    """The name under which the plot is stored."""
    return f"plots-{STYLE_VERSION}/{kind}.svg"
