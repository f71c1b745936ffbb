"""Learning an encoder and its scaling from the raw training rows alone."""

from __future__ import annotations

import numpy as np

from svm.data.columns import Column, Columns
from svm.data.matrices import Indices, Vector, read_only
from svm.encoding.dates import date_parts
from svm.encoding.encoder import Encoder
from svm.encoding.hyperparameters import Encoding
from svm.transforms.scaling import Scaling, ScalingName, fit_scaling


def fit_encoder(
    encoding: Encoding, scaling: ScalingName, X: Vector, columns: Columns
) -> tuple[Encoder, Scaling]:
    """The encoder, and the scaling of its outputs: of numbers and parts of dates with missing cells
    filled. Booleans, indicators and levels have offset 0 and scale 1.

    X is (n_samples, n_columns), checked by `require_raw`. Raises InvalidData (`missing-value`,
    `unseen-level`, `scaling-unsupported`).
    """
    missing, counts = _counted(X, columns)
    fills = [
        _fill(encoding, X[:, j] if 0 < missing[j] < len(X) else None, column)
        for j, column in enumerate(columns)
        if column.kind != "category"
    ]
    encoder = Encoder(
        encoding=encoding,
        columns=tuple(columns),
        missing=missing,
        counts=counts,
        fills=np.concatenate([*fills, np.empty(0)]),
    )
    encoder.require_accepted(X)
    fitted = _scaling(scaling, encoder, X)
    return encoder.neutral_for(fitted), fitted


def _counted(X: Vector, columns: Columns) -> tuple[Indices, Indices]:
    """`Encoder.missing` and `Encoder.counts`."""
    from svm.loops.tables import count_cells

    categories = [j for j, column in enumerate(columns) if column.kind == "category"]
    starts = np.cumsum([0, *(len(columns[j].levels) for j in categories)])
    missing = np.zeros(len(columns), dtype=np.int64)
    counts = np.zeros(int(starts[-1]), dtype=np.int64)
    places = np.array(categories, dtype=np.int64), starts[:-1].astype(np.int64)
    count_cells(read_only(np.ascontiguousarray(X)), *places, missing, counts)
    return missing, counts


def _fill(encoding: Encoding, cells: Vector | None, column: Column) -> Vector:
    """The values of its outputs for a missing cell. `cells`: if some are missing, not all."""
    value = 0.0
    if encoding.missing == "constant" and column.kind == "number":
        value = encoding.constant
    elif cells is not None:
        known = cells[~np.isnan(cells)]
        with np.errstate(over="ignore"):  # such values are refused before training
            value = float(known.mean() if encoding.missing == "mean" else np.median(known))
    if column.kind == "date":
        return date_parts(np.array([value])).reshape(-1)
    return np.array([value])


def _scaling(name: ScalingName, encoder: Encoder, X: Vector) -> Scaling:
    if name == "none":
        return Scaling()
    places = np.flatnonzero(encoder.scaled)
    numbers = encoder.numbers(X)
    if len(places) < encoder.n_numbers:
        numbers = np.ascontiguousarray(numbers[:, places])
    learned = fit_scaling(name, numbers)
    offset, scale = np.zeros(encoder.n_outputs), np.ones(encoder.n_outputs)
    assert learned.scale is not None
    scale[places] = learned.scale
    if learned.offset is None:
        return Scaling(name, None, scale)
    offset[places] = learned.offset
    return Scaling(name, offset, scale)
