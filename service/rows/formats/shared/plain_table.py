"""A text file whose features are finite numbers, written plainly: each slice is read at once.

There is nothing to decide about such columns. At the first cell that is anything else the file is
read as a table whose columns have kinds.
"""

from __future__ import annotations

import csv
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from service.errors import InvalidContent
from service.rows.cell_texts.text import Slice, check_lengths, records, slices
from service.rows.faults import Faults
from service.rows.formats.shared.cells import matrix
from service.rows.kinds.dialect import Dialect
from service.rows.kinds.proposing_labels import LabelColumn
from service.rows.spec import ParseSpec
from service.rows.table.layout import Layout
from service.rows.table.writers import DenseWriter, Table

Lines: TypeAlias = tuple[list[str], list[str]]
"""The records without the label column, and the labels."""


def read(spec: ParseSpec, dialect: Dialect, columns: Layout) -> Table | None:
    """Write `X.npy`; None if the file has to be read in another way.

    Raises TooLarge.
    """
    if not _may_be_plain(spec, dialect, columns):
        return None
    target, n_features = columns.target, len(columns.features)
    labels = None
    if target is not None:
        labels = LabelColumn(spec, Faults(), columns.column(target), columns.label_kind)
    parts = slices(dialect.path, record_bytes=spec.limits.line_bytes)
    first = next((part for part in parts if part.text.strip("\n")), None)
    if first is not None and dialect.header:
        first = _without_header(first)
    if first is None:
        return None
    with DenseWriter(Path(spec.out), n_features, spec.limits) as writer:
        try:
            for part in chain([first], parts):
                lines, texts = _lines(part, dialect.delimiter, target, dialect.n_cells)
                if not lines:
                    continue
                check_lengths(lines, spec.limits.line_bytes, writer.n_samples + 1)
                X = matrix(lines, dialect.delimiter, n_features, spec.limits.cell_bytes)
                if X is None:
                    return None
                if labels is not None:
                    labels.add_texts(texts)
                writer.add(X)
            if writer.n_samples == 0:
                return None
            target_of = None if labels is None else labels.finish()
        except (InvalidContent, csv.Error):
            return None
        advised = labels is not None and target_of is not None and labels.lacks_advice(target_of)
        if advised:
            return None
        writer.finish()
    layout = columns
    return Table(
        n_samples=writer.n_samples,
        n_features=n_features,
        sparse=False,
        columns=layout.feature_names,
        target=layout.target_name,
        labels=target_of,
        reading={"decimal": ".", "thousands": None, "missing": [], "columns": {}},
        warnings=layout.warnings,
    )


def _may_be_plain(spec: ParseSpec, dialect: Dialect, columns: Layout) -> bool:
    """Whether the caller asks for numbers only, and each cell can be one or the label."""
    n_others = dialect.n_cells - len(columns.features) - (columns.target is not None)
    asked = dialect.trailing, spec.decimal == ",", spec.missing, n_others, not columns.features
    return (
        not any(asked)
        and dialect.delimiter not in "; +-.eE"
        and set(columns.kinds.values()) <= {"number"}
    )


def _without_header(part: Slice) -> Slice | None:
    """None if it is not one line."""
    line, _, rest = part.text.lstrip("\n").partition("\n")
    if line.startswith(("#", "sep=", '"sep=')) or line.count('"') % 2:
        return None
    return Slice(rest, '"' in rest)


def _lines(part: Slice, delimiter: str, target: int | None, n_cells: int) -> Lines:
    """Raises csv.Error."""
    lines, labels = [], []
    if part.quoted:
        for cells in records(part.text, delimiter):
            right = len(cells) == n_cells
            if target is not None:
                labels.append(cells.pop(target) if right else "")
            lines.append(delimiter.join(cells) if right else "?")
        return lines, labels
    whole = [line for line in part.text.split("\n") if line]
    if target is None:
        return whole, []
    if target == n_cells - 1:  # by far the most frequent case, and the fastest
        split = [line.rpartition(delimiter) for line in whole]
        return [cells for cells, _, _ in split], [label for _, _, label in split]
    for line in whole:
        some = line.split(delimiter, target + 1)
        labels.append(some.pop(target) if len(some) > target else "")
        lines.append(delimiter.join(some))
    return lines, labels
