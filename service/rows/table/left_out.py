"""What is left out of a table that was read: rows without a label, columns that name its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.common.figures import counted
from service.errors import MAX_FAULTS, Fault, InvalidContent
from service.rows.faults import called, no_features, shown, warning
from service.rows.spec import ParseSpec, ReadLimits, Stored, TableColumn
from service.rows.table.arrays import blocks, in_folder, rewriting, sparse_rows
from service.rows.table.beside import write_chosen_beside
from service.rows.table.labels import Target
from service.rows.table.texts import TextFiles, chosen, text_positions, write_texts
from service.rows.table.writers import (
    SparseWriter,
    Table,
    coded_positions,
    kept_kinds,
    raw_blocks,
    write_rows,
)

CODE = "missing-value"
MOST = 0.5
"""Share of the rows that may be left out unasked."""
ROWS_KEPT = 1000
"""Numbers of rows that `reading` has."""
SHOWN = 5
Mask = npt.NDArray[np.bool_]
Files = Callable[[str], Path]
"""The path of an array, by its name."""
NAMES = frozenset(
    {
        *("id", "index", "row", "rownames", "rowname", "row_id", "rowid", "row.names", "obs"),
        *("nr", "no", "no.", "#", "unnamed: 0"),
    }
)
"""In lower case; and all that end in `id`."""
_KEY = re.compile(r"(?:.*[^A-Za-z])?(?:[Ii][Dd]|[Nn][RrOo])\.?|.*[a-z](?:I[Dd]|N[ro])\.?")
"""Such as `id`, `customer_id`, `OrderNo`, `Kunden-Nr.`, but not `paid`."""
MIN_ROWS = 3
MIN_ROWS_OF_KEYS = 10
OF_LISTS = "its cells are lists"
NUMBERED = "it numbers the rows"
KEY = "an identifier: every number is different"


def target_hint(likely: list[str]) -> str:
    """What to do if another column holds the labels."""
    names = ", ".join(map(repr, likely[:SHOWN]))
    return "name the label with `target`" + (f"; likely are {names}" if names else "")


def without_unlabeled(spec: ParseSpec, table: Table, folder: Path) -> Table:
    """The table with the rows that have a label only; its arrays are written again.

    Raises InvalidContent `missing-value` if these are too few, or the caller refuses it.
    """
    target = table.labels
    if target is None or not target.missing:
        return table
    labeled = target.labeled
    rows = np.flatnonzero(~labeled) + 1
    _check(spec, table, target, rows.tolist())
    with rewriting(folder) as part:
        columns = write_chosen(table, in_folder(folder), labeled, part, spec.limits)
    count, words = len(rows), {word: n for word, n in target.missing.items() if word}
    those = counted(count, "row has no label and is", "rows have no label and are")
    message = f"{those} left out"
    if words:
        message += f": {_in_words(words)}; if it is a class, say in `schema` that the kind of the "
        message += "label is category"
    reading = {**(table.reading or {}), "unlabeled": {"count": count, "words": target.missing}}
    reading["unlabeled"]["rows"] = rows[:ROWS_KEPT].tolist()
    return replace(
        table,
        n_samples=table.n_samples - count,
        table=columns,
        labels=replace(target, array=target.array[labeled]),
        reading=reading,
        warnings=[*table.warnings, warning("missing-labels", message)],
    )


def _check(spec: ParseSpec, table: Table, target: Target, rows: list[int]) -> None:
    n, count = table.n_samples, len(rows)
    too_few = target.n_distinct < (1 if spec.onto or spec.asked.missing_labels == "drop" else 2)
    too_many = count > MOST * n and spec.asked.missing_labels == "auto"
    if not (too_few or too_many or spec.asked.missing_labels == "refuse"):
        return
    hints = (
        [target_hint(target.likely)] if spec.asked.target is None and spec.labels is None else []
    )
    if spec.asked.missing_labels == "refuse":
        hints.append("give each row a label, or leave out `missing_labels`")
    elif too_many:
        hints.append("say missing_labels=drop to leave these rows out")
        if spec.asked.target is not None:
            hints.append("name another column with `target`")
    hint = ", or ".join(hints) or "take another `target`"
    those = counted(count, "row has", "rows have")
    if too_many:
        those = f"more than half, {count:,} of {n:,} rows, have"
    message = f"{those} no label ({_in_words(target.missing)}); the first is row {rows[0]}"
    if too_few and not too_many:
        message += ", and the others have fewer than two classes"
    each, column = "the label is missing", table.target
    faults = tuple(
        Fault(code=CODE, message=f"row {row}: {each}", row=row, column=column, hint=hint)
        for row in rows[:MAX_FAULTS]
    )
    summary = {"column": column, "code": CODE, "count": count, "hint": hint}
    extra: dict[str, Any] = (
        {} if column is None else {"columns": [{**summary, "examples": sorted(target.missing)}]}
    )
    if target.likely:
        extra["likely_targets"] = target.likely
    raise InvalidContent(CODE, f"{message}; {hint}", faults, count, extra)


def _in_words(words: dict[str, int]) -> str:
    """How many rows have which word."""
    by_count = sorted(words.items(), key=lambda pair: -pair[1])[:SHOWN]
    return ", ".join(
        f"{shown(word) if word else 'empty'} {'once' if n == 1 else f'{n:,} times'}"
        for word, n in by_count
    )


def write_chosen(
    source: Stored | Table, files: Files, rows: Mask, folder: Path, limits: ReadLimits
) -> list[TableColumn]:
    """Write the features of these rows to `folder`, and what is beside them; the columns, with the
    levels of all rows."""
    folder.mkdir(exist_ok=True)
    write_chosen_beside(source, files, rows, folder)
    if source.sparse:
        _write_sparse(files, rows, folder, limits)
        return []
    missing = np.zeros(source.n_features, dtype=np.int64)
    kept: dict[int, list[Mask]] = {i: [] for i in text_positions(source.table)}

    def parts() -> Iterator[npt.NDArray[np.float64]]:
        start = 0
        for block in raw_blocks(source, files):
            some = rows[start : start + len(block)]
            start += len(block)
            for i, masks in kept.items():
                masks.append(some[~np.isnan(block[:, i])])
            part = block[some]
            missing[:] += np.isnan(part).sum(axis=0)
            yield part

    write_rows(folder, parts(), source.table, source.n_features, limits)
    if kept:
        texts = TextFiles(source, files)
        runs = (chosen(texts.runs(i), np.concatenate(masks)) for i, masks in kept.items())
        write_texts(folder, chain.from_iterable(runs))
    counted = zip(source.kinds, missing.tolist(), strict=True)
    return kept_kinds(replace(column, missing=count) for column, count in counted)


def _write_sparse(files: Files, rows: Mask, folder: Path, limits: ReadLimits) -> None:
    with SparseWriter(folder, limits) as writer:
        start = 0
        for lengths, indices, values in sparse_rows(*map(files, ("indptr", "indices", "data"))):
            mask = rows[start : start + len(lengths)]
            entries = np.repeat(mask, lengths)
            writer.add(lengths[mask], indices[entries], values[entries])
            start += len(lengths)
        writer.finish()


def without_row_numbers(spec: ParseSpec, table: Table, folder: Path) -> Table:
    """The table without columns of whole numbers that count up from row to row, or are all
    different, under a name for that; `X.npy` is written again. Columns of which `schema` says
    something are kept.

    Raises InvalidContent if no other feature is left.
    """
    if table.sparse or table.columns is None or table.n_samples < MIN_ROWS:
        return table
    in_X = np.delete(np.arange(table.n_features), coded_positions(table.table)).tolist()
    dropped: dict[int, str] = {}
    for place, i in enumerate(in_X):
        if table.kinds[i].kind == "number" and table.columns[i] not in spec.asked.schema:
            reason = _reason(folder / "X.npy", place, table.columns[i])
            if reason is not None:
                dropped[i] = reason
    if not dropped:
        return table
    reasons = {table.columns[i]: reason for i, reason in dropped.items()}
    ignored = [*({"name": name, "reason": why} for name, why in reasons.items()), *table.ignored]
    if len(dropped) == table.n_features:
        raise no_features([(one["name"], one["reason"]) for one in ignored])
    n_features = table.n_features - len(dropped)
    kept = kept_kinds(one for i, one in enumerate(table.kinds) if i not in dropped)
    rows = raw_blocks(table, in_folder(folder))
    with rewriting(folder) as part:
        others = (np.delete(block, list(dropped), axis=1) for block in rows)
        write_rows(part, others, kept, n_features, spec.limits)
    return replace(
        table,
        n_features=n_features,
        columns=[name for i, name in enumerate(table.columns) if i not in dropped],
        table=kept,
        ignored=ignored,
        warnings=[*(ignoring(name, why) for name, why in reasons.items()), *table.warnings],
        reading=_reading(table.reading, reasons),
    )


def ignoring(column: str | int, reason: str) -> dict[str, Any]:
    """The warning about a column that is ignored without being asked for."""
    message = f"the column {called(column)} is ignored: {reason}"
    return warning("ignored-column", message, [str(column)])


def _reason(path: Path, place: int, name: str) -> str | None:
    """Why a column of X is ignored, if it is: by its name, and by its values."""
    may_count = name.lower() in NAMES or name.lower().endswith("id")
    may_be_key = _KEY.fullmatch(name) is not None
    if not (may_count or may_be_key):
        return None
    values = np.concatenate([block[:, place].copy() for block in blocks(path)])
    if may_count and (np.diff(values) == 1).all():
        return NUMBERED
    if may_be_key and len(values) >= MIN_ROWS_OF_KEYS and (values == np.floor(values)).all():
        return KEY if len(np.unique(values)) == len(values) else None
    return None


def _reading(reading: dict[str, Any] | None, names: Collection[str]) -> dict[str, Any] | None:
    if reading is None or "columns" not in reading:
        return reading
    notes = {name: one for name, one in reading["columns"].items() if name not in names}
    return {**reading, "columns": notes}
