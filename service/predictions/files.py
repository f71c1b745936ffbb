"""A file of rows, predicted at once: the predictions beside all columns that the file has.

A column that the model does not know stays; one that has the true labels is compared.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync

from service.datasets.upload_routes import read_limits
from service.errors import InvalidContent
from service.models.outputs import USUAL
from service.predictions.loaded_models import LoadedModel
from service.predictions.predictor import Predictor, Target
from service.predictions.schemas import PredictionQuery
from service.rows.parser import Parser
from service.rows.spec import CSV, PARQUET, ConvertSpec, SentFile
from service.rows.table.labels import match_labels
from service.settings import Limits

_HEADERS = [(b"content-type", PARQUET.encode()), (b"accept", CSV.encode())]
"""Of rows that the parsing process has written as CSV."""
PREFIX = "predicted_"
"""Of an output whose name the file has already."""
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
    predictions: list[list[str]]
    """For each row a cell for each output."""
    truth: Truth | None

    def as_csv(self) -> bytes:
        """All columns of the file, then the predictions."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        width = len(self.rows[0])
        names = self.names or [f"column_{i}" for i in range(1, width + 1)]
        taken = {name.strip() for name in names}
        outputs = [PREFIX + one if one in taken else one for one in self.outputs]
        writer.writerow([*names, *outputs])
        both = zip(self.rows, self.predictions, strict=True)
        writer.writerows([*row, *predicted] for row, predicted in both)
        return text.getvalue().encode()


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
        limits=replace(
            read_limits(limits),
            rows=limits.predict_rows,
            inflated_bytes=limits.predict_body_bytes,
            cell_bytes=limits.predict_body_bytes,
        ),
        columns=None,
        n_features=model.n_features,
    )
    await parser.convert(spec)
    body = await run_sync(out.read_bytes)
    records = await run_sync(lambda: list(_records(body)))
    if not records:
        raise InvalidContent("empty-data", "the file holds no row")
    named = _has_names(records[0], model)
    nameless = not named or model.features.names is None
    if nameless and len(records[0]) == model.n_features + 1:  # the last one is the label
        body = _csv([row[:-1] for row in records])
    query = PredictionQuery(outputs=",".join(outputs_of(model)))
    call = predictor.call_of(target, _HEADERS, query)
    reply = await predictor.answer(call, body, converted=True)
    outputs, *predictions = _records(bytes(reply.body))
    names, rows = (records[0], records[1:]) if named else ([], records)
    rows = rows[: len(predictions)]  # below them are rows without any cell
    if len(rows) != len(predictions):
        message = f"the file has {len(rows):,} rows, of which {len(predictions):,} were predicted"
        raise InvalidContent("parsing-failed", message)
    truth = _truth(model, names, rows, [row[0] for row in predictions], label)
    return PredictedFile(names, rows, outputs, predictions, truth)


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


def _csv(rows: list[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _has_names(first: Sequence[str], model: LoadedModel) -> bool:
    """Whether the first record has names: one of a feature, or no number at all."""
    names = {name.strip() for name in first}
    if model.features.names is not None:
        return not {name.strip() for name in model.features.names}.isdisjoint(names)
    return not any(_number(cell) is not None for cell in first)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


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
    errors = [abs(true - float(own)) for cell, own in pairs if (true := _number(cell)) is not None]
    return Truth(label, len(errors), None, sum(errors) / len(errors)) if errors else None
