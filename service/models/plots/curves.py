"""Curves of a training: cost, bound and gap by epoch; cost and errors by epoch, update or time."""

from __future__ import annotations

import numpy as np

from service.charts.chart import Axis, Chart, Panel, Series, thin_out
from service.charts.scales import text
from service.charts.views import (
    MEASURED,
    Against,
    Points,
    against,
    along,
    learning_curve,
    problems_of,
    thinned,
)
from service.models.plots import Plot, title, unavailable
from service.models.sources import Sources

MOST_PAIRS = 60


def curve(sources: Sources) -> Plot:
    """Raises NotFound (`plot-unavailable`) if the job's trace was deleted."""
    widest, thin, of = _problems_of(sources)
    name = title(sources.version, "Learning curve")
    return Plot(learning_curve(name, widest, "epoch", of, thin))


def cost(by: Against, sources: Sources) -> Plot:
    """Raises NotFound (`plot-unavailable`) if the job's trace was deleted."""
    widest, thin, of = _problems_of(sources)
    points, label = thinned(widest), MEASURED[by][1]
    x, values = along(points, by), points["solver_objective"]
    lines = [(thinned(one), one) for one in thin]
    costs = [Series(along(one, by), one["solver_objective"], color="faint") for one, _ in lines]
    costs.append(Series(x, values, color="cost", mark="marked"))
    errors = [Series(x, points["train_error"], "training rows", mark="marked")]
    if points["validation_error"][-1] is not None:
        measured = np.asarray(points["validation_error"], dtype=float)
        errors.append(Series(x, measured, "validation set", 1, dashed=True))
    numbers = sources.version.predicts == "numbers"
    below = "the share of its rows on the wrong side"
    if numbers:
        below = "the mean absolute error, in the unit of the target"
    caption = (
        f"Cost{of} in the constants of the solver's objective, from {text(values[0])} at "
        f"{label} {text(x[0])} to {text(values[-1])} at {text(x[-1])}; below it {below}."
        + (" Thin lines: costs of the other problems." if thin else "")
    )
    panels = [
        Panel(Axis("cost in the solver's constants"), costs, height=180),
        Panel(Axis("error", percent=not numbers), errors, height=120),
    ]
    name = title(sources.version, f"Cost by {MEASURED[by][1].removesuffix(' (s)')}")
    return Plot(Chart(name, caption, against(by), panels))


def _problems_of(sources: Sources) -> tuple[Points, list[Points], str]:
    """The trace of the binary problem with the largest gap at its end, those of the problems beside
    it, which are drawn thin, and what it is called.

    Raises NotFound (`plot-unavailable`).
    """
    pairs = problems_of(sources.trace)
    if not pairs:
        raise unavailable(
            "there is no learning curve: the trace of the job was deleted, with the job or "
            "after the limit history_s",
        )
    if len(pairs) == 1:
        return pairs[0], [], ""
    thin = [pairs[k] for k in thin_out(np.arange(len(pairs)), MOST_PAIRS).tolist()]
    return pairs[0], thin, f" of the widest of {len(pairs)} binary problems"
