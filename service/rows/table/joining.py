"""Rows appended to a stored dataset: its arrays come first, then those that were read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from service.errors import InvalidContent
from service.rows.faults import refuse, too_many
from service.rows.spec import LIBSVM, Label, ParseSpec, ReadLimits, Stored
from service.rows.table.arrays import ArrayWriter, blocks
from service.rows.table.joining_tables import append_table, append_weights
from service.rows.table.layout import feature_order
from service.rows.table.target import Target, as_kind, joined, kind_of, number_of
from service.rows.table.writers import Table


def expecting(spec: ParseSpec, stored: Stored) -> ParseSpec:
    """What to expect of rows to append to `stored`.

    LIBSVM rows are stored as those of the dataset are. Raises InvalidContent `feature-mismatch` for
    dense rows to sparse ones, LIBSVM rows to columns with names or kinds, and for fewer columns
    than there are.
    """
    sparse = spec.media_type == LIBSVM
    if sparse and not stored.sparse and stored.columns is None and stored.table is None:
        if spec.dense == "never":
            raise InvalidContent("feature-mismatch", "the dataset is dense: leave out `dense`")
        if spec.n_features not in (None, stored.n_features):
            raise _fewer(stored, spec)
        return replace(spec, n_features=stored.n_features, dense="always")
    if sparse and spec.dense == "always":
        raise InvalidContent("feature-mismatch", "the dataset is sparse: leave out `dense`")
    if sparse != stored.sparse:
        message = f"the dataset is {'sparse' if stored.sparse else 'dense'}, the rows are not"
        hint = f"send them as {LIBSVM}" if stored.sparse else "send them in a dense format"
        raise refuse("feature-mismatch", message, hint=hint)
    if not sparse:
        return spec
    if spec.n_features is not None and spec.n_features < stored.n_features:
        raise _fewer(stored, spec)
    return replace(spec, n_features=spec.n_features or stored.n_features, dense="never")


def _fewer(stored: Stored, spec: ParseSpec) -> InvalidContent:
    return InvalidContent(
        "feature-mismatch",
        f"the dataset has {stored.n_features} columns, n_features says {spec.n_features}",
        extra={"expected": stored.n_features, "got": spec.n_features},
    )


def append(stored: Stored, table: Table, folder: Path, limits: ReadLimits) -> Table:
    """The whole table, its arrays in `folder`: as if all had been uploaded in one piece.

    The arrays of `table` are in `folder`. Those stored are only read, so that all of it can be
    done again if this process dies. Raises TooLarge, and InvalidContent `feature-mismatch` or
    `label-mismatch`.
    """
    n_samples = stored.n_samples + table.n_samples
    if n_samples > limits.rows:
        raise too_many("rows", limits.rows)
    target = _labels(stored, table)
    if table.sparse:
        _append_sparse(stored, folder, limits)
        columns = None
    elif stored.table is None and table.table is None:
        _append_dense(stored, table, folder, limits)
        columns = None
    else:
        columns = append_table(stored, table, folder, limits)
    append_weights(stored, table, folder)
    return Table(
        n_samples=n_samples,
        n_features=table.n_features,
        sparse=table.sparse,
        columns=stored.columns,
        target_name=stored.target,
        target=target,
        table=columns,
        weight=stored.weight,
        ignored=stored.ignored,
        reading=stored.reading,
        warnings=table.warnings,
    )


def _append_dense(stored: Stored, table: Table, folder: Path, limits: ReadLimits) -> None:
    shape = (stored.n_samples + table.n_samples, stored.n_features)
    if shape[0] * shape[1] > limits.stored_values:
        raise too_many("values", limits.stored_values)
    order = feature_order(stored, table.columns, table.n_features)
    with ArrayWriter(folder / "joined", "<f8") as writer:
        writer.copy(stored.path("X"))
        for block in blocks(folder / "X.npy"):
            writer.write(block if order is None else block[:, order])
        writer.finish(shape)
    (folder / "joined").replace(folder / "X.npy")


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


def _labels(stored: Stored, table: Table) -> Target | None:
    target = table.target
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
    return joined((stored.classes, before), (classes, target.array))


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
        column=table.target_name,
        value=str(labels[code])[:64],
        hint="labels of one dataset are of one kind",
    )
