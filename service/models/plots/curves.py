"""Cost, bound and gap over the epochs of the training."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.ticker import NullFormatter

from service.models.plots.drawing import Picture, axes, thinned, unavailable
from service.models.plots.palette import BOUND, COST, FAINT, GAP
from service.models.sources import Sources

MOST_PAIRS = 60
SMALLEST_GAP = 1e-16


def learning_curve(sources: Sources) -> tuple[Picture, str | None]:
    """Raises NotFound (`plot-unavailable`) if the job's trace was deleted."""
    version = sources.version
    pairs = pairs_of(sources)
    worst = max(pairs, key=lambda rows: relative_gap(rows[-1]))
    epochs = [row["epoch"] for row in worst]
    title = f"Learning curve of {version.model_name} version {version.version}"
    figure, (costs, gaps) = axes(title, 2, (5.2, 4.6), sharex=True)
    costs.plot(epochs, [row["primal"] for row in worst], "o-", ms=3, color=COST, label="cost")
    costs.plot(
        epochs, [row["dual"] for row in worst], "s--", ms=3, color=BOUND, label="lower bound"
    )
    costs.set(ylabel="primal and dual value")
    costs.legend()
    some = thinned(np.arange(len(pairs)), MOST_PAIRS)
    for rows in [pairs[k] for k in some.tolist()] if len(pairs) > 1 else []:
        gaps.plot([row["epoch"] for row in rows], [relative_gap(row) for row in rows], color=FAINT)
    gaps.plot(epochs, [relative_gap(row) for row in worst], "o-", ms=3, color=GAP)
    gaps.set(ylabel="relative gap", xlabel="epoch")
    if max(epochs) > 1:
        gaps.set_xscale("log", base=2)
        gaps.xaxis.set_major_formatter("{x:,.0f}")
    gaps.set_yscale("log")
    gaps.yaxis.set_major_formatter("{x:g}")
    gaps.yaxis.set_minor_formatter(NullFormatter())
    for ax in (costs, gaps):
        ax.grid(True)
    last = worst[-1]
    of = "" if len(pairs) == 1 else f" of the widest of {len(pairs)} binary problems"
    description = (
        f"Cost and its lower bound{of} over {epochs[-1]:,} epochs: from {worst[0]['primal']:.6g} "
        f"to {last['primal']:.6g}, of which at most {relative_gap(last):.2%} is above the optimum."
    )
    if len(pairs) > 1:
        description += " Thin lines: gaps of the other problems."
    return Picture(figure, title, description), None


def pairs_of(sources: Sources) -> list[list[dict[str, Any]]]:
    """The rows of the trace of each binary problem, at most as many as a plot can show.

    Raises NotFound (`plot-unavailable`).
    """
    grouped = groupby(sources.trace, key=lambda row: row["pair"])
    pairs = [list(rows) for _, rows in grouped]
    if not pairs:
        raise unavailable(
            "there is no learning curve: the trace of the job was deleted, with the job or "
            "after the limit history_s",
        )
    return [[rows[k] for k in thinned(np.arange(len(rows))).tolist()] for rows in pairs]


def relative_gap(row: dict[str, Any]) -> float:
    """Of one point; not 0, so that it has a logarithm."""
    if row["primal"] <= 0.0:
        return SMALLEST_GAP
    return max(SMALLEST_GAP, float(row["gap"]) / float(row["primal"]))
