"""Texts: numbers with the fewest digits that give the same float64 again."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from service.rows.rendering.cells import names_of, rows_of_cells, weighted_blocks, weights_of
from service.rows.spec import Label, Stored
from service.rows.table.arrays import blocks, sparse_rows


def write_csv(stored: Stored, file: BinaryIO) -> None:
    """A header if the columns have names; the labels are the last column."""
    _write_delimited(stored, file, ",")


def write_tsv(stored: Stored, file: BinaryIO) -> None:
    _write_delimited(stored, file, "\t")


def write_json(stored: Stored, file: BinaryIO) -> None:
    """`columns`, `rows` and `labels`, as an upload has them."""
    file.write(b"{")
    names = names_of(stored)
    if names is not None:
        file.write(b'"columns":' + orjson.dumps(names) + b",")
    file.write(b'"rows":[')
    if not stored.table:
        texts = (_numbers(block)[1:-1] for block in weighted_blocks(stored))
    else:
        texts = (orjson.dumps(rows)[1:-1] for rows in rows_of_cells(stored))
    for i, text in enumerate(texts):
        file.write((b"," if i else b"") + text)
    file.write(b"]")
    labels = stored.labels()
    if labels is not None:
        file.write(b',"labels":[')
        for start in range(0, len(labels), _LABELS_AT_ONCE):
            some = _texts(stored, labels[start : start + _LABELS_AT_ONCE], orjson.dumps)
            file.write((b"," if start else b"") + b",".join(some))
        file.write(b"]")
    file.write(b"}\n")


def write_ndjson(stored: Stored, file: BinaryIO) -> None:
    """One object a row; columns without names are called by their position from 0."""
    width = stored.n_features + (stored.weight is not None)
    names = names_of(stored) or [str(i) for i in range(width)]
    members = [orjson.dumps(name).replace(b"%", b"%%") + b":%b" for name in names]
    if stored.labeled:
        members.append(orjson.dumps(_label_name(stored)).replace(b"%", b"%%") + b":%b")
    template = b"{" + b",".join(members) + b"}\n"
    if stored.table:
        file.writelines(template % tuple(map(orjson.dumps, row)) for row in _table_rows(stored))
        return
    for rows, labels in _rows(stored, orjson.dumps):
        cells = (row.split(b",") for row in rows)
        if labels is None:
            file.writelines(template % tuple(row) for row in cells)
        else:
            pairs = zip(cells, labels, strict=True)
            file.writelines(template % (*row, label) for row, label in pairs)


def write_libsvm(stored: Stored, file: BinaryIO) -> None:
    """Indices from 1. If the last column is empty, the first row gives it a zero."""
    labels = stored.labels()
    paths = (stored.path(name) for name in ("indptr", "indices", "data"))
    highest = max((int(block.max()) for block in blocks(stored.path("indices"))), default=-1)
    width = b"" if highest + 1 == stored.n_features else b" %d:0" % stored.n_features
    weights, done = weights_of(stored), 0
    for lengths, indices, values in sparse_rows(*paths):
        texts = [b"0"] * len(lengths)
        if labels is not None:
            texts = _texts(stored, labels[done : done + len(lengths)], orjson.dumps)
        if weights is not None:
            costs = orjson.loads(_numbers(weights[done : done + len(lengths)]))
            texts = [b"%b cost:%a" % pair for pair in zip(texts, costs, strict=True)]
        cells = [_numbers(array)[1:-1].split(b",") for array in (indices + 1, values)]
        pairs = [b" %b:%b" % pair for pair in zip(*cells, strict=True)]
        ends = np.cumsum(lengths).tolist()
        for text, start, end in zip(texts, [0, *ends], ends, strict=False):
            file.write(text + b"".join(pairs[start:end]) + width + b"\n")
            width = b""
        done += len(lengths)


_LABELS_AT_ONCE = 100_000


def _write_delimited(stored: Stored, file: BinaryIO, delimiter: str) -> None:
    def cells(values: list[Any]) -> bytes:
        text = io.StringIO(newline="")
        # The writer quotes cells that hold a character of the terminator.
        csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(values)
        return text.getvalue()[:-2].encode()

    def label_cell(label: Label) -> bytes:
        return cells([label]) if isinstance(label, str) else orjson.dumps(label)

    separator = delimiter.encode()
    names = names_of(stored)
    if names is not None:
        label_name = [_label_name(stored)] if stored.labeled else []
        file.write(cells(names + label_name) + b"\n")
    if stored.table:
        file.writelines(cells(list(map(_csv_cell, row))) + b"\n" for row in _table_rows(stored))
        return
    for rows, labels in _rows(stored, label_cell):
        if delimiter != ",":
            rows = [row.replace(b",", separator) for row in rows]
        if labels is not None:
            pairs = zip(rows, labels, strict=True)
            rows = [row + separator + label for row, label in pairs]
        file.write(b"\n".join(rows) + b"\n")


def _rows(
    stored: Stored, encode: Callable[[Label], bytes]
) -> Iterator[tuple[list[bytes], list[bytes] | None]]:
    """Rows of numbers with commas in between, and their labels; some MiB at a time."""
    labels = stored.labels()
    done = 0
    for block in weighted_blocks(stored):
        rows = _numbers(block)[2:-2].split(b"],[")
        texts = None
        if labels is not None:
            texts = _texts(stored, labels[done : done + len(block)], encode)
        yield rows, texts
        done += len(block)


def _table_rows(stored: Stored) -> Iterator[tuple[Any, ...]]:
    """The cells of each row, its label last."""
    labels = stored.labels()
    done = 0
    for rows in rows_of_cells(stored):
        if labels is None:
            yield from rows
            continue
        some = labels[done : done + len(rows)].tolist()
        if stored.classes is not None:
            some = [stored.classes[code] for code in some]
        yield from ((*row, label) for row, label in zip(rows, some, strict=True))
        done += len(rows)


def _csv_cell(cell: Any) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else orjson.dumps(cell).decode()


def _texts(
    stored: Stored, labels: npt.NDArray[Any], encode: Callable[[Label], bytes]
) -> list[bytes]:
    if stored.classes is None:
        return [encode(value) for value in labels.tolist()]
    texts = [encode(label) for label in stored.classes]
    return [texts[code] for code in labels.tolist()]


def _numbers(array: npt.NDArray[Any]) -> bytes:
    """As nested JSON arrays; whole numbers without a fraction."""
    text = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
    return text.replace(b".0,", b",").replace(b".0]", b"]")


def _label_name(stored: Stored) -> str:
    """That of the label column; one that no other column has, if it has none."""
    name = stored.target or "label"
    while name in (names_of(stored) or ()):
        name += "_"
    return name
