"""A file of rows, predicted at once: the predictions beside all columns that the file has.

A column that the model does not know stays; one that has the true labels is compared.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from anyio.to_thread import run_sync

from service.common.csv_text import csv_text
from service.errors import InvalidContent, TooLarge
from service.models.outputs import USUAL
from service.predictions.loaded_models import LoadedModel
from service.predictions.predictor import Predictor, Target
from service.predictions.schemas import PredictionQuery
from service.predictions.wire_format import UNKNOWN, limits_of_files
from service.rows.cell_faults import ragged
from service.rows.cell_texts.number_text import is_value
from service.rows.cell_texts.reading import Reading
from service.rows.cell_values import BadCell, read_cell, reader_of
from service.rows.columns import Columns
from service.rows.faults import Faults, listed, too_many
from service.rows.formats.delimited_rows import is_row
from service.rows.parser import Parser
from service.rows.spec import CSV, PARQUET, Converted, ConvertSpec, SentFile
from service.rows.table.labels import match_labels
from service.settings import Limits
from svm.data.columns import Column
from svm.data.matrices import Matrix

_HEADERS = [(b"content-type", PARQUET.encode()), (b"accept", CSV.encode())]
"""Of rows that the parsing process has written as CSV."""
PREFIX = "predicted_"
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Truth:
    """What a column with the true labels says of the predictions."""

    column: str
    n_rows: int
    """Those with a label, or a number."""
    n_right: int | None
    """Of classes."""
    mae: float | None
    """Of numbers: the mean absolute error."""


@dataclass(frozen=True, slots=True)
class PredictedFile:
    """The rows of a file with their predictions."""

    names: list[str]
    """Of the columns of the file; empty if it has none."""
    rows: list[list[str]]
    outputs: list[str]
    """Names of the columns of the predictions; none is that of a column of the file."""
    predictions: list[list[str]]
    """For each row a cell for each output."""
    truth: Truth | None
    order: list[str]
    """The model's columns, in the order in which those of a file without names were taken; empty
    for others."""
    unknown: Mapping[str, Mapping[str, int]] | None
    """By column, how many cells have a level that no training row had (`unseen`), or are the first
    ones to be `missing`; None if there are no such cells."""

    def as_csv(self) -> bytes:
        """All columns of the file, then the predictions."""
        names = self.names or _numbered("column", len(self.rows[0]))
        both = zip(self.rows, self.predictions, strict=True)
        rows = ([*row, *predicted] for row, predicted in both)
        return csv_text([[*names, *self.outputs], *rows])


async def predict_file(
    model: LoadedModel,
    file: SentFile,
    folder: Path,
    target: Target,
    label: str | None,
    *,
    parser: Parser,
    predictor: Predictor,
    limits: Limits,
) -> PredictedFile:
    """`folder` is for files in between. `label` is the name of the label column in training.

    Raises ServiceError: as uploads, and as predictions of the same rows.
    """
    out = folder / "rows"
    spec = ConvertSpec(
        file=file,
        out=str(out),
        limits=limits_of_files(limits),
        columns=None,
        n_features=model.n_features,
    )
    try:
        converted = await parser.convert(spec)
    except TooLarge as error:
        if error.code == "too-many-rows":  # its message names the limit of uploads
            raise too_many("rows to predict", limits.predict_rows) from None
        raise
    read = partial(_read, out, model, converted)
    names, rows, order, body = await run_sync(read)
    query = PredictionQuery(outputs=",".join(outputs_of(model)))
    call = predictor.call_of(target, _HEADERS, query)
    reply = await predictor.answer(call, body, converted=True)
    outputs, *predictions = _records(bytes(reply.body))
    assert len(predictions) == len(rows)
    outputs[0] = PREFIX + (label or outputs[0])
    taken = {name.strip() for name in names}
    for i in range(len(outputs)):
        while outputs[i] in taken:
            outputs[i] = PREFIX + outputs[i]
        taken.add(outputs[i])
    unknown = None
    if any(name == UNKNOWN for name, _ in reply.headers):
        asked = await run_sync(call.exchange.read, body, model)
        unknown = await run_sync(_unknown, model, asked.X)
    truth = _truth(model, names, rows, [row[0] for row in predictions], label)
    return PredictedFile(names, rows, outputs, predictions, truth, order, unknown)


def _read(
    path: Path, model: LoadedModel, converted: Converted
) -> tuple[list[str], list[list[str]], list[str], bytes]:
    """Names of the columns and rows; the model's columns, if they are taken in this order; and the
    features as CSV below their names, so that no reader has to find out whether there are names.
    Raises InvalidContent."""
    first, *rows = list(_records(path.read_bytes())) or [[]]
    if not first:
        raise InvalidContent("empty-data", "the file holds no row")
    columns, width, n = model.features, len(first), model.n_features
    own = columns.names or _numbered("feature", n)
    order = columns.reading.order(width, n)
    if order is None and width == n + converted.labeled:
        order = list(range(n))
    taken: list[str] = []
    if _has_names(first, order, columns, named=converted.named):
        names = first
        if columns.names is not None:
            order, _ = columns.select("the header", [name.strip() for name in names])
    else:
        names, rows = [], [first, *rows]
        taken = own
    if order is None:
        message = f"the file has {width:,} columns without names that the model knows"
        inner = f"the model takes {n:,}, in this order: {listed(own)}"
        hint = "leave out all others, such as the label"
        raise InvalidContent("feature-mismatch", f"{message}; {inner}; {hint}")
    while columns.is_plain and rows and not "".join(rows[-1]).strip():
        rows.pop()  # such as Excel writes below a table
    faults = Faults()
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            faults.add(*ragged(len(row), width), row=number)
    faults.check()
    if not rows:
        raise InvalidContent("empty-data", "there is no row below the header")
    return names, rows, taken, csv_text([own, *([row[i] for i in order] for row in rows)])


def _has_names(first: list[str], order: list[int] | None, columns: Columns, *, named: bool) -> bool:
    """Whether the first record has names: all of the features, or some of them beside cells that
    cannot be numbers; else as it looks, unless its cells can be those of a row."""
    cells = [cell.strip() for cell in first]
    names = {name.strip() for name in columns.names or ()}
    if names and names.issubset(cells):
        return True
    if not names.isdisjoint(cells) and not all(map(is_value, cells)):
        return True
    return named and not is_row([cells[i] for i in order] if order else cells, columns)


def _unknown(model: LoadedModel, X: Matrix) -> dict[str, dict[str, int]]:
    encoder, X = model.fitted.encoder, np.asarray(X)
    found = {}
    for why, cells in (("unseen", encoder.unseen(X)), ("missing", encoder.newly_missing(X))):
        counts = zip(encoder.columns, np.count_nonzero(cells, axis=0).tolist(), strict=True)
        found[why] = {column.name: count for column, count in counts if count}
    return found


def outputs_of(model: LoadedModel) -> list[str]:
    """What is predicted of each row: the label and, of a calibrated model, the probabilities; or
    the value and its interval."""
    fitted = model.fitted
    wanted = ["label", "probability"] if model.classes else ["value", "interval"]
    if fitted.conformal is not None and not fitted.conformal.allows(USUAL.coverage):
        wanted.remove("interval")
    return [name for name in wanted if name in model.offer]


def _records(body: bytes) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(body.decode(), newline=""))


def _numbered(what: str, count: int) -> list[str]:
    return [f"{what}_{i}" for i in range(1, count + 1)]


def _numbers(cells: Sequence[str], label: str, reading: Reading) -> Iterator[float]:
    """Labels as rows to predict are read; NaN for missing ones and for what is no finite number."""
    style = reading.style(label)
    style_or_none = None if style.plain else style
    read = reader_of(Column(label), of_text=True, reading=reading, style=style_or_none)
    for cell in cells:
        try:
            yield float(read_cell(read, cell))
        except BadCell:
            yield math.nan


def _truth(
    model: LoadedModel,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    predicted: Sequence[str],
    label: str | None,
) -> Truth | None:
    """None if there is no column with labels of the model, or with numbers."""
    stripped = [name.strip() for name in names]
    if label is None or label.strip() not in stripped or label in (model.features.names or ()):
        return None
    place = stripped.index(label.strip())
    pairs = [(row[place].strip(), own) for row, own in zip(rows, predicted, strict=True)]
    if model.classes:
        cells = sorted({cell for cell, _ in pairs})
        labels: list[Any] = list(cells)
        if isinstance(model.classes[0], bool):
            labels = [_BOOLEANS.get(cell.lower(), cell) for cell in cells]
        known: dict[str, Any] = dict(zip(cells, match_labels(labels, model.classes), strict=True))
        texts = {number: str(one) for number, one in enumerate(model.classes)}
        found = [(texts[known[cell]], own) for cell, own in pairs if known[cell] is not None]
        return Truth(label, len(found), sum(a == b for a, b in found), None) if found else None
    trues = _numbers([cell for cell, _ in pairs], label, model.features.reading)
    errors = [abs(t - float(own)) for t, (_, own) in zip(trues, pairs, strict=True)]
    errors = [error for error in errors if math.isfinite(error)]
    return Truth(label, len(errors), None, sum(errors) / len(errors)) if errors else None
