"""Rows that a table has more than once, exactly or nearly, and their order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from svm.audit.columns import Sample
from svm.audit.findings import Finding, percent
from svm.data.matrices import Array, Vector
from svm.data.randomness import generator
from svm.data.row_hashes import Words, dense_hashes, multipliers

SEED = 44
REPEATED = 0.05
TIMES_CHANCE = 5.0
PERMUTED_COLUMNS = 64
"""More hardly ever have equal rows by chance."""
ASKED, SLAB = 512, 2048
"""Rows whose distances to how many rows are compared."""
FEWEST_NUMBERS = 3
NEAR = 0.05
"""Of the distance to the eighth nearest row: one nearer than this is nearly a copy."""
FEWEST_PAIRS = 10
FEWEST_ROWS = 30


def row_findings(sample: Sample, hashes: Words, n_columns: int) -> Iterator[Finding]:
    """`hashes`: of all rows of the table, without labels; `n_columns`: of all columns."""
    n = sample.n_samples
    if n < FEWEST_ROWS:
        return
    if n_columns > n:
        numbers = {"n_features": n_columns, "n_samples": n}
        found = f"There are {n_columns:,} columns and {n:,} rows."
        yield Finding(name="more-columns-than-rows", found=found, numbers=numbers)
    ordered = np.sort(hashes)
    equal = ordered[1:] == ordered[:-1]
    count = int(np.count_nonzero(np.append(equal, False) | np.append(False, equal)))
    share = count / n
    if share >= REPEATED and share > TIMES_CHANCE * (chance := _by_chance(sample)):
        yield Finding(
            name="duplicates",
            found=f"{count:,} of {n:,} rows, {percent(share)}, have the same features as another "
            f"row; by chance it would be {percent(chance)}.",
            numbers={"count": count, "share": round(share, 4), "chance": round(chance, 4)},
        )
    share = _nearly_repeated(sample)
    if share >= REPEATED:
        yield Finding(
            name="near-duplicates",
            found=f"About {percent(round(share, 2))} of the rows are nearly equal to another row: "
            "much nearer than to all the rest.",
            numbers={"share": round(share, 4)},
        )


def is_sorted(labels: Array) -> bool:
    """Whether rows of a class come one after the other, or values of a numeric target ascend or
    descend."""
    if len(labels) < FEWEST_ROWS:
        return False
    steps = np.diff(labels)
    if labels.dtype.kind == "f":
        return bool(labels[0] != labels[-1] and ((steps >= 0).all() or (steps <= 0).all()))
    return 1 <= int(np.count_nonzero(steps)) == len(np.unique(labels)) - 1


def order_findings(sample: Sample, labels: Array) -> Iterator[Finding]:
    """`labels`: of all rows."""
    if is_sorted(labels):
        kind = "values" if sample.truth.numeric else "classes"
        found = f"The rows are sorted by {sample.label}: its {kind} come one after the other."
        yield Finding(name="sorted-by-label", found=found)


def _by_chance(sample: Sample) -> float:
    """The share of rows that another one equals if columns are permuted, each by itself."""
    X = np.asarray(sample.X[:, :PERMUTED_COLUMNS])
    n, random = len(X), generator("split", SEED)
    permuted = np.take_along_axis(X, np.argsort(random.random(X.shape), axis=0), axis=0)
    hashes = dense_hashes(permuted + 0.0, multipliers(X.shape[1]))
    counts = np.unique(hashes, return_counts=True)[1].astype(np.float64)
    if n == sample.n_samples:
        return float(counts[counts > 1].sum() / n)
    pairs = (counts * (counts - 1)).sum() / (n * (n - 1))
    return float(min(1.0, pairs * (sample.n_samples - 1)))


def _nearly_repeated(sample: Sample) -> float:
    """The share of rows with a near copy, less that of chance in as many dimensions."""
    X = _standardized(sample)
    n, random = len(X), generator("split", SEED)
    if X.shape[1] < FEWEST_NUMBERS or n < FEWEST_ROWS:
        return 0.0
    # Rows that are near are near in any direction: others need not be compared.
    order = np.argsort(X @ random.standard_normal(X.shape[1]), kind="stable")
    start = max(0, (n - SLAB) // 2)
    slab = X[order[start : start + SLAB]]
    asked = np.arange(0, len(slab), -(-len(slab) // ASKED))
    squares = np.square(slab).sum(axis=1)
    distances = squares[asked, None] + squares - 2 * slab[asked] @ slab.T
    distances[np.arange(len(asked)), asked] = np.inf
    nearest = np.sqrt(np.maximum(np.partition(distances, (0, 3, 7), axis=1)[:, :8], 0))
    usable = nearest[:, 7] > 1e-6
    if not usable.any():
        return 0.0
    nearest = nearest[usable]
    near = (nearest[:, 0] <= NEAR * nearest[:, 7]) & (nearest[:, 0] > 1e-7)
    spread = min(float(np.median(nearest[:, 3] / nearest[:, 7])), 0.99)
    dimensions = np.log(0.5) / np.log(max(spread, 1e-3))
    chance = 1 - (1 - NEAR**dimensions) ** 7
    pairs = int(np.count_nonzero(near))
    if pairs < FEWEST_PAIRS or pairs / len(nearest) <= TIMES_CHANCE * chance:
        return 0.0
    return float(min(1.0, pairs / len(nearest) * (sample.n_samples - 1) / (n - 1)))


def _standardized(sample: Sample) -> Vector:
    """(n, …) the columns of numbers with many values, gaps filled with the mean."""
    some = [j for j, one in enumerate(sample.columns) if one.kind == "number"][:PERMUTED_COLUMNS]
    X = np.asarray(sample.X[:, some])
    X = X[:, [len(np.unique(x)) > len(x) / 4 for x in X.T]]
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X) - np.nanmean(X, axis=0)
    X = X / X.std(axis=0)
    finite: Vector = X[:, np.isfinite(X).all(axis=0)]
    return finite
