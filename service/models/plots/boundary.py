"""The decision boundary, with the data and, for two classes, the margins."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D

from service.models.plots.drawing import SHOWN_CLASSES, Picture, axes, color, dots, names_of, plain
from service.models.plots.palette import CARD, INK, SOFT
from service.models.plots.plane import drawn, plane_of
from service.models.sources import Sources
from svm.data.matrices import Vector

TINT = 0.22


def boundary(sources: Sources) -> tuple[Picture, str | None]:
    """Raises NotFound (`plot-unavailable`)."""
    version, fitted = sources.version, sources.fitted
    plane, codes, data = plane_of(sources)
    a, b, scores = plane.scores(drawn(fitted), sources.cost_of_a_row)
    n_classes = len(version.classes)
    values = fitted.decision_from_scores(scores.reshape(-1, scores.shape[2]))
    title = f"Decision boundary of {version.model_name} version {version.version}"
    figure, (ax,) = axes(title)
    if n_classes == 2:
        _two_classes(ax, a, b, values.reshape(len(b), len(a)))
    else:
        _many_classes(ax, a, b, values.reshape(len(b), len(a), n_classes))
    if plane.points is not None and codes is not None:
        for code in np.unique(codes).tolist():
            square = bool(code % 2)
            dots(ax, plane.points[codes == code], CARD, 4.4, square=square)
            dots(ax, plane.points[codes == code], color(code), 3.2, square=square)
    ax.set(
        xlim=(a[0], a[-1]),
        ylim=(b[0], b[-1]),
        xlabel=plain(plane.labels[0]),
        ylabel=plain(plane.labels[1]),
    )
    names = names_of(version.classes)
    if n_classes <= SHOWN_CLASSES:
        handles = [
            Line2D([], [], color=color(code), linewidth=5, label=name)
            for code, name in enumerate(names)
        ]
        ax.legend(handles=handles, ncols=5, loc="upper left", bbox_to_anchor=(0, -0.16))
    what = "Areas by predicted class"
    if n_classes == 2:
        what += ", the boundary as a line, the margins (decision value -1 and 1) dashed"
    if not plane.exact:
        what += "; the plane of the data's two principal components, through their mean"
    shown = f"Classes: {', '.join(names[:SHOWN_CLASSES])}" + ("…" if n_classes > 10 else "")
    description = f"{what}. Points: {data}. {shown}."
    return Picture(figure, title, description), None if codes is None else version.dataset_id


def _two_classes(ax: Axes, a: Vector, b: Vector, values: Vector) -> None:
    tints = [to_rgba(color(0), TINT), to_rgba(color(1), TINT)]
    far = max(1.0, float(np.abs(values).max())) * 2
    ax.contourf(a, b, values, levels=[-far, 0.0, far], colors=tints)
    if values.min() < 0.0 < values.max():
        ax.contour(a, b, values, levels=[0.0], colors=INK, linewidths=1.4)
    for level in (-1.0, 1.0):
        if values.min() < level < values.max():
            ax.contour(a, b, values, [level], colors=INK, linewidths=0.8, linestyles="--")


def _many_classes(ax: Axes, a: Vector, b: Vector, values: Vector) -> None:
    """An area for each class: the points with its decision value above all others."""
    second, highest = np.moveaxis(np.partition(values, -2, axis=2)[:, :, -2:], 2, 0)
    lines = values.shape[2] <= SHOWN_CLASSES
    for code in np.unique(values.argmax(axis=2)).tolist():
        own = values[:, :, code]
        ahead = own - np.where(own == highest, second, highest)
        if ahead.max() > 0.0:
            far = float(np.abs(ahead).max()) * 2
            ax.contourf(a, b, ahead, levels=[0.0, far], colors=[to_rgba(color(code), TINT)])
            if lines:
                ax.contour(a, b, ahead, levels=[0.0], colors=SOFT, linewidths=0.5)
