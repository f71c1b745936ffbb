"""Curves of a training: cost, bound and gap by epoch; cost and errors by epoch, update or time."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Literal, TypeAlias

import numpy as np
from matplotlib.ticker import NullFormatter

from service.models.plots.drawing import Picture, axes, thin_out, unavailable
from service.models.plots.palette import BOUND, COLORS, COST, FAINT, GAP
from service.models.sources import Sources

MOST_PAIRS = 60
SMALLEST_GAP = 1e-16
LABELS = {"epoch": "epoch", "updates": "update", "elapsed_s": "seconds"}
MOST_MARKERS = 60
Points: TypeAlias = list[dict[str, Any]]


def learning_curve(sources: Sources) -> Picture:
    """Raises NotFound (`plot-unavailable`) if the job's trace was deleted."""
    widest, thin, of = _problems_of(sources)
    epochs = [row["epoch"] for row in widest]
    picture, (costs, gaps) = axes(sources.version, "Learning curve", 2, (5.2, 4.6), sharex=True)
    costs.plot(epochs, [row["primal"] for row in widest], "o-", ms=3, color=COST, label="cost")
    bounds = [row["dual"] for row in widest]
    costs.plot(epochs, bounds, "s--", ms=3, color=BOUND, label="lower bound")
    costs.set(ylabel="primal and dual value")
    costs.legend()
    for rows in thin:
        gaps.plot([row["epoch"] for row in rows], [relative_gap(row) for row in rows], color=FAINT)
    gaps.plot(epochs, [relative_gap(row) for row in widest], "o-", ms=3, color=GAP)
    gaps.set(ylabel="relative gap", xlabel="epoch")
    if max(epochs) > 1:
        gaps.set_xscale("log", base=2)
        gaps.xaxis.set_major_formatter("{x:,.0f}")
    gaps.set_yscale("log")
    gaps.yaxis.set_major_formatter("{x:g}")
    gaps.yaxis.set_minor_formatter(NullFormatter())
    for ax in (costs, gaps):
        ax.grid(True)
    first, last = widest[0], widest[-1]
    return picture.describe(
        f"Cost and its lower bound{of} over {epochs[-1]:,} epochs: from {first['primal']:.6g} "
        f"to {last['primal']:.6g}, of which at most {relative_gap(last):.2%} is above the optimum."
        + (" Thin lines: gaps of the other problems." if thin else "")
    )


def cost(against: Literal["epoch", "updates", "elapsed_s"], sources: Sources) -> Picture:
    """Raises NotFound (`plot-unavailable`) if the job's trace was deleted."""
    widest, thin, of = _problems_of(sources)
    by, label = [row[against] for row in widest], LABELS[against]
    marker = "." if len(widest) <= MOST_MARKERS else ""
    what = f"Cost by {label}"
    picture, (costs, errors) = axes(sources.version, what, 2, (5.2, 4.6), sharex=True)
    for rows in thin:
        x = [row[against] for row in rows]
        costs.plot(x, [row["solver_objective"] for row in rows], color=FAINT)
    values = [row["solver_objective"] for row in widest]
    costs.plot(by, values, f"{marker}-", color=COST)
    costs.set(ylabel="cost in the solver's constants")
    errors.plot(by, [row["train_error"] for row in widest], f"{marker}-", color=COLORS[0])
    names = ["training rows"]
    if widest[-1]["validation_error"] is not None:
        measured = [row["validation_error"] for row in widest]
        errors.plot(by, measured, f"{marker}--", color=COLORS[1])
        names.append("validation set")
    errors.legend(names)
    below = "the share of its rows on the wrong side"
    if sources.version.predicts == "numbers":
        below = "the mean absolute error, in the unit of the target"
    errors.set(ylabel="error", xlabel=label)
    errors.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    for ax in (costs, errors):
        ax.grid(True)
    return picture.describe(
        f"Cost{of} in the constants of the solver's objective, from {values[0]:.6g} at "
        f"{label} {by[0]:.6g} to {values[-1]:.6g} at {by[-1]:.6g}; below it {below}."
        + (" Thin lines: costs of the other problems." if thin else "")
    )


def _problems_of(sources: Sources) -> tuple[Points, list[Points], str]:
    """The trace of the binary problem with the largest gap at its end, those of the problems beside
    it, which are drawn thin, and what it is called; at most as many points as a plot can show.

    Raises NotFound (`plot-unavailable`).
    """
    pairs = [list(rows) for _, rows in groupby(sources.trace, key=lambda row: row["pair"])]
    if not pairs:
        raise unavailable(
            "there is no learning curve: the trace of the job was deleted, with the job or "
            "after the limit history_s",
        )
    pairs = [[rows[k] for k in thin_out(np.arange(len(rows))).tolist()] for rows in pairs]
    widest = max(pairs, key=lambda rows: relative_gap(rows[-1]))
    if len(pairs) == 1:
        return widest, [], ""
    thin = [pairs[k] for k in thin_out(np.arange(len(pairs)), MOST_PAIRS).tolist()]
    return widest, thin, f" of the widest of {len(pairs)} binary problems"


def relative_gap(row: dict[str, Any]) -> float:
    """The relative gap of a point; not 0, so that it has a logarithm."""
    if row["primal"] <= 0.0:
        return SMALLEST_GAP
    return max(SMALLEST_GAP, float(row["gap"]) / float(row["primal"]))
