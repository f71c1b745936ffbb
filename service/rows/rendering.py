"""From stored arrays to the formats of uploads; what is read from them again is the same.

In texts numbers have the fewest digits that give the same float64 again.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from service.rows.cell_texts.dates import iso
from service.rows.spec import HEADER_BYTES, Label, Stored, TableColumn
from service.rows.table.arrays import blocks, sparse_rows
from service.rows.table.beside import columns_beside
from service.rows.table.writers import Block, stored_blocks
from service.storage.locked_duckdb import connect, identifier, literal
from svm.data.stored_rows import StoredArray
from svm.data.texts import StoredTexts, TextList, Texts

_LABELS_AT_ONCE = 100_000
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""Of the members of an archive, whose bytes do not depend on the time."""
MEMORY = "1GB"
"""The widest data need it: a piece of each of 20,000 columns."""
GROUP_VALUES = 8 * 1024 * 1024
"""Of one row group, as long as that leaves it `MIN_GROUP_ROWS`."""
MIN_GROUP_ROWS = 2048
MAX_GROUP_ROWS = 122_880


def write_delimited(stored: Stored, file: BinaryIO, delimiter: str) -> None:
    """A header if the columns have names; the labels are the last column."""

    def cells(values: list[Any]) -> bytes:
        text = io.StringIO(newline="")
        # The writer quotes cells that hold a character of the terminator.
        csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(values)
        return text.getvalue()[:-2].encode()

    def label_cell(label: Label) -> bytes:
        return cells([label]) if isinstance(label, str) else orjson.dumps(label)

    separator = delimiter.encode()
    names = _names_of(stored)
    if names is not None:
        label_name = [_label_name(stored)] if stored.labeled else []
        file.write(cells(names + label_name) + b"\n")
    if not _is_plain(stored):
        file.writelines(cells(list(map(_csv_cell, row))) + b"\n" for row in _table_rows(stored))
        return
    for rows, labels in _rows(stored, label_cell):
        if delimiter != ",":
            rows = [row.replace(b",", separator) for row in rows]
        if labels is not None:
            pairs = zip(rows, labels, strict=True)
            rows = [row + separator + label for row, label in pairs]
        file.write(b"\n".join(rows) + b"\n")


def write_json(stored: Stored, file: BinaryIO) -> None:
    """`columns`, `rows`, `labels` and `target`, as an upload has them."""
    file.write(b"{")
    names = _names_of(stored)
    if names is not None:
        file.write(b'"columns":' + orjson.dumps(names) + b",")
    file.write(b'"rows":[')
    if _is_plain(stored):
        texts = (_numbers(block)[1:-1] for block in _whole_blocks(stored))
    else:
        texts = (orjson.dumps(rows)[1:-1] for rows in _rows_of_cells(stored))
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
        if stored.target is not None:
            file.write(b',"target":' + orjson.dumps(_label_name(stored)))
    file.write(b"}\n")


def write_ndjson(stored: Stored, file: BinaryIO) -> None:
    """One object a row; columns without names are called by their position from 0."""
    width = stored.n_features + len(stored.beside)
    names = _names_of(stored) or [str(i) for i in range(width)]
    members = [orjson.dumps(name).replace(b"%", b"%%") + b":%b" for name in names]
    if stored.labeled:
        members.append(orjson.dumps(_label_name(stored)).replace(b"%", b"%%") + b":%b")
    template = b"{" + b",".join(members) + b"}\n"
    if not _is_plain(stored):
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
    beside, done = _libsvm_beside(stored), 0
    for lengths, indices, values in sparse_rows(*paths):
        texts = [b"0"] * len(lengths)
        if labels is not None:
            texts = _texts(stored, labels[done : done + len(lengths)], orjson.dumps)
        for some in beside:
            there = some[done : done + len(lengths)]
            texts = [text + one for text, one in zip(texts, there, strict=True)]
        cells = [_numbers(array)[1:-1].split(b",") for array in (indices + 1, values)]
        pairs = [b" %b:%b" % pair for pair in zip(*cells, strict=True)]
        ends = np.cumsum(lengths).tolist()
        for text, start, end in zip(texts, [0, *ends], ends, strict=False):
            file.write(text + b"".join(pairs[start:end]) + width + b"\n")
            width = b""
        done += len(lengths)


def write_npy(stored: Stored, file: BinaryIO) -> None:
    """The features, and the labels as the last column, which must be numbers."""
    labels = stored.labels()
    if labels is not None and stored.classes is not None:
        labels = np.array(stored.classes, dtype=np.float64)[labels]
    _write_header(file, (stored.n_samples, stored.n_features + (labels is not None)))
    done = 0
    for block in blocks(stored.path("X")):
        if labels is not None:
            block = np.column_stack((block, labels[done : done + len(block)]))
        file.write(block.data)
        done += len(block)


def write_npz(stored: Stored, file: BinaryIO) -> None:
    """An archive of `X` and, if there are labels, `y`, which keeps their kind."""
    labels = stored.labels()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(zipfile.ZipInfo("X.npy", LONG_AGO), "w", force_zip64=True) as member:
            _write_header(member, (stored.n_samples, stored.n_features))
            for block in blocks(stored.path("X")):
                member.write(block.data)
        if labels is None:
            return
        if stored.classes is not None:
            labels = np.array(stored.classes)[labels]
        with archive.open(zipfile.ZipInfo("y.npy", LONG_AGO), "w", force_zip64=True) as member:
            np.lib.format.write_array(member, labels, allow_pickle=False)


def write_parquet(stored: Stored, file: BinaryIO) -> None:
    """The features, what is beside them, and the labels, which keep their kind, as the last
    column."""
    path = Path(file.name).resolve()
    columns = _arrays(stored)
    names = _names_of(stored) or [str(i) for i in range(len(columns))]
    labels = stored.labels()
    if labels is not None:
        if stored.classes is not None:
            text = isinstance(stored.classes[0], str)
            labels = np.array(stored.classes, dtype=object if text else None)[labels]
        columns["label"] = labels
        names = [*names, _distinct_name(stored.target or "label", names)]
    chosen = (f"{c} AS {identifier(name)}" for c, name in zip(columns, names, strict=True))
    rows = min(max(GROUP_VALUES // len(columns), MIN_GROUP_ROWS), MAX_GROUP_ROWS)
    with connect(path, memory=MEMORY) as connection:
        connection.register("stored", columns)
        connection.execute(
            f"COPY (SELECT {', '.join(chosen)} FROM stored) TO {literal(str(path))} "
            f"(FORMAT parquet, USE_TMP_FILE false, ROW_GROUP_SIZE {rows})"
        )


def nameable(names: list[str]) -> bool:
    """Whether DuckDB, which knows no difference between `a` and `A`, can write these names."""
    return len({name.lower() for name in names}) == len(names)


def _rows(
    stored: Stored, encode: Callable[[Label], bytes]
) -> Iterator[tuple[list[bytes], list[bytes] | None]]:
    """Rows of numbers with commas in between, and their labels; some MiB at a time."""
    labels = stored.labels()
    done = 0
    for block in _whole_blocks(stored):
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
    for rows in _rows_of_cells(stored):
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
    while name in (_names_of(stored) or ()):
        name += "_"
    return name


def _names_of(stored: Stored) -> list[str] | None:
    """The names of the features and of the columns beside them; None if there are no names."""
    if stored.columns is None:
        return None
    return [*stored.columns, *(one["name"] for one in stored.beside)]


def _is_plain(stored: Stored) -> bool:
    """Whether all columns are numbers without gaps, which are written at once."""
    return stored.is_plain and all(one["kind"] == "number" for one in stored.beside)


def _whole_blocks(stored: Stored) -> Iterator[Block]:
    """The features of dense rows and what is beside them, some MiB at a time, as numbers."""
    beside, done = columns_beside(stored)[1], 0
    for block in stored_blocks(stored):
        yield np.column_stack((block, beside[done : done + len(block)])) if stored.beside else block
        done += len(block)


def _rows_of_cells(stored: Stored) -> Iterator[list[tuple[Any, ...]]]:
    """The features and what is beside them row by row, some MiB at a time."""
    numbers: list[TableColumn] = [{"kind": "number"}] * stored.n_features
    columns, texts = [*(stored.table or numbers), *columns_beside(stored)[0]], _texts_of(stored)
    for block in _whole_blocks(stored):
        kinds = enumerate(columns)
        yield list(zip(*(cells_of(block[:, i], column, texts) for i, column in kinds), strict=True))


def _libsvm_beside(stored: Stored) -> list[list[bytes]]:
    """What is written before the pairs of each row, for each column beside them."""
    columns, values = columns_beside(stored)
    written = []
    for column, some in zip(columns, values.T, strict=True):
        what = b" qid:" if column["kind"] == "category" else b" cost:"
        cells = (_csv_cell(cell).encode() for cell in cells_of(some, column, TextList()))
        written.append([what + cell if cell else b"" for cell in cells])
    return written[::-1]  # SVMlight begins with `qid`


def _texts_of(stored: Stored) -> Texts:
    if "texts" not in stored.arrays:
        return TextList()
    with stored.path("texts").open("rb") as file:
        data = StoredArray(file, np.dtype(np.uint8), HEADER_BYTES)
    return StoredTexts(data, np.load(stored.path("text_ends")))


def cells_of(values: npt.NDArray[np.float64], column: TableColumn, texts: Texts) -> list[Any]:
    """Raw values of one column as JSON has them; None for a missing cell."""
    missing = np.isnan(values)
    if column["kind"] == "text":
        given = iter(texts.take(values[~missing].astype(np.int64).tolist()))
        return [None if gone else next(given) for gone in missing.tolist()]
    if column["kind"] == "category":
        levels = [*column["levels"], None]
        codes = np.where(missing, len(levels) - 1, values).astype(np.int64)
        return [levels[code] for code in codes.tolist()]
    if column["kind"] == "date":
        return [None if value != value else iso(value) for value in values.tolist()]
    if column["kind"] == "boolean":
        return [None if value != value else value == 1 for value in values.tolist()]
    return [None if value != value else _number(value) for value in values.tolist()]


def _number(value: float) -> float | int:
    """Whole numbers without a fraction, as far as they are exact."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _write_header(file: IO[bytes], shape: tuple[int, ...]) -> None:
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _arrays(stored: Stored) -> dict[str, Any]:
    """Arrays that DuckDB takes as columns: the features, and what is beside them."""
    columns: dict[str, Any] = {}
    if not stored.table:
        X = np.load(stored.path("X"), mmap_mode="r")
        columns = {f"c{i}": X[:, i] for i in range(stored.n_features)}
    else:
        raw, texts = np.concatenate(list(stored_blocks(stored))), _texts_of(stored)
        for i, column in enumerate(stored.table):
            columns[f"c{i}"] = _array(raw[:, i], column, texts)
    beside, values = columns_beside(stored)
    for column, some in zip(beside, values.T, strict=True):
        columns[f"c{len(columns)}"] = _array(some, column, TextList())
    return columns


def _array(values: npt.NDArray[np.float64], column: TableColumn, texts: Texts) -> Any:
    missing = np.isnan(values)
    whole = np.where(missing, 0, values)
    if column["kind"] in ("category", "text"):
        return np.array(cells_of(values, column, texts), dtype=object)
    if column["kind"] == "date":
        days = np.round(whole * 86_400_000_000).astype("datetime64[us]")
        days[missing] = np.datetime64("NaT")
        return days
    kind = bool if column["kind"] == "boolean" else np.float64
    return np.ma.masked_array(whole.astype(kind), missing)


def _distinct_name(name: str, names: list[str]) -> str:
    while not nameable([*names, name]):
        name += "_"
    return name
