"""Learning an encoder and its scaling from the raw training rows alone."""

from __future__ import annotations

import numpy as np

from svm.data.columns import Column, Columns
from svm.data.matrices import Indices, Vector
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
    counts = [_counts(X[:, j], c) for j, c in enumerate(columns) if c.kind == "category"]
    fills = [_fill(encoding, X[:, j], c) for j, c in enumerate(columns) if c.kind != "category"]
    encoder = Encoder(
        encoding=encoding,
        columns=columns,
        missing=np.isnan(X).sum(axis=0).astype(np.int64),
        counts=np.concatenate([*counts, np.empty(0, dtype=np.int64)]).astype(np.int64),
        fills=np.concatenate([*fills, np.empty(0)]),
    )
    encoder.require_accepted(X)
    fitted = _scaling(scaling, encoder, X)
    return encoder.neutral_for(fitted), fitted


def _counts(cells: Vector, column: Column) -> Indices:
    known = cells[cells >= 0.0].astype(np.int64)
    return np.bincount(known, minlength=len(column.levels))


def _fill(encoding: Encoding, cells: Vector, column: Column) -> Vector:
    """The values of its outputs for a missing cell."""
    value, known = 0.0, cells[~np.isnan(cells)]
    if encoding.missing == "constant" and column.kind == "number":
        value = encoding.constant
    elif 0 < len(known) < len(cells):
        with np.errstate(over="ignore"):  # such values are refused before training
            value = float(known.mean() if encoding.missing == "mean" else np.median(known))
    if column.kind == "date":
        return date_parts(np.array([value])).reshape(-1)
    return np.array([value])


def _scaling(name: ScalingName, encoder: Encoder, X: Vector) -> Scaling:
    if name == "none":
        return Scaling()
    places = np.flatnonzero(encoder.scaled)
    learned = fit_scaling(name, np.ascontiguousarray(encoder.numbers(X)[:, places]))
    offset, scale = np.zeros(encoder.n_outputs), np.ones(encoder.n_outputs)
    assert learned.scale is not None
    scale[places] = learned.scale
    if learned.offset is None:
        return Scaling(name, None, scale)
    offset[places] = learned.offset
    return Scaling(name, offset, scale)
