"""Rows appended to a stored dataset: its arrays come first, then those that were read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent
from service.rows.cell_texts.number_text import MAX_LEVELS
from service.rows.faults import refuse, too_many
from service.rows.spec import LIBSVM, Label, ParseSpec, ReadLimits, Stored, TableColumn
from service.rows.table.arrays import ArrayWriter, in_folder, rewriting
from service.rows.table.beside import append_beside
from service.rows.table.labels import (
    Target,
    as_kind,
    join_labels,
    kind_of,
    most_classes,
    number_of,
)
from service.rows.table.layout import feature_order
from service.rows.table.texts import TextFiles, text_positions, write_texts
from service.rows.table.writers import Table, kept_kinds, raw_blocks, stored_blocks, write_rows
from svm.data.columns import Column, in_order
from svm.encoding.recoding import recoding

Block = npt.NDArray[np.float64]


def expect_rows(spec: ParseSpec, *, sparse: bool) -> ParseSpec:
    """What to expect of rows, `sparse` or not, that are appended to a dataset: sparse ones are
    stored as those of the dataset are.

    Raises InvalidContent `feature-mismatch` for dense rows to sparse ones, sparse rows to columns
    with names or kinds, and for fewer columns than there are.
    """
    stored, asked = spec.onto, spec.asked
    if stored is None:
        return spec
    if sparse and not stored.sparse and stored.columns is None and not stored.table:
        if asked.dense == "never":
            raise InvalidContent("feature-mismatch", "the dataset is dense: leave out `dense`")
        if asked.n_features not in (None, stored.n_features):
            raise _fewer(stored, spec)
        return spec.asking(n_features=stored.n_features, dense="always")
    if sparse and asked.dense == "always":
        raise InvalidContent("feature-mismatch", "the dataset is sparse: leave out `dense`")
    if sparse != stored.sparse:
        message = f"the dataset is {'sparse' if stored.sparse else 'dense'}, the rows are not"
        hint = f"send them as {LIBSVM}" if stored.sparse else "send them in a dense format"
        raise refuse("feature-mismatch", message, hint=hint)
    if not sparse:
        return spec
    if asked.n_features is not None and asked.n_features < stored.n_features:
        raise _fewer(stored, spec)
    return spec.asking(n_features=asked.n_features or stored.n_features, dense="never")


def _fewer(stored: Stored, spec: ParseSpec) -> InvalidContent:
    return InvalidContent(
        "feature-mismatch",
        f"the dataset has {stored.n_features} columns, n_features says {spec.asked.n_features}",
        extra={"expected": stored.n_features, "got": spec.asked.n_features},
    )


def append(spec: ParseSpec, stored: Stored, table: Table, folder: Path) -> Table:
    """The whole table, its arrays in `folder`: as if all had been uploaded in one piece.

    The arrays of `table` are in `folder`. Those stored are only read, so that all of it can be
    done again if this process dies. Raises TooLarge, and InvalidContent `feature-mismatch` or
    `label-mismatch`.
    """
    limits, n_samples = spec.limits, stored.n_samples + table.n_samples
    if n_samples > limits.rows:
        raise too_many("rows", limits.rows)
    target = _labels(spec, stored, table)
    if table.sparse:
        _append_sparse(stored, folder, limits)
    columns = [] if table.sparse else _append_features(stored, table, folder, limits)
    append_beside(stored, table, folder)
    return replace(
        table,
        n_samples=n_samples,
        columns=stored.columns,
        target=stored.target,
        labels=target,
        table=columns,
        beside=stored.beside,
        ignored=stored.ignored,
        reading=stored.reading,
    )


def _append_sparse(stored: Stored, folder: Path, limits: ReadLimits) -> None:
    first, second = np.load(stored.path("indptr")), np.load(folder / "indptr.npy")
    n_stored = int(first[-1]) + int(second[-1])
    if n_stored > min(limits.stored_values, np.iinfo(np.int32).max):
        raise too_many("values", limits.stored_values)
    for name, dtype in (("data", "<f8"), ("indices", "<i4")):
        with ArrayWriter(folder / "joined", dtype) as writer:
            writer.copy(stored.path(name))
            writer.copy(folder / f"{name}.npy")
            writer.finish((n_stored,))
        (folder / "joined").replace(folder / f"{name}.npy")
    with ArrayWriter(folder / "indptr.npy", "<i4") as writer:
        writer.write(first)
        writer.write(second[1:] + first[-1])
        writer.finish((len(first) + len(second) - 1,))


def _labels(spec: ParseSpec, stored: Stored, table: Table) -> Target | None:
    target = table.labels
    if target is None and not stored.labeled:
        return None
    if target is None:
        hint = "send each row with its label"
        raise refuse("label-mismatch", "the dataset has labels, the rows have none", hint=hint)
    if not stored.labeled:
        hint = "leave them out, or say target=none"
        raise refuse("label-mismatch", "the dataset has no labels, the rows have", hint=hint)
    before = stored.labels()
    assert before is not None
    classes = _of_kind(stored, table, target)
    parts = (stored.classes, before), (classes, target.array)
    numbers = stored.classes is None or target.demanded
    joined = join_labels(*parts, numbers=numbers, most=most_classes(spec))
    return replace(joined, demanded=target.demanded)


def _of_kind(stored: Stored, table: Table, target: Target) -> list[Label] | None:
    """The classes of the rows as labels of the kind that the dataset has: a text that is a number
    is equal to it. Raises InvalidContent `label-mismatch`."""
    expected, labels = kind_of(stored.classes), target.classes or [0.0]
    same = [as_kind(label, expected) for label in labels]
    if None not in same:
        return target.classes and [label for label in same if label is not None]
    wrong = [code for code, label in enumerate(same) if label is None]
    # Of a file's texts rather the one that is not a number: it made texts of the others.
    code = min(wrong, key=lambda code: number_of(str(labels[code])) is not None)
    row = 1 if target.classes is None else int(np.argmax(target.array == code)) + 1
    raise refuse(
        "label-mismatch",
        f"row {row}: the label is a {kind_of([labels[code]])}, the dataset's are {expected}s",
        row=row,
        column=table.target,
        value=str(labels[code])[:64],
        hint="labels of one dataset are of one kind",
    )


def _append_features(
    stored: Stored, table: Table, folder: Path, limits: ReadLimits
) -> list[TableColumn]:
    """Write the arrays of the stored rows and those read, in `folder`; the columns of all.

    Raises TooLarge and InvalidContent `feature-mismatch`.
    """
    order = feature_order(stored, table.columns, table.n_features)
    before, after = stored.kinds, table.kinds
    if order is not None:
        after = [after[i] for i in order]
    pairs = list(zip(before, after, strict=True))
    merged = [_merge(*pair) for pair in pairs]
    recode = recoding([replace(new, name=old.name) for old, new in pairs], merged)

    def rows() -> Iterator[Block]:
        yield from map(recoding(before, merged), stored_blocks(stored))
        done = 0
        for block in raw_blocks(table, in_folder(folder)):
            block = block if order is None else block[:, order]
            _require_booleans(block, done, pairs)
            done += len(block)
            yield recode(block)

    kept = kept_kinds(merged)
    with rewriting(folder) as joined_folder:
        write_rows(joined_folder, rows(), kept, stored.n_features, limits)
        if columns := text_positions(kept):
            parts = TextFiles(stored, stored.path), TextFiles(table, in_folder(folder))
            both = ((i, i if order is None else order[i]) for i in columns)
            runs = (part.runs(i) for pair in both for part, i in zip(parts, pair, strict=True))
            write_texts(joined_folder, chain.from_iterable(runs))
    return kept


def _merge(before: Column, after: Column) -> Column:
    kinds = before.kind, after.kind
    if kinds[0] != kinds[1] and not set(kinds) <= {"number", "boolean"}:
        message = f"the column {before.name!r} is a {kinds[0]} in the dataset, here a {kinds[1]}"
        raise refuse("feature-mismatch", message, column=before.name)
    levels = in_order({*before.levels, *after.levels})
    if len(levels) > MAX_LEVELS:
        message = f"with these rows {before.name!r} has more than {MAX_LEVELS:,} levels"
        raise InvalidContent("too-many-levels", message, extra={"limit": MAX_LEVELS})
    return replace(before, levels=tuple(levels), missing=before.missing + after.missing)


def _require_booleans(block: Block, done: int, pairs: Sequence[tuple[Column, Column]]) -> None:
    """Numbers for a column of booleans are 1 and 0; `done` rows came before the block."""
    for i, (column, new) in enumerate(pairs):
        if column.kind != "boolean" or new.kind == "boolean":
            continue
        cells = block[:, i]
        bad = np.flatnonzero((cells != 0.0) & (cells != 1.0) & ~np.isnan(cells))
        if len(bad):
            row, value = done + int(bad[0]) + 1, f"{cells[bad[0]]:g}"
            name, message = column.name, f"{value!r} is not true or false"
            message = f"row {row}, column {name!r}: {message}"
            hint = "the dataset has booleans there: give true or false, 1 or 0"
            raise refuse("not-a-boolean", message, row=row, column=name, value=value, hint=hint)
