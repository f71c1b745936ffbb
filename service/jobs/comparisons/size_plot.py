"""Training time against the size of the data, or against support vectors.

The time is that of the processor: it does not depend on what else the machine does.
Both axes are logarithmic: a time that grows as a power of the size is a straight line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from service.charts.chart import Axis, Chart, Panel, Series, plain
from service.errors import NotFound

SizePlot: TypeAlias = Literal["time-by-rows", "time-by-columns", "time-by-support-vectors"]

_AXIS: dict[SizePlot, tuple[str, str]] = {
    "time-by-rows": ("rows", "training rows"),
    "time-by-columns": ("columns", "features"),
    "time-by-support-vectors": ("n_support_vectors", "support vectors"),
}
MOST_LINES = 8


def plot(kind: SizePlot, entries: Sequence[Mapping[str, Any]]) -> Chart:
    """A chart of the entries that have finished, at most eight kinds of them. Raises NotFound
    (`plot-unavailable`)."""
    field, label = _AXIS[kind]
    lines: dict[str, list[tuple[float, float]]] = {}
    for entry in sorted(entries, key=lambda entry: int(entry["number"])):
        x, y = entry[field], entry["cpu_s"]
        if entry["rank"] is not None and x and y:
            lines.setdefault(entry_title(entry["spec"]), []).append((float(x), float(y)))
    shown = {name: sorted(line) for name, line in list(lines.items())[:MOST_LINES]}
    if not shown:
        detail = f"no entry that has finished has a count of {label}; see `sizes`"
        raise NotFound("plot-unavailable", detail)
    caption = (
        f"Seconds of processor time of training against {label}, both logarithmic: a time that "
        "grows as a power of the size is a straight line. "
        + "; ".join(
            f"{name}: " + ", ".join(f"{y:.3g} s at {x:,.0f}" for x, y in line)
            for name, line in shown.items()
        )
    )
    series = [
        Series([x for x, _ in line], [y for _, y in line], plain(name, 40), k, "marked")
        for k, (name, line) in enumerate(shown.items())
    ]
    y = Axis("processor time (s)", "log")
    panel = Panel(y, series, height=240)
    return Chart(f"Training time by {label}", caption, Axis(label, "log"), [panel])


def entry_title(spec: Mapping[str, Any]) -> str:
    """The solver and its regularization, and the features if there are any."""
    solver, features = spec["solver"], spec["features"]["name"]
    strength = next((f", {n} = {solver[n]:g}" for n in ("lambda", "C") if solver.get(n)), "")
    kernel = (solver.get("kernel") or {}).get("name")
    parts = [f", {kernel}" if kernel else "", "" if features == "identity" else f", {features}"]
    return f"{solver['name']}{strength}{''.join(parts)}"
