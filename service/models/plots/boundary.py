"""The decision boundary, with the data and, for two classes, the margins. Its plane is that of two
features, or of two principal components."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from contourpy import FillType, LineType, contour_generator

from service.charts.chart import SHOWN_CLASSES, Axis, Chart, Panel, Series, names_of
from service.charts.palette import Role
from service.common.figures import percent
from service.errors import NotFound
from service.models.plots import Plot, title, unavailable
from service.models.sources import MULTIPLICATIONS, Sources
from svm.data.matrices import Matrix, Vector, dense
from svm.encoding.encoder import PlainEncoder
from svm.model.pipeline import WIDE, FittedPipeline
from svm.transforms.features import Identity
from svm.transforms.scaling import Scaling

MOST_POINTS = 900
SIDES = (40, 140)
"""Fewest and most points of the grid on one side."""
MOST_VALUES = 4e9
"""Most values of all points of the grid: about ten seconds."""
MOST_SCORES = 1e7
"""Most scores in memory at once: one for each point and binary problem."""
MARGIN = 0.08


def boundary(sources: Sources) -> Plot:
    """Raises NotFound (`plot-unavailable`)."""
    version, fitted = sources.version, sources.fitted
    plane, codes, data = plane_of(sources)
    a, b, scores = plane.scores(model_in_plane(fitted), sources.cost_of_a_row)
    n_classes = len(version.classes)
    values = fitted.decision_from_scores(scores.reshape(-1, scores.shape[2]))
    names = names_of(version.classes)
    if n_classes == 2:
        series = _two_classes(a, b, values.reshape(len(b), len(a)), names)
    else:
        series = _many_classes(a, b, values.reshape(len(b), len(a), n_classes), names)
    if plane.points is not None and codes is not None:
        for code in np.unique(codes).tolist():
            x, y = plane.points[codes == code].T
            named = names[code] if n_classes <= SHOWN_CLASSES else ""
            series.append(Series(x, y, named, code, "squares" if code % 2 else "dots"))
    what = "Areas by predicted class"
    if n_classes == 2:
        what += ", the boundary as a line, the margins (decision value -1 and 1) dashed"
    if not plane.exact:
        what += "; the plane of the data's two principal components, through their mean"
    shown = f"Classes: {', '.join(names[:SHOWN_CLASSES])}" + ("…" if n_classes > 10 else "")
    chart = Chart(
        title(version, "Decision boundary"),
        f"{what}. Points: {data}. {shown}.",
        Axis(plane.labels[0], low=float(a[0]), high=float(a[-1])),
        [Panel(Axis(plane.labels[1], low=float(b[0]), high=float(b[-1])), series, height=320)],
    )
    return Plot(chart, None if codes is None else version.dataset_id)


def _two_classes(a: Vector, b: Vector, values: Vector, names: list[str]) -> list[Series]:
    far = max(1.0, float(np.abs(values).max())) * 2
    series = [
        _area(a, b, values, -far, 0.0, 0, names[0]),
        _area(a, b, values, 0.0, far, 1, names[1]),
    ]
    for level in (0.0, -1.0, 1.0):
        if values.min() < level < values.max():
            series.append(_line(a, b, values, level, "ink", dashed=level != 0.0))
    return series


def _many_classes(a: Vector, b: Vector, values: Vector, names: list[str]) -> list[Series]:
    """An area for each class: the points with its decision value above all others."""
    second, highest = np.moveaxis(np.partition(values, -2, axis=2)[:, :, -2:], 2, 0)
    few = values.shape[2] <= SHOWN_CLASSES
    series = []
    for code in np.unique(values.argmax(axis=2)).tolist():
        own = values[:, :, code]
        ahead = own - np.where(own == highest, second, highest)
        if ahead.max() > 0.0:
            far = float(np.abs(ahead).max()) * 2
            series.append(_area(a, b, ahead, 0.0, far, code, names[code] if few else ""))
            if few:
                series.append(_line(a, b, ahead, 0.0, "faint"))
    return series


def _area(
    a: Vector, b: Vector, values: Vector, low: float, high: float, color: int, name: str
) -> Series:
    """Where the values on the grid are between two levels."""
    contours = contour_generator(a, b, values, fill_type=FillType.OuterOffset)
    parts = []
    for points, offsets in zip(*contours.filled(low, high), strict=True):
        parts += np.split(points, offsets[1:-1].astype(np.int64))
    x, y = _joined(parts)
    return Series(x, y, name, color, "area")


def _line(
    a: Vector, b: Vector, values: Vector, level: float, color: Role, *, dashed: bool = False
) -> Series:
    """Where the values on the grid have a level."""
    contours = contour_generator(a, b, values, line_type=LineType.Separate)
    parts: Any = contours.lines(level)
    x, y = _joined(parts)
    return Series(x, y, color=color, dashed=dashed)


def _joined(parts: list[Any]) -> tuple[Vector, Vector]:
    """(x, y) of the points of all parts, with a gap after each."""
    gap = np.full((1, 2), np.nan)
    points = np.concatenate([gap, *(one for part in parts for one in (part, gap))])
    return points[:, 0], points[:, 1]


@dataclass(frozen=True, slots=True)
class Plane:
    """x = origin + a·axes[0] + b·axes[1], in the units of the data."""

    origin: Vector
    """(n_features,)"""
    axes: Vector
    """(2, n_features)"""
    low: Vector
    """(2,) smallest a and b that are drawn."""
    high: Vector
    labels: tuple[str, str]
    points: Vector | None
    """(n, 2) the rows, projected onto the plane."""
    exact: bool
    """Whether the rows lie in the plane."""

    def scores(self, fitted: FittedPipeline, cost_of_a_row: int) -> tuple[Vector, Vector, Vector]:
        """(a (m,), b (m,), scores (m, m, n_problems)) on a grid.

        Raises NotFound (`plot-unavailable`) for kernels of too many features.
        """
        linear = fitted.kernel is None and isinstance(fitted.features.spec, Identity)
        cost = len(fitted.intercepts) if linear else cost_of_a_row
        most = int(math.sqrt(MOST_SCORES / len(fitted.intercepts)))
        side = min(max(int(math.sqrt(MULTIPLICATIONS / cost)), SIDES[0]), SIDES[1], most)
        a, b = (np.linspace(self.low[k], self.high[k], side) for k in (0, 1))
        if linear:  # then the scores are linear in a and b
            scale = 1.0 if fitted.scaling.scale is None else fitted.scaling.scale
            start = fitted.problem_scores(self.origin[None])[0]
            slopes = fitted.coefficients @ (self.axes / scale).T
            along = a[:, None] * slopes[:, 0]
            across = b[:, None] * slopes[:, 1]
            return a, b, start + along[None, :, :] + across[:, None, :]
        if side * side * fitted.n_features > MOST_VALUES:
            raise _unavailable("the model has too many features")
        rows = [
            fitted.problem_scores(self.origin + a[:, None] * self.axes[0] + y * self.axes[1])
            for y in b
        ]
        return a, b, np.stack(rows)


def plane_of(sources: Sources) -> tuple[Plane, npt.NDArray[np.int64] | None, str]:
    """(the plane, the classes of its points, a description of these).

    Raises NotFound (`plot-unavailable`) if there is no plane to draw.
    """
    fitted = sources.fitted
    rows = sources.rows(MOST_POINTS, measured=False)
    names = sources.version.columns
    if rows is None:
        return _without_data(fitted, names), None, "the training data were deleted"
    points = "projected onto the plane"
    if not fitted.encoder.is_plain:
        X, scaling = dense(rows.X), fitted.scaling
        encoded = fitted.encoder.transform(X, scaling, sparse=fitted.features.n_inputs > WIDE)
        plane = _principal(model_in_plane(fitted), encoded)
    elif fitted.n_features <= 2:
        plane, points = _own_axes(dense(rows.X), names, rows.codes), "with the data"
    else:
        plane = _principal(fitted, rows.X)
    return plane, rows.codes, f"{rows.description}, {points}"


def model_in_plane(fitted: FittedPipeline) -> FittedPipeline:
    """The model of the values in whose space the plane lies: of a table, the scaled outputs of its
    encoder, because no line leads from one level to another."""
    if fitted.encoder.is_plain:
        return fitted
    return replace(fitted, encoder=PlainEncoder.of(fitted.features.n_inputs), scaling=Scaling())


def _own_axes(X: Vector, names: list[str] | None, codes: npt.NDArray[Any]) -> Plane:
    if X.shape[1] == 2:
        return _of_two_features(X, names)
    points = np.stack([X[:, 0], codes / max(1, codes.max())], axis=1)
    axes = np.array([[1.0], [0.0]])
    labels = ("feature 0" if names is None else names[0], "rows, a line for each class")
    return _around(np.zeros(1), axes, points, labels, exact=True)


def _principal(fitted: FittedPipeline, X: Matrix) -> Plane:
    """The two principal components of the scaled rows, through their mean."""
    Z = fitted.scaling.transform(fitted.in_form(X) if fitted.takes_sparse else dense(X))
    mean, directions, points, share = _components(Z)
    scale, offset = _units(fitted)
    labels = tuple(
        f"principal component {k + 1} ({percent(share[k], 0)} of the variance)" for k in (0, 1)
    )
    origin = offset + mean * scale
    return _around(origin, directions * scale, points, (labels[0], labels[1]), exact=False)


def _components(Z: Matrix) -> tuple[Vector, Vector, Vector, Vector]:
    """(mean (d,), directions (2, d), coordinates of the rows (n, 2), shares of variance (2,)).

    Computed from the inner products of the rows, since they are few.
    """
    n = Z.shape[0]
    products: Any = Z @ Z.T
    gram = dense(products)
    centered = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh(centered)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    directions = np.zeros((2, Z.shape[1]))
    points = np.zeros((n, 2))
    for k in range(min(2, n)):
        if values[k] <= 1e-12 * values[0] or values[0] == 0.0:
            break  # the rows are on a line, or equal
        u, length = vectors[:, k], math.sqrt(values[k])
        v = np.asarray(Z.T @ u) / length
        sign = 1.0 if v[np.abs(v).argmax()] > 0 else -1.0
        directions[k], points[:, k] = sign * v, sign * length * u
    mean = np.asarray(Z.sum(axis=0)).ravel() / n
    share = np.zeros(2)
    share[: min(2, n)] = values[:2] / max(values.sum(), 1e-300)
    return mean, directions, points, share


def _without_data(fitted: FittedPipeline, names: list[str] | None) -> Plane:
    """Two features, over a range from the model's own parameters."""
    if fitted.n_features != 2 or not fitted.encoder.is_plain:
        raise _unavailable(
            "the training data were deleted, whose principal components span the plane of more "
            "than two features, or of a table"
        )
    scale, offset = _units(fitted)
    vectors = fitted.support_vectors
    if vectors is not None and isinstance(fitted.features.spec, Identity):
        corners = dense(vectors)
    else:
        reach = {"standardize": 2.5, "min-max": 1.0, "max-abs": 1.0}
        low = 0.0 if fitted.scaling.name == "min-max" else -1.0
        far = reach.get(fitted.scaling.name, 3.0)
        corners = np.array([[low * far, low * far], [far, far]])
    return replace(_of_two_features(offset + corners * scale, names), points=None)


def _of_two_features(X: Vector, names: list[str] | None) -> Plane:
    labels = ("feature 0", "feature 1") if names is None else (names[0], names[1])
    return _around(np.zeros(2), np.eye(2), X, labels, exact=True)


def _units(fitted: FittedPipeline) -> tuple[Vector, Vector]:
    """(scale, offset) of the features."""
    d, scale, offset = fitted.n_features, fitted.scaling.scale, fitted.scaling.offset
    return np.ones(d) if scale is None else scale, np.zeros(d) if offset is None else offset


def _around(
    origin: Vector, axes: Vector, points: Vector, labels: tuple[str, str], *, exact: bool
) -> Plane:
    low, high = points.min(axis=0), points.max(axis=0)
    room = MARGIN * np.where(high > low, high - low, 1.0)
    return Plane(origin, axes, low - room, high + room, labels, points, exact)


def _unavailable(why: str) -> NotFound:
    return unavailable(f"there is no decision boundary: {why}")
