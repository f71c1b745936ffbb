"""Learning an encoder and its scaling from the raw training rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from svm.data.columns import Column, Columns
from svm.data.matrices import Indices, Matrix, Vector, read_only
from svm.data.stored_rows import Rows, StoredRows, pieces
from svm.encoding.encoder import Encoder, Encoding, date_parts
from svm.encoding.fitting_texts import fit_text
from svm.transforms.scaling import Scaling, ScalingName, fit_scaling

GATHERED_VALUES = 1 << 23
"""Cells of columns with gaps that are in memory at once: 64 MiB."""


def fit_encoder(
    encoding: Encoding, scaling: ScalingName, X: Rows, columns: Columns
) -> tuple[Encoder, Scaling]:
    """The encoder, and the scaling of its outputs: of numbers and parts of dates with missing cells
    filled. Booleans, indicators and levels have offset 0 and scale 1. Later missing cells of a
    column without gaps in training are its mean if it is standardized, which adds nothing to a
    score of a linear model, else filled as `encoding` says.

    X is (n_samples, n_columns), checked by `require_raw`, in memory or in files: the bits are the
    same. Raises InvalidData (`missing-value`, `unseen-level`, `scaling-unsupported`).
    """
    missing, counts = _count(X, columns)
    values = [_value(encoding, None, column) for column in columns]
    gapped = [
        j
        for j, column in enumerate(columns)
        if column.kind not in ("category", "text") and 0 < missing[j] < X.shape[0]
    ]
    for j, cells in _cells_of(X, gapped):
        values[j] = _value(encoding, cells, columns[j])
    encoder = Encoder(
        encoding=encoding,
        columns=tuple(columns),
        missing=missing,
        counts=counts,
        fills=_fills(values, columns),
        texts=tuple(
            fit_text(encoding, X, j, column.name)
            for j, column in enumerate(columns)
            if column.kind == "text"
        ),
    )
    for piece in pieces(X):
        encoder.require_accepted(piece)
    fitted = _scaling(scaling, encoder, X)
    centered = encoder.scaled & (fitted.name == "standardize")
    means = np.zeros(len(centered)) if fitted.offset is None else fitted.offset[: len(centered)]
    others = np.unique(encoder.sources[~centered & (missing[encoder.sources] == 0)])
    for j, cells in _cells_of(X, [] if encoder.refuses_missing else others.tolist()):
        values[j] = _value(encoding, cells, columns[j])
    fills = np.where(centered & (missing[encoder.sources] == 0), means, _fills(values, columns))
    return replace(encoder, fills=fills), fitted


def _count(X: Rows, columns: Columns) -> tuple[Indices, Indices]:
    """`Encoder.missing` and `Encoder.counts`."""
    from svm.loops.tables import count_cells

    categories = [j for j, column in enumerate(columns) if column.kind == "category"]
    starts = np.cumsum([0, *(len(columns[j].levels) for j in categories)])
    missing = np.zeros(len(columns), dtype=np.int64)
    counts = np.zeros(int(starts[-1]), dtype=np.int64)
    places = np.array(categories, dtype=np.int64), starts[:-1].astype(np.int64)
    for piece in pieces(X):
        count_cells(read_only(np.ascontiguousarray(piece)), *places, missing, counts)
    return missing, counts


def _cells_of(X: Rows, columns: list[int]) -> Iterator[tuple[int, Vector]]:
    """Some columns, each in memory as a whole: few of those in files at a time."""
    at_once = max(1, GATHERED_VALUES // X.shape[0])
    for start in range(0, len(columns), at_once):
        some = columns[start : start + at_once]
        gathered = np.concatenate([np.asarray(piece)[:, some] for piece in pieces(X)])
        yield from zip(some, gathered.T, strict=True)


def _value(encoding: Encoding, cells: Vector | None, column: Column) -> float:
    """The raw value of a missing cell. `cells`: if some are missing, not all."""
    if encoding.missing == "constant" and column.kind == "number":
        return encoding.constant
    if cells is None:
        return 0.0
    known = cells[~np.isnan(cells)]
    with np.errstate(over="ignore"):  # such values are refused before training
        return float(known.mean() if encoding.missing == "mean" else np.median(known))


def _fills(values: list[float], columns: Columns) -> Vector:
    """`Encoder.fills` from the raw value of each column."""
    fills = [
        date_parts(np.array([value])).reshape(-1) if column.kind == "date" else np.array([value])
        for value, column in zip(values, columns, strict=True)
        if column.kind not in ("category", "text")
    ]
    return np.concatenate([*fills, np.empty(0)])


def _scaling(name: ScalingName, encoder: Encoder, X: Rows) -> Scaling:
    if name == "none":
        return Scaling()
    places = np.flatnonzero(encoder.scaled)
    if encoder.texts and not len(places):
        return Scaling()

    def numbers(X: Matrix) -> Vector:
        assert isinstance(X, np.ndarray)
        return np.ascontiguousarray(encoder.numbers(X)[:, places])

    made = X.rewritten(numbers, encoder.n_numbers) if isinstance(X, StoredRows) else numbers(X)
    learned = fit_scaling(name, made)
    offset, scale = np.zeros(encoder.n_outputs), np.ones(encoder.n_outputs)
    assert learned.scale is not None
    scale[places] = learned.scale
    if learned.offset is None:
        return Scaling(name, None, scale)
    offset[places] = learned.offset
    return Scaling(name, offset, scale)
