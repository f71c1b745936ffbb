"""Reads one upload: the format's reader writes X, then come labels, digest and statistics.

Rows that are appended to a dataset are joined with its rows in between.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from service.errors import InvalidRequest
from service.rows.faults import refuse
from service.rows.format_table import FORMATS, HEAD_BYTES, check_format
from service.rows.formats import labels_file
from service.rows.spec import Parsed, ParseSpec
from service.rows.table.joining import append, expect_rows
from service.rows.table.labels import Target
from service.rows.table.left_out import without_row_numbers, without_unlabeled
from service.rows.table.summary import describe
from service.rows.table.writers import Table
from service.rows.unwrapping import unwrapped


def read(spec: ParseSpec) -> Parsed:
    """Write the arrays and describe them. Raises ServiceError for whatever is wrong with them."""
    spec = unwrapped(spec)
    _check_options(spec)
    _check_format(spec.media_type, Path(spec.data))
    if spec.labels is not None:
        _check_format(spec.labels_media_type, Path(spec.labels))
    if spec.onto is not None:
        spec = expect_rows(spec, spec.onto)
    folder = Path(spec.out)
    table = FORMATS[spec.media_type].read(spec)
    if spec.labels is not None:
        target, warnings = labels_file.read(spec, table.n_samples)
        table = replace(table, labels=target, warnings=[*table.warnings, *warnings])
    if spec.onto is None:
        table = without_row_numbers(spec, table, folder)
    table = without_unlabeled(spec, table, folder)
    if spec.onto is not None:
        table = append(spec.onto, table, folder, spec.limits)
    _check_labels(table.labels, spec.limits.cell_bytes)
    table = replace(table, reading=_with_positions(table))
    parsed = describe(folder, table, spec.limits.columns)
    return replace(parsed, media_type=spec.media_type)


def _with_positions(table: Table) -> dict[str, Any] | None:
    """The reading; in place of the `names` of a text file, the positions, from 1, of the columns
    that are not features, if some are ignored: rows to predict may have them without names."""
    reading = dict(table.reading or {})
    names = reading.pop("names", None)
    features = set(table.columns or ())
    roles = {table.target: "label", table.weight: "weight"}
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names or (), 1):
        if name not in features:
            positions.setdefault(roles.get(name, "ignored"), []).append(position)
    if "ignored" in positions:
        reading["positions"] = positions
    return reading or None


def _check_labels(target: Target | None, limit_bytes: int) -> None:
    """Raises InvalidContent for a text that cannot name a class, in whatever format it came."""
    if target is None or target.classes is None:
        return
    for code, label in enumerate(target.classes):
        if not isinstance(label, str):
            return
        row = int(np.argmax(target.array == code)) + 1
        if len(label.encode()) > limit_bytes:
            message, hint = f"the label has more than {limit_bytes:,} bytes", "shorten it"
            place = f"row {row}: {message}"
            raise refuse("csv-cell-too-large", place, row=row, value=label[:64], hint=hint)


def _check_options(spec: ParseSpec) -> None:
    """Raises InvalidRequest for an option that would do nothing."""
    used = {spec.media_type, spec.media_type if spec.labels is None else spec.labels_media_type}
    given = {
        "header": spec.header != "auto",
        "delimiter": spec.delimiter is not None,
        "encoding": spec.encoding is not None,
        "decimal": spec.decimal is not None,
        "thousands": spec.thousands is not None,
        "missing": bool(spec.missing),
        "odd_cells": spec.odd_cells != "missing",
        "dayfirst": spec.day_first is not None,
        "schema": bool(spec.roles),
        "sheet": spec.sheet is not None,
        "index_base": spec.index_base is not None,
        "dense": spec.dense != "auto",
    }
    for name in (name for name in given if given[name]):
        readers = {one.media_type for one in FORMATS.values() if name in one.options}
        if not used & readers:
            message = f"`{name}` is for {' and '.join(sorted(readers))} only"
            raise InvalidRequest("invalid-parameter", message)


def _check_format(media_type: str, path: Path) -> None:
    with path.open("rb") as file:
        check_format(media_type, file.read(HEAD_BYTES))
