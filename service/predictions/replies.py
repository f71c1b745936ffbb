"""Scores as replies: JSON, NDJSON, CSV or NPY."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from itertools import islice
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np
import orjson

from service.common.answerer import Reply
from service.errors import MAX_FAULTS, MAX_VALUE_CHARACTERS, InvalidRequest
from service.predictions.answers import Answer
from service.predictions.unknown_cells import UnknownCells

JSON = "application/json"
NPY = "application/x-npy"
IGNORED = "X-Ignored-Columns"
UNKNOWN = "X-Unknown-Cells"
"""Their number, then `row:column` of the first ones."""
UNLIKELY = "X-Unlikely-Labels"
"""Rows whose label is not the class with the largest probability."""
MAX_IN_HEADER = 10
"""Names or rows in one header: clients read some 8 kB of them."""


class Asked(Protocol):
    """What a reply depends on besides the answer."""

    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def ignored(self) -> tuple[str, ...]: ...
    @property
    def unknown(self) -> UnknownCells | None: ...


def write(media_type: str, answer: Answer, asked: Asked) -> Reply:
    """The reply in one of `MEDIA_TYPES`. Raises InvalidRequest if that cannot hold the outputs.

    Formats without room for ignored columns, unknown cells, warnings, and the version that
    answered, give them in headers.
    """
    if media_type == JSON:
        return Reply(_json(answer, asked))
    outputs, ignored, unknown = asked.outputs, asked.ignored, asked.unknown
    body = _WRITERS[media_type](answer, outputs)
    answering = f"{answer.model.name}/{answer.model.version}"
    headers = [("X-Model-Version", answering)]
    if ignored:
        headers.append((IGNORED, ",".join(map(_in_header, ignored[:MAX_IN_HEADER]))))
    if unknown is not None:
        places = (f"{one['row']}:{_in_header(str(one['column']))}" for one in unknown.cells)
        shown = ",".join(islice(places, MAX_IN_HEADER))
        headers.append((UNKNOWN, f"{unknown.count};{shown}"))
    if "probability" in outputs and (rows := answer.unlikely_labels):
        headers.append((UNLIKELY, ",".join(map(str, rows[:MAX_IN_HEADER]))))
    return Reply(body, media_type, tuple(headers))


def _in_header(name: str) -> str:
    return quote(name[:MAX_VALUE_CHARACTERS], safe=" ", errors="replace")


def _json(answer: Answer, asked: Asked) -> bytes:
    model = answer.model
    parts = [model.json_head]
    if asked.ignored:
        names = [name[:MAX_VALUE_CHARACTERS] for name in asked.ignored[:MAX_FAULTS]]
        parts.append(b',"ignored_columns":%b' % orjson.dumps(names))
    if asked.unknown is not None:
        parts.append(b',"unknown":%b' % orjson.dumps(asked.unknown.document))
    for name in asked.outputs:
        if name == "label":
            labels = model.json_labels
            parts.append(b',"label":[%b]' % b",".join([labels[code] for code in answer.codes]))
        else:
            value = orjson.dumps(answer.output(name), option=orjson.OPT_SERIALIZE_NUMPY)
            parts.append(b',"%b":%b' % (name.encode(), value))
            if name == "probability" and (rows := answer.unlikely_labels):
                parts.append(b',"warnings":[%b]' % orjson.dumps(_unlikely(rows)))
    parts.append(b"}")
    return b"".join(parts)


def _unlikely(rows: list[int]) -> dict[str, Any]:
    """A `PredictionWarning`."""
    return {
        "code": "unlikely-label",
        "message": f"in {len(rows):,} of the rows the label is not the class with the largest "
        "probability: labels follow the decision values, and near the boundary the calibration can "
        "favor another class",
        "rows": rows[:MAX_FAULTS],
        "rows_total": len(rows),
    }


def _ndjson(answer: Answer, outputs: tuple[str, ...]) -> bytes:
    columns = [_plain(answer.output(name)) for name in outputs]
    rows = (dict(zip(outputs, row, strict=True)) for row in zip(*columns, strict=True))
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _csv(answer: Answer, outputs: tuple[str, ...]) -> bytes:
    names: list[str] = []
    columns: list[list[Any]] = []
    for name in outputs:
        if name == "explanation":
            raise _impossible("explanations need JSON or NDJSON")
        value = answer.output(name)
        if np.ndim(value) == 2:
            names += [f"{name}:{label}" for label in answer.model.classes]
            columns += value.T.tolist()
        else:
            names.append(name)
            columns.append(_plain(value))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def _npy(answer: Answer, outputs: tuple[str, ...]) -> bytes:
    if len(outputs) != 1 or outputs[0] == "explanation":
        raise _impossible("an NPY reply holds one of label, decision, probability")
    value = answer.output(outputs[0])
    if outputs[0] == "label":
        value = answer.model.fitted.classes[answer.codes]
    file = io.BytesIO()
    np.save(file, value, allow_pickle=False)
    return file.getvalue()


def _plain(value: Any) -> list[Any]:
    plain: list[Any] = value.tolist() if isinstance(value, np.ndarray) else value
    return plain


def _impossible(detail: str) -> InvalidRequest:
    return InvalidRequest("invalid-parameter", f"{detail}; change Accept or `outputs`")


_WRITERS: dict[str, Callable[[Answer, tuple[str, ...]], bytes]] = {
    "application/x-ndjson": _ndjson,
    "text/csv": _csv,
    NPY: _npy,
}
MEDIA_TYPES = (JSON, *_WRITERS)
