"""Runs batch predictions: a file of predictions (CSV, NDJSON, NPY or Parquet), in input order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from service.common.csv_text import csv_text
from service.common.figures import first_of
from service.common.phases import SAVING
from service.jobs.batch_predictions.schemas import Format
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.job import State
from service.jobs.core.leases import Outcome
from service.jobs.parts.leases import PartWork
from service.jobs.scoring import Outputs, score, score_piece
from service.models.outputs import offer_of_version
from service.storage.database import new_id
from service.storage.locked_duckdb import connect
from svm.model.calibration import unlikely_labels
from svm.model.multiclass import label_name

SHOWN_ROWS = 10


def run(context: RunContext, attempt: Attempt) -> None:
    """Predict, and end the job as succeeded, or as canceled. Raises as `score`."""
    spec = attempt.job.spec
    scored = score(context, attempt)
    if scored is None:
        return
    attempt.begin(SAVING)
    with context.blobs.temporary() as path:
        offer = offer_of_version(scored.version)
        names = {name: offer[name].columns for name in spec["outputs"]}
        outputs = {name: scored.outputs[name] for name in names}
        write(spec["format"], path, scored.fitted.classes, outputs, names)
        blob = context.blobs.adopt(f"predictions/{new_id('results')}", path)
    attempt.finish(
        Outcome(
            state=State.SUCCEEDED,
            stop_reason="finished",
            result={"unknown_cells": scored.unknown},
            warnings=_unlikely(scored.outputs),
            results=blob,
        )
    )


def _unlikely(outputs: Outputs) -> tuple[str, ...]:
    if not {"label", "probability"} <= outputs.keys():
        return ()
    rows = unlikely_labels(outputs["probability"], outputs["label"])
    if not len(rows):
        return ()
    shown = first_of(list(map(str, rows[: SHOWN_ROWS + 1] + 1)), SHOWN_ROWS)
    return (
        f"In {len(rows):,} of the rows ({shown}) the label is not the class with the largest "
        "probability: labels follow the decision values.",
    )


def help(context: RunContext, part: PartWork) -> None:
    """Score some rows for another worker's batch prediction. Raises as `score`."""
    score_piece(context, part)


_BLOCK_ROWS = 65_536


def write(
    format_: Format,
    path: Path,
    classes: npt.NDArray[Any],
    columns: Mapping[str, npt.NDArray[Any]],
    names: Mapping[str, Sequence[str]],
) -> None:
    """`columns` by output, (n_samples,) or (n_samples, n); of labels class numbers, -1 for none.
    `names` by output are those of columns in a table."""
    match format_:
        case "csv":
            _write_csv(path, classes, columns, names)
        case "ndjson":
            _write_ndjson(path, classes, columns)
        case "npy":
            ((name, values),) = columns.items()
            with path.open("wb") as file:
                np.save(file, _array(name, values, classes), allow_pickle=False)
        case "parquet":
            _write_parquet(path, classes, columns, names)


LABELS = ("label", "label_or_none")
"""Outputs that are class numbers."""


def _array(name: str, values: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An output without null: labels or none are texts, the empty one for none."""
    if name == "label_or_none":
        classes = np.array([*map(label_name, classes.tolist()), ""])
    labels: npt.NDArray[Any] = classes[values] if name in LABELS else values
    return labels


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK_ROWS) for start in range(0, n, _BLOCK_ROWS))


def _write_csv(
    path: Path,
    classes: npt.NDArray[Any],
    columns: Mapping[str, npt.NDArray[Any]],
    names: Mapping[str, Sequence[str]],
) -> None:
    labels = [csv_text([[label]]).removesuffix(b"\n") for label in (*classes.tolist(), None)]
    with path.open("wb") as file:
        file.write(csv_text([[column for name in columns for column in names[name]]]))
        for parts in _rendered(labels, columns):
            rows = parts[0] if len(parts) == 1 else map(b",".join, zip(*parts, strict=True))
            file.write(b"\n".join(rows))
            file.write(b"\n")


def _rendered(
    labels: list[bytes], columns: Mapping[str, npt.NDArray[Any]]
) -> Iterator[list[list[bytes]]]:
    """The columns, block by block: of each an entry a row, `labels` for the class numbers, the
    last one for -1."""
    by_code = np.array(labels, dtype=object)
    for block in _blocks(len(next(iter(columns.values())))):
        yield [
            by_code[values[block]].tolist() if name in LABELS else _numbers(values[block])
            for name, values in columns.items()
        ]


def _numbers(values: npt.NDArray[Any]) -> list[bytes]:
    """The cells of each row, separated by commas: each number with the digits that give it back."""
    table = np.ascontiguousarray(values.reshape(len(values), -1))
    return orjson.dumps(table, option=orjson.OPT_SERIALIZE_NUMPY)[2:-2].split(b"],[")


def _write_ndjson(
    path: Path, classes: npt.NDArray[Any], columns: Mapping[str, npt.NDArray[Any]]
) -> None:
    labels = [orjson.dumps(label) for label in (*classes.tolist(), None)]
    record = b"{" + b",".join(_member(name, values) for name, values in columns.items()) + b"}\n"
    with path.open("wb") as file:
        for parts in _rendered(labels, columns):
            file.writelines(record % row for row in zip(*parts, strict=True))


def _member(name: str, values: npt.NDArray[Any]) -> bytes:
    """A member of a record, with %s in place of its numbers."""
    return b'"%s":%s' % (name.encode(), b"[%s]" if values.ndim == 2 else b"%s")


def _write_parquet(
    path: Path,
    classes: npt.NDArray[Any],
    columns: Mapping[str, npt.NDArray[Any]],
    names: Mapping[str, Sequence[str]],
) -> None:
    table: dict[str, npt.NDArray[Any]] = {}
    for output, values in columns.items():
        given = classes[values] if output == "label" else values
        if output == "label_or_none":
            given = np.array([*classes.tolist(), None], dtype=object)[values]
        parts = given.reshape(len(given), -1).T
        for name, part in zip(names[output], parts, strict=True):
            column = np.ascontiguousarray(part)
            table[name] = column.astype(object) if column.dtype.kind == "U" else column
    path = path.resolve()
    with connect(path, memory="1GB") as connection:
        connection.register("predictions", table)
        connection.execute(
            "COPY predictions TO ? (FORMAT parquet, USE_TMP_FILE false)", [str(path)]
        )
