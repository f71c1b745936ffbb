"""All kinds of plots. For the process that renders them: this imports matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

from service.models.plots import PlotKind, drawing, file_name
from service.models.plots.boundary import boundary
from service.models.plots.cost import cost
from service.models.plots.drawing import Picture
from service.models.plots.learning_curve import learning_curve
from service.models.plots.measured import confusion, margins, reliability, roc
from service.models.sources import Sources

_DRAW: dict[PlotKind, Callable[[Sources], tuple[Picture, str | None]]] = {
    "boundary": boundary,
    "learning-curve": learning_curve,
    "cost-by-epoch": partial(cost, "epoch"),
    "cost-by-update": partial(cost, "updates"),
    "cost-by-time": partial(cost, "elapsed_s"),
    "confusion": confusion,
    "roc": roc,
    "margins": margins,
    "reliability": reliability,
}

PLOTS: dict[str, PlotKind] = {file_name(kind): kind for kind in get_args(PlotKind)}
"""By file name."""


def draw(kind: PlotKind, sources: Sources, path: Path) -> tuple[dict[str, Any], str | None]:
    """Write the plot; returns no facts, and the id of the dataset whose data it shows.

    Raises NotFound (`plot-unavailable`) and InvalidContent if this plot is not possible.
    """
    with drawing.style():
        picture, dataset_id = _DRAW[kind](sources)
        path.write_bytes(drawing.write(picture))
    return {}, dataset_id
