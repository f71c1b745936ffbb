"""The cost of a training, and its errors, against epochs, updates or time."""

from __future__ import annotations

from typing import Literal

import numpy as np

from service.models.plots.drawing import Picture, axes, thinned
from service.models.plots.learning_curve import MOST_PAIRS, pairs_of, relative_gap
from service.models.plots.palette import COLORS, COST, FAINT
from service.models.sources import Sources

LABELS = {"epoch": "epoch", "updates": "update", "elapsed_s": "seconds"}
MOST_MARKERS = 60


def cost(
    against: Literal["epoch", "updates", "elapsed_s"], sources: Sources
) -> tuple[Picture, str | None]:
    """Raises NotFound (`plot-unavailable`) if the job's trace was deleted."""
    version = sources.version
    pairs = pairs_of(sources)
    worst = max(pairs, key=lambda rows: relative_gap(rows[-1]))
    by, label = [row[against] for row in worst], LABELS[against]
    marker = "." if len(worst) <= MOST_MARKERS else ""
    title = f"Cost by {label} of {version.model_name} version {version.version}"
    figure, (costs, errors) = axes(title, 2, (5.2, 4.6), sharex=True)
    some = thinned(np.arange(len(pairs)), MOST_PAIRS)
    for rows in [pairs[k] for k in some.tolist()] if len(pairs) > 1 else []:
        x = [row[against] for row in rows]
        costs.plot(x, [row["solver_objective"] for row in rows], color=FAINT)
    values = [row["solver_objective"] for row in worst]
    costs.plot(by, values, f"{marker}-", color=COST)
    costs.set(ylabel="cost in the solver's constants")
    errors.plot(by, [row["train_error"] for row in worst], f"{marker}-", color=COLORS[0])
    names = ["training rows"]
    if worst[-1]["validation_error"] is not None:
        measured = [row["validation_error"] for row in worst]
        errors.plot(by, measured, f"{marker}--", color=COLORS[1])
        names.append("validation set")
    errors.legend(names)
    errors.set(ylabel="error", xlabel=label)
    errors.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    for ax in (costs, errors):
        ax.grid(True)
    of = "" if len(pairs) == 1 else f" of the widest of {len(pairs)} binary problems"
    description = (
        f"Cost{of} in the constants of the solver's objective, from {values[0]:.6g} at "
        f"{label} {by[0]:.6g} to {values[-1]:.6g} at {by[-1]:.6g}; below it the share of its rows "
        "on the wrong side."
    )
    if len(pairs) > 1:
        description += " Thin lines: costs of the other problems."
    return Picture(figure, title, description), None
