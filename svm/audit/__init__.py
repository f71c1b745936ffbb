"""Audit of leaks: what a table says about its label that rows to predict will not.

for finding in audit(X, labels, columns):
    print(finding.name, finding.found)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from svm.audit.columns import Sample, column_findings
from svm.audit.findings import NAMES, Finding
from svm.audit.rows import order_findings, row_findings
from svm.audit.truth import SEED, Truth
from svm.data.columns import Column
from svm.data.matrices import Array, Indices, Vector
from svm.data.randomness import generator
from svm.data.row_hashes import Words, row_hashes

__all__ = ["MOST_COLUMNS", "audit", "audited", "sampled_rows"]
MOST_ROWS = 8192
MOST_CELLS, MOST_LOOKED_AT = 1 << 22, 1 << 20
"""In the sample, and in its columns that are looked at."""
MOST_COLUMNS = 256
"""That are looked at one by one: those that go most with the label."""


def sampled_rows(n_samples: int, n_columns: int) -> Indices:
    """The rows that an audit looks at, ascending: a function of the shape alone."""
    looked_at = MOST_LOOKED_AT // max(1, min(n_columns, MOST_COLUMNS))
    most = max(256, min(MOST_ROWS, looked_at, MOST_CELLS // max(1, n_columns)))
    if n_samples <= most:
        return np.arange(n_samples)
    chosen = generator("split", SEED).choice(n_samples, most, replace=False, shuffle=False)
    return np.sort(chosen)


def audit(X: Vector, labels: Array | None, columns: Sequence[Column]) -> list[Finding]:
    """What is found in a whole table: raw values, and class numbers or float64 values."""
    rows = sampled_rows(*X.shape)
    hashes = row_hashes(X, np.zeros(len(X), np.int32), columns)
    return audited(X[rows], rows, labels, columns, hashes)


def audited(
    X: Vector,
    rows: Indices,
    labels: Array | None,
    columns: Sequence[Column],
    hashes: Words,
    *,
    called: Sequence[str | int] | None = None,
    classes: Sequence[Any] | None = None,
    target: str | None = None,
    n_features: int | None = None,
) -> list[Finding]:
    """The same from these `rows` of a table, `X`, the labels of all rows, (n_samples,), and the
    hashes of their features. Columns are `called` by name or position in findings; `n_features`
    counts those, too, that X is without."""
    called = [column.name for column in columns] if called is None else called
    chosen = _chosen(X, None if labels is None else labels[rows])
    sample = Sample(
        X=X if chosen is None else X[:, chosen],
        columns=columns if chosen is None else [columns[j] for j in chosen],
        called=called if chosen is None else [called[j] for j in chosen],
        truth=Truth(np.zeros(len(X), np.int64) if labels is None else labels[rows]),
        classes=classes,
        target=target,
        n_samples=len(hashes),
    )
    with np.errstate(all="ignore"):  # of the largest numbers that there are
        findings = [*row_findings(sample, hashes, n_features or X.shape[1])]
        if labels is not None:
            findings += [*column_findings(sample), *order_findings(sample, labels)]
    return sorted(findings, key=lambda finding: NAMES.index(finding.name))


def _chosen(X: Vector, labels: Array | None) -> list[int] | None:
    """Of very many columns those whose means differ most between the classes; None: all."""
    if X.shape[1] <= MOST_COLUMNS:
        return None
    if labels is None:
        return list(range(MOST_COLUMNS))
    levels = np.unique(labels, return_inverse=True)[1]
    if labels.dtype.kind == "f":
        levels = levels * 8 // (levels.max() + 1)
    filled = np.nan_to_num(X)
    filled -= filled.mean(axis=0)
    between = np.zeros(X.shape[1])
    for level in np.unique(levels):
        some = filled[levels == level]
        between += len(some) * np.square(some.mean(axis=0))
    with np.errstate(all="ignore"):
        shares = np.nan_to_num(between / np.square(filled).sum(axis=0))
    return sorted(np.argsort(-shares, kind="stable")[:MOST_COLUMNS].tolist())
