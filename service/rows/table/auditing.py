"""The audit of a dataset's arrays, from a sample that is taken while they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.rows.table.texts import text_positions
from service.rows.table.writers import Table
from svm.audit import MOST_COLUMNS, audited, sampled_rows
from svm.data.row_hashes import Words
from svm.data.texts import StoredTexts, with_texts

Block = npt.NDArray[np.float64]


REPEATS = ("group", "duplicates", "near-duplicates")
"""Findings that ask for the role `group`."""


class Sampled:
    """The rows that an audit looks at, of blocks that are added in order."""

    def __init__(self, table: Table) -> None:
        self.rows = sampled_rows(table.n_samples, table.n_features)
        self._done = 0
        self._parts = [np.empty((0, table.n_features))]

    def add(self, block: Block) -> None:
        """(rows, n_features)"""
        first, stop = np.searchsorted(self.rows, (self._done, self._done + len(block)))
        self._parts.append(block[self.rows[first:stop] - self._done])
        self._done += len(block)

    def matrix(self, folder: Path, table: Table) -> Block:
        X = np.concatenate(self._parts)
        if not text_positions(table.table):
            return X
        octets = np.load(folder / "texts.npy", mmap_mode="r")
        return with_texts(X, StoredTexts(octets, np.load(folder / "text_ends.npy")))


def audit_dense(
    folder: Path, table: Table, sampled: Sampled, hashes: Words
) -> list[dict[str, Any]]:
    """The findings; `hashes`: of all rows, without labels."""
    return _audited(
        table, sampled.matrix(folder, table), sampled.rows, hashes, range(table.n_features)
    )


def audit_sparse(folder: Path, table: Table, hashes: Words) -> list[dict[str, Any]]:
    """The same of the columns with the most entries."""
    rows = sampled_rows(table.n_samples, MOST_COLUMNS)
    indptr, indices, data = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices", "data")
    )
    runs = [slice(*indptr[row : row + 2].tolist()) for row in rows.tolist()]
    used = np.bincount(np.concatenate([indices[run] for run in runs]), minlength=table.n_features)
    chosen = np.sort(np.argsort(-used, kind="stable")[:MOST_COLUMNS])
    places = np.full(table.n_features, len(chosen))  # of others in a column that is cut off
    places[chosen] = np.arange(len(chosen))
    X = np.zeros((len(rows), len(chosen) + 1))
    for row, run in zip(X, runs, strict=True):
        row[places[indices[run]]] = data[run]
    return _audited(table, X[:, :-1], rows, hashes, chosen.tolist())


def _audited(
    table: Table, X: Block, rows: npt.NDArray[np.int64], hashes: Words, places: Sequence[int]
) -> list[dict[str, Any]]:
    """`places`: of the columns of X in the table."""
    target = table.labels
    findings = audited(
        X,
        rows,
        None if target is None else target.array,
        [table.kinds[j] for j in places],
        hashes,
        called=[j if table.columns is None else table.columns[j] for j in places],
        classes=None if target is None else target.classes,
        target=table.target,
        n_features=table.n_features,
    )
    # Of rows that splits keep together it is known already.
    known = REPEATS if table.group is not None else ()
    return [finding.as_dict() for finding in findings if finding.name not in known]
