"""A stored dataset in two parts, row by row as a training with `validation` would part it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent
from service.rows.faults import refuse
from service.rows.spec import Divided, Parsed, SplitSpec, Stored
from service.rows.table.beside import apart_of
from service.rows.table.labels import MAX_CLASSES, Target, join_labels
from service.rows.table.left_out import write_chosen
from service.rows.table.summary import describe
from service.rows.table.writers import Table
from svm.data.matrices import Indices
from svm.data.splitting import Apart, Pair, split
from svm.errors import InvalidData


def divide(spec: SplitSpec) -> Divided:
    """Write the arrays of both parts and describe them: each as if it had been uploaded by itself.

    Rows of one group are in one part, and those of `train` before those of `test`; with groups and
    times, rows are in neither if their group is on both sides of the time. Raises InvalidContent
    `class-too-small` if a part would be empty, `not-separable` if groups or times do not allow
    parts, and `target-missing` or `target-continuous` if rows without classes are to be stratified.
    """
    labels = spec.stored.labels()
    rows = _rows_of_parts(spec, labels)
    folders = Path(spec.train), Path(spec.test)
    parts = (_write_part(spec, labels, *pair) for pair in zip(rows, folders, strict=True))
    return Divided(*parts)


def _rows_of_parts(spec: SplitSpec, labels: npt.NDArray[Any] | None) -> Pair:
    classes = spec.stored.classes
    stratify = classes is not None if spec.stratify is None else spec.stratify
    if spec.stratify and labels is None:
        raise _refusal("target-missing", "/stratify", "there are no labels to stratify by")
    if spec.stratify and classes is None:
        message = "the labels are numbers, not classes to stratify by"
        raise _refusal("target-continuous", "/stratify", message)
    if spec.stored.n_samples < 2:
        raise _refusal("class-too-small", "/fraction", "one row cannot be split")
    if spec.gap and spec.stored.time is None:
        raise _refusal("not-separable", "/gap", "the dataset has no column of times")
    codes = np.zeros(spec.stored.n_samples) if labels is None or classes is None else labels
    try:
        apart = Apart(**apart_of(spec.stored), gap=spec.gap)
        return split(codes, spec.fraction, stratify=stratify, seed=spec.seed, apart=apart)
    except InvalidData as error:
        raise _refusal(error.code, "/fraction", str(error)) from None


def _write_part(
    spec: SplitSpec, labels: npt.NDArray[Any] | None, chosen: Indices, folder: Path
) -> Parsed:
    stored = spec.stored
    rows = np.zeros(stored.n_samples, dtype=bool)
    rows[chosen] = True
    columns = write_chosen(stored, stored.path, rows, folder, spec.limits)
    whole = {
        **stored.described(),
        "n_samples": len(chosen),
        "classes": None,
        "table": columns,
    }
    table = Table(**whole, labels=None if labels is None else _target(stored, labels[rows]))
    return describe(folder, table, spec.limits.columns)


def _target(stored: Stored, labels: npt.NDArray[Any]) -> Target:
    if stored.classes is None:
        return join_labels((None, labels), numbers=True)
    present, codes = np.unique(labels, return_inverse=True)
    return join_labels(([stored.classes[code] for code in present], codes), most=MAX_CLASSES)


def _refusal(code: str, pointer: str, message: str) -> InvalidContent:
    hint = {"/stratify": "say stratify=false", "/gap": "leave out `gap`"}.get(pointer)
    hint = hint or "choose another fraction"
    if code == "not-separable":
        hint += ", or append rows of other groups or times"
    return refuse(code, message, pointer=pointer, hint=hint)
