"""What follows from the arrays of a dataset: digest, statistics, warnings.

The arrays are read back in blocks, so all this depends on nothing but the values.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.common.figures import counted
from service.rows.cell_texts.number_text import similar
from service.rows.faults import listed, warning
from service.rows.spec import Parsed
from service.rows.table.arrays import blocks, in_folder, write_array
from service.rows.table.auditing import Sampled, audit_dense, audit_sparse
from service.rows.table.beside import arrays_beside, bytes_beside, likely_roles, statistics_beside
from service.rows.table.labels import MAX_CLASSES, MOST_CLASSES, Target
from service.rows.table.texts import TEXT_ARRAYS, described_texts, text_positions
from service.rows.table.writers import Table, arrays_of, coded_positions, raw_blocks
from svm.data.row_hashes import (
    Words,
    dense_hashes,
    entry_hashes,
    mixed,
    multipliers,
)

MAX_CLASSES_OF_A_JOB = 100
"""By default, to be named as a way out."""
AT_ONCE = 1 << 20
EXACT = 2.0**53
"""Above it not every whole number is a float64."""
_CODE = re.compile(
    r"(?i:(?:^|[_ .-])(?:id|plz|zip|code)$|(?:zip|post|postal)[_ -]?code)|[a-z](?:Id|ID|Code)$"
)
"""In names of columns that count nothing."""
Vector = npt.NDArray[np.float64]


def describe(folder: Path, table: Table, max_columns: int) -> Parsed:
    """Write the labels beside X, and describe the dataset.

    Statistics per column are left out of sparse data with more than `max_columns` columns.
    """
    arrays = ["data", "indices", "indptr"] if table.sparse else _dense_arrays(table)
    arrays += arrays_beside(table)
    target = table.labels
    if target is not None:
        # Codes and values have different names, so that they cannot be confused.
        arrays.append("y" if target.classes is not None else "values")
        write_array(folder / f"{arrays[-1]}.npy", target.array)
    digest, statistics, warnings = _digest_and_statistics(folder, table, max_columns)
    if target is not None:
        table, warnings = replace(table, classes=target.classes), [*target.warnings, *warnings]
    texts = statistics.get("texts", {})
    columns = [
        one | {"characters": texts[one["name"]]["characters"]} if one["name"] in texts else one
        for one in table.table
    ]
    table = replace(table, table=columns)
    return Parsed(
        **table.described(),
        class_counts=None if target is None else target.counts,
        statistics=statistics,
        warnings=[*table.warnings, *warnings],
        matrix_digest=digest,
        arrays=arrays,
    )


def _dense_arrays(table: Table) -> list[str]:
    return [*arrays_of(table), *(TEXT_ARRAYS if text_positions(table.table) else ())]


def _digest_and_statistics(
    folder: Path, table: Table, max_columns: int
) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """The matrix digest, the statistics, and the warnings.

    The digest is a sha-256 over shape, values and labels: of a dense matrix the values as
    little-endian float64 in C order, so that all formats give the same one; of a sparse matrix
    its CSR arrays without zeros. Equal matrices, one dense and one sparse, differ in it. A table
    with kinds has its own format: shape, kinds and levels, then the numbers and the codes.
    """
    shape = (table.n_samples, table.n_features)
    digest = hashlib.sha256()
    digest.update(json.dumps(_described(table, shape)).encode())
    row_hashes = np.empty(table.n_samples, dtype=np.uint64)
    columns: dict[str, list[float | None]] | None = None
    texts: dict[str, dict[str, Any]] = {}
    if table.sparse:
        for name in ("indptr", "indices", "data"):
            for block in blocks(folder / f"{name}.npy"):
                digest.update(np.ascontiguousarray(block).data)
        _hash_sparse_rows(folder, row_hashes)
        audit = audit_sparse(folder, table, row_hashes)
        if table.n_features <= max_columns:
            columns = _sparse_statistics(folder, shape)
    else:
        arrays = _dense_arrays(table)
        for name in arrays if "codes" in arrays else ():
            for block in blocks(folder / f"{name}.npy"):
                digest.update(np.ascontiguousarray(block).data)
        moments, sampled = Moments(table.n_features), Sampled(table)
        of_columns, done = multipliers(table.n_features), 0
        with_text: dict[int, list[npt.NDArray[np.bool_]]] = {
            i: [] for i in text_positions(table.table)
        }
        for block in raw_blocks(table, in_folder(folder)):
            moments.add(block)
            sampled.add(block)
            if "codes" not in arrays:
                digest.update(block.data)
            for i, masks in with_text.items():
                masks.append(~np.isnan(block[:, i]))
                block[masks[-1], i] = 0.0  # the hash of its text is added below
            row_hashes[done : done + len(block)] = dense_hashes(block, of_columns)
            done += len(block)
        columns = moments.statistics()
        for values in columns.values():
            for i in coded_positions(table.table):
                values[i] = None
        for i, statistics, hashes in described_texts(table, in_folder(folder)):
            row_hashes[np.concatenate(with_text[i])] += mixed(hashes) * of_columns[i]
            texts[table.table[i]["name"]] = statistics
        audit = audit_dense(folder, table, sampled, row_hashes)
    for some in bytes_beside(table, folder):
        digest.update(some)
    _digest_labels(digest, table.labels)
    if columns is None:
        largest = _sparse_largest(folder, table.n_features)
    else:
        largest = np.maximum(-_array(columns["min"]), _array(columns["max"]))
        largest[[column["kind"] == "category" for column in table.table]] = 1.0
    known: dict[str, Any] = {"columns": columns, "extremes": _extremes(largest), "audit": audit}
    known |= statistics_beside(table, folder)
    if texts:
        known["texts"] = texts
    if table.labels is not None:
        known["target"] = _target_statistics(table.labels)
    row_hashes.sort()
    n_duplicates = int(np.count_nonzero(row_hashes[1:] == row_hashes[:-1]))
    if any(one["name"] == "duplicates" for one in audit):
        n_duplicates = 0  # said already
    warnings = [*_warnings(table, columns, n_duplicates), *likely_roles(table, folder)]
    return digest.hexdigest(), known, warnings


def _described(table: Table, shape: tuple[int, int]) -> dict[str, Any]:
    """The beginning of what the digest covers."""
    if not table.table:
        return {"format": 1, "layout": "csr" if table.sparse else "dense", "shape": shape}
    columns = [[column["kind"], column["levels"]] for column in table.table]
    return {"format": 2, "layout": "table", "shape": shape, "columns": columns}


def _digest_labels(digest: Any, target: Target | None) -> None:
    classes = None if target is None else target.classes
    digest.update(json.dumps({"labels": target is not None, "classes": classes}).encode())
    if target is not None:
        digest.update(np.ascontiguousarray(target.array).data)


def _target_statistics(target: Target) -> dict[str, Any]:
    """How many labels are different; of numbers also where they lie and, if they can be classes,
    which these are."""
    known: dict[str, Any] = {"distinct": target.n_distinct, "continuous": target.continuous}
    if target.classes is not None:
        return known
    moments = Moments(1)
    for start in range(0, len(target.array), AT_ONCE):
        moments.add(target.array[start : start + AT_ONCE, None])
    known |= {name: values[0] for name, values in moments.statistics().items()}
    with np.errstate(over="ignore"):
        known["median"] = _finite(np.median(target.array, keepdims=True))[0]
    few = target.n_distinct <= MAX_CLASSES and not target.continuous
    if few and max(map(abs, (known["min"], known["max"]))) <= EXACT:
        classes, counts = np.unique(target.array, return_counts=True)
        known |= {"classes": classes.astype(np.int64).tolist(), "counts": counts.tolist()}
    return known


def _hash_sparse_rows(folder: Path, row_hashes: Words) -> None:
    indptr = np.load(folder / "indptr.npy")
    row_hashes[:] = 0
    start = 0
    entries = zip(blocks(folder / "indices.npy"), blocks(folder / "data.npy"), strict=True)
    for indices, values in entries:
        entries_here = np.arange(start, start + len(values), dtype=indptr.dtype)
        rows = np.searchsorted(indptr, entries_here, side="right") - 1
        np.add.at(row_hashes, rows, entry_hashes(indices, values))
        start += len(values)


def _sparse_largest(folder: Path, n_columns: int) -> Vector:
    largest = np.zeros(n_columns)
    entries = zip(blocks(folder / "indices.npy"), blocks(folder / "data.npy"), strict=True)
    for indices, values in entries:
        np.maximum.at(largest, indices, np.abs(values))
    return largest


def _extremes(largest: Vector) -> list[list[float]] | None:
    """The columns with the smallest and the largest |value|, and these values. Columns of zeros or
    without numbers do not count."""
    counted = np.flatnonzero(largest > 0)
    if not len(counted):
        return None
    ends = (counted[end(largest[counted])] for end in (np.argmin, np.argmax))
    return [[int(k), float(largest[k])] for k in ends]


def _sparse_statistics(folder: Path, shape: tuple[int, int]) -> dict[str, list[float | None]]:
    moments = SparseMoments(*shape)
    for finish in (moments.add, moments.add_deviations):
        entries = zip(blocks(folder / "indices.npy"), blocks(folder / "data.npy"), strict=True)
        for indices, values in entries:
            finish(indices, values)
    return moments.statistics()


def _warnings(
    table: Table, columns: dict[str, list[float | None]] | None, n_duplicates: int
) -> Iterator[dict[str, Any]]:
    if columns is not None:
        yield from _column_warnings(table, columns)
    if table.labels is not None:
        yield from _label_warnings(table.labels, table.target)
    if n_duplicates:
        those = counted(n_duplicates, "row has", "rows have")
        yield warning("duplicates", f"{those} the same features as another one")


def _label_warnings(target: Target, name: str | None) -> Iterator[dict[str, Any]]:
    classes, counts = target.classes or [], target.counts or []
    what = "the label" if name is None else repr(name)
    if target.classes is None:
        if target.n_distinct <= MAX_CLASSES and not target.demanded:
            yield warning("numeric-target", _as_numbers(target, what, name))
    elif len(classes) > MOST_CLASSES and isinstance(classes[0], int):
        message = f"{what} has {len(classes):,} different whole numbers, which are classes; if "
        message += 'they are amounts, train with `loss: "epsilon-insensitive"`'
        yield warning("many-labels", message)
    elif len(counts) > 1 and min(counts) * 10 < max(counts):
        message = f"the smallest class has {counted(min(counts), 'row', 'rows')}"
        yield warning("imbalanced", f"{message}, the largest {max(counts):,}")
    message = similar("classes", [label for label in classes if isinstance(label, str)])
    if message:
        yield warning("similar-levels", message)


def _as_numbers(target: Target, what: str, name: str | None) -> str:
    """That labels are a numeric target, and how they become classes."""
    values = counted(target.n_distinct, "value", "different values")
    message = f"{what} is a numeric target with {values}: models predict the number"
    ways = []
    if name is not None:
        schema = {name: {"kind": "category", "role": "label"}}
        ways.append(f"say schema={json.dumps(schema, ensure_ascii=False)}")
    if target.n_distinct <= MAX_CLASSES_OF_A_JOB and not target.continuous:
        ways.append('train with `loss: "hinge"`')
    return f"{message}; if these are classes, {' or '.join(ways)}" if ways else message


def _column_warnings(
    table: Table, columns: dict[str, list[float | None]]
) -> Iterator[dict[str, Any]]:
    def name_of(i: np.intp) -> str | int:
        return int(i) if table.columns is None else table.columns[i]

    low, high = _array(columns["min"]), _array(columns["max"])
    constant = np.flatnonzero(low == high)
    if len(constant):
        message = counted(len(constant), "column has", "columns have")
        message += " the same value in every row"
        yield warning("constant-columns", message, list(map(name_of, constant)))
    codes = [i for i in np.flatnonzero((low % 1 == 0) & (high % 1 == 0)) if _may_be_code(table, i)]
    if codes:
        named = [str(name_of(i)) for i in codes[:20]]
        schema = json.dumps({name: {"kind": "category"} for name in named}, ensure_ascii=False)
        message = f"{listed(named)} may be codes, not amounts; if so, say schema={schema}"
        yield warning("may-be-codes", message, named)
    inexact = np.flatnonzero(np.maximum(np.abs(low), np.abs(high)) > EXACT)
    if len(inexact):
        message = counted(len(inexact), "column goes", "columns go")
        message += " beyond 2^53, where whole numbers are rounded; if they are identifiers, ignore "
        message += "them or say that they are categories"
        yield warning("inexact-integers", message, list(map(name_of, inexact)))
    with np.errstate(over="ignore"):
        ranges = np.sort((high - low)[low != high])
    # Against the lower quartile: a few columns that hardly ever change say nothing.
    if len(ranges) and float(ranges[-1]) > 10 * float(ranges[(len(ranges) - 1) // 4]):
        yield warning("unscaled", "columns differ in scale, which `scaling` evens out")


def _may_be_code(table: Table, i: np.intp) -> bool:
    """Whether a column of numbers has the name of a code."""
    column = table.kinds[int(i)]
    return column.kind == "number" and _CODE.search(column.name) is not None


class Moments:
    """Dense blocks, joined as Chan, Golub and LeVeque (1979) do: no squares of large sums. NaN is a
    missing cell, which does not count."""

    def __init__(self, n_columns: int) -> None:
        self._count = np.zeros(n_columns)
        self._mean = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)  # Σ (x - mean)²
        self._min = np.full(n_columns, np.inf)
        self._max = np.full(n_columns, -np.inf)

    def add(self, block: npt.NDArray[np.float64]) -> None:
        """(rows, n_columns), at least one row."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = block.sum(axis=0)
        missing = np.isnan(block) if np.isnan(total).any() else None
        here = len(block) - (np.zeros(()) if missing is None else missing.sum(axis=0))
        count = np.maximum(self._count + here, 1)

        def filled(values: Vector, value: float) -> Vector:
            return values if missing is None else np.where(missing, value, values)

        with np.errstate(over="ignore", invalid="ignore"):
            total = total if missing is None else filled(block, 0).sum(axis=0)
            mean = total / np.maximum(here, 1)
            delta = mean - self._mean
            squares = filled(block - mean, 0) ** 2
            self._squares += squares.sum(axis=0) + delta**2 * (self._count * here / count)
            self._mean += delta * (here / count)
        self._min = np.minimum(self._min, filled(block, np.inf).min(axis=0))
        self._max = np.maximum(self._max, filled(block, -np.inf).max(axis=0))
        self._count += here

    def statistics(self) -> dict[str, list[float | None]]:
        """None for a column without values."""
        count = np.maximum(self._count, 1)
        statistics = _statistics(self._min, self._max, self._mean, self._squares, count)
        for i in np.flatnonzero(self._count == 0).tolist():
            for values in statistics.values():
                values[i] = None
        return statistics


class SparseMoments:
    """Stored entries in two passes: all of `add` first, then all of `add_deviations`."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self._n_rows = n_rows
        self._stored = np.zeros(n_columns, dtype=np.int64)
        self._sum = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)
        self._min = np.full(n_columns, np.inf)
        self._max = np.full(n_columns, -np.inf)

    def add(self, columns: npt.NDArray[Any], values: Vector) -> None:
        """Entries: their columns and their values."""
        n_columns = len(self._sum)
        self._stored += np.bincount(columns, minlength=n_columns)
        with np.errstate(over="ignore", invalid="ignore"):
            self._sum += np.bincount(columns, values, n_columns)
        np.minimum.at(self._min, columns, values)
        np.maximum.at(self._max, columns, values)

    def add_deviations(self, columns: npt.NDArray[Any], values: Vector) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            deviations = (values - (self._sum / self._n_rows)[columns]) ** 2
            self._squares += np.bincount(columns, deviations, len(self._sum))

    def statistics(self) -> dict[str, list[float | None]]:
        zeros = self._n_rows - self._stored
        low = np.where(zeros > 0, np.minimum(self._min, 0), self._min)
        high = np.where(zeros > 0, np.maximum(self._max, 0), self._max)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self._sum / self._n_rows
            squares = self._squares + zeros * mean**2
        return _statistics(low, high, mean, squares, self._n_rows)


def _statistics(
    low: Vector, high: Vector, mean: Vector, squares: Vector, count: int | Vector
) -> dict[str, list[float | None]]:
    """The standard deviation is that of these rows (divided by n). None: beyond float64."""
    return {
        "min": low.tolist(),
        "max": high.tolist(),
        "mean": _finite(mean),
        "std": _finite(np.sqrt(squares / count)),
    }


def _array(values: list[float | None]) -> Vector:
    """NaN for None."""
    return np.array(values, dtype=np.float64)


def _finite(values: Vector) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
