"""Pictures of a model version, as SVG. Only the process that draws them imports matplotlib."""

from __future__ import annotations

from typing import Literal, TypeAlias

PlotKind: TypeAlias = Literal[
    "boundary", "learning-curve", "confusion", "roc", "margins", "reliability"
]

LOOK = 1
"""Grows when pictures are drawn in another way: those that are kept are then drawn again."""


def file_name(kind: PlotKind) -> str:
    """Under which the picture is kept."""
    return f"plots-{LOOK}/{kind}.svg"
