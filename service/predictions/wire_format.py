"""A call of the service's own predict routes: rows in any format that is read, and the outputs as
JSON, NDJSON, CSV, NPY or Arrow."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import orjson
from anyio import to_thread

from service.common.answerer import RawHeaders, Reply
from service.common.content_negotiation import best_of
from service.common.csv_text import csv_text
from service.common.encodings import inflate, media_type_of, unsupported_type
from service.datasets.upload_routes import charset_of, read_limits
from service.errors import (
    MAX_FAULTS,
    MAX_VALUE_CHARACTERS,
    InvalidContent,
    InvalidRequest,
    pointer_to_member,
)
from service.models.outputs import (
    NAMES,
    SHARE_OF,
    USUAL,
    Shares,
    arrays_of,
    check_offered,
    check_shares,
    shares_in,
)
from service.predictions.batcher import Instances, Prediction
from service.predictions.explanations import check_explainable
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import PredictionQuery
from service.rows.faults import invalid_field, refuse, shown, too_many
from service.rows.format_table import FORMATS, HEAD_BYTES, ROW_FORMATS, check_format, known_type
from service.rows.formats import arrow
from service.rows.parser import Parser
from service.rows.spec import (
    ARROW,
    CSV,
    DELIMITED,
    JSON,
    NDJSON,
    NPY,
    ConvertSpec,
    ReadLimits,
    RowLimits,
    SentFile,
    longest_text,
)
from service.settings import Limits
from svm.data.matrices import is_sparse

IGNORED = "X-Ignored-Columns"
UNKNOWN = "X-Unknown-Cells"
"""Their number, then `row:column` of the first ones."""
UNKNOWN_WORDS = "X-Unknown-Words"
"""Their number, then `row:number` of the first rows with such words."""
UNLIKELY = "X-Unlikely-Labels"
"""Rows whose label is not the class with the largest probability."""
MAX_IN_HEADER = 10
"""Names or rows in one header: clients read some 8 kB of them."""

_CHOICES = " or ".join(f"'{output}'" for output in NAMES)
LINES_PER_ROW = 4
"""Lines that a text may have for each row that is allowed: some are blank, or within quotes."""
_DENSE_VALUES = 1 << 22
"""Rows of at most this many values are made dense at once, larger batches block by block."""


class PlainExchange:
    """Rows in any of `ROW_FORMATS`, answers in any of `MEDIA_TYPES`."""

    def __init__(
        self,
        headers: RawHeaders,
        query: PredictionQuery,
        limits: Limits,
    ) -> None:
        """Raises UnsupportedFormat, NotAcceptable, InvalidRequest."""
        self._limits = limits
        self._rows = RowLimits(
            limits.predict_rows, limits.cell_bytes, limits.line_bytes, limits.predict_body_bytes
        )
        content_type, accept, self._encoding = JSON, "*/*", ""
        self._charset: str | None = None
        for name, value in headers:
            if name == b"content-type":
                content_type = known_type(media_type_of(value.decode("latin-1")))
                if content_type in DELIMITED and b"=" in value:
                    self._charset = charset_of(value.decode("latin-1"))
            elif name == b"accept":
                more = value.decode("latin-1")
                accept = more if accept == "*/*" else f"{accept},{more}"
            elif name == b"content-encoding":
                self._encoding = value.decode("latin-1").strip().lower()
        self._content_type, self._format = content_type, FORMATS.get(content_type)
        self._accept = best_of(accept, MEDIA_TYPES)
        self._outputs = None if query.outputs is None else _split(query.outputs)
        self._shares = query.shares
        self.is_binary = content_type == NPY and not self._encoding
        self.is_packed = self._format is not None and self._format.packed
        """The body has to be unpacked by `unpack` before it is read."""

    @property
    def must_import(self) -> bool:
        """What reads the body or writes the reply is imported first, which takes long."""
        return ARROW in (self._content_type, self._accept) and "pyarrow" not in sys.modules

    async def unpack(self, body: bytes, model: LoadedModel, parser: Parser, folder: Path) -> bytes:
        """The rows of a packed body as CSV, which `read` takes. Raises ServiceError."""
        if self._encoding:
            body = inflate(body, self._encoding, self._limits.predict_body_bytes)
        check_format(self._content_type, bytes(body[:HEAD_BYTES]))
        data = folder / "body"
        await to_thread.run_sync(data.write_bytes, body)
        limits = limits_of_files(self._limits)
        file, out = SentFile(str(data), self._content_type), folder / "rows"
        await parser.convert(
            ConvertSpec(file=file, out=str(out), limits=limits, columns=model.columns)
        )
        return await to_thread.run_sync(out.read_bytes)

    def read(self, body: bytes, model: LoadedModel) -> Instances:
        """Raises UnsupportedFormat, InvalidRequest, TooLarge, and InvalidContent with every bad
        row."""
        if self._encoding and not self.is_packed:
            body = inflate(body, self._encoding, self._limits.predict_body_bytes)
        if self._charset is not None:
            body = _decode(body, self._charset)
        if self._format is None or self._format.read_rows is None:
            raise unsupported_type(self._content_type, ROW_FORMATS, JSON)
        if self._format.lines:
            if max(body.count(b"\n"), body.count(b"\r")) > LINES_PER_ROW * self._rows.rows:
                raise too_many("rows to predict", self._rows.rows)
            if len(body) > self._limits.line_bytes:
                _check_lines(body, self._limits.line_bytes)
        try:
            given, others, ignored, again = self._format.read_rows(body, model.features, self._rows)
        except (InvalidContent, InvalidRequest):
            if not self.is_packed:
                check_format(self._content_type, bytes(body[:HEAD_BYTES]))  # a clearer error
            raise
        longest = longest_text(self._limits.line_bytes)
        if len(body) > longest and not is_sparse(given):
            model.features.check_texts(given, longest)
        X, unknown = model.mark(given, again)
        if is_sparse(X) and not model.fitted.takes_sparse and math.prod(X.shape) <= _DENSE_VALUES:
            X = X.toarray()
        outputs, shares = asked_of(others) if others else (None, USUAL)
        outputs = self._outputs or outputs
        if outputs is None:
            return Instances(X, model.default_outputs, unknown, ignored)
        check_offered(outputs, model.offer)
        if "explanation" in outputs:
            check_explainable(model, X)
        shares = shares._replace(**self._shares)
        check_shares(model.fitted, outputs, shares)
        return Instances(X, outputs, unknown, ignored, shares=shares)

    def reply(self, asked: Instances, answer: Prediction) -> Reply:
        return write(self._accept, answer, asked)


def limits_of_files(limits: Limits) -> ReadLimits:
    """Of a file of rows to predict."""
    most = limits.predict_body_bytes
    return replace(
        read_limits(limits),
        rows=limits.predict_rows,
        inflated_bytes=most,
        cell_bytes=most,  # a text is not cut
    )


def _decode(body: bytes, charset: str) -> bytes:
    """A text in UTF-8. Raises InvalidRequest `bad-encoding`."""
    try:
        return body.decode(charset).encode()
    except UnicodeError:
        message = f"the body is not text in the encoding {charset[:40]}, as Content-Type says"
        raise InvalidRequest("bad-encoding", message) from None


def _check_lines(body: bytes, limit_bytes: int) -> None:
    """Raises InvalidContent `csv-cell-too-large` if one is longer."""
    start = 0
    while start + limit_bytes < len(body):
        end = body.rfind(b"\n", start, start + limit_bytes + 1)
        if end < 0:
            number = body.count(b"\n", 0, start) + 1
            message = f"line {number} has more than {limit_bytes:,} bytes"
            raise refuse("csv-cell-too-large", message, hint="is a line end missing?")
        start = end + 1


def asked_of(others: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, Shares]:
    """The outputs, if any, and the shares that a document of rows asks for. Raises InvalidContent
    `invalid-field`."""
    for name in others:
        if name not in ("outputs", *Shares._fields):
            message = "unknown; known are `instances`, `outputs`, `coverage` and `withheld`"
            raise invalid_field(pointer_to_member((), name), message)
    shares = shares_in(others)
    if "outputs" not in others:
        return None, shares
    outputs = others["outputs"]
    if not isinstance(outputs, list):
        raise invalid_field("/outputs", f"give a list of {_CHOICES}, not {shown(outputs)}")
    for i, output in enumerate(outputs):
        if output not in NAMES:
            raise invalid_field(f"/outputs/{i}", f"give {_CHOICES}, not {shown(output)}")
    return tuple(dict.fromkeys(outputs)), shares


def _split(outputs: str) -> tuple[str, ...]:
    """Raises InvalidRequest `invalid-parameter`."""
    names = tuple(dict.fromkeys(name.strip() for name in outputs.split(",")))
    for name in names:
        if name not in NAMES:
            detail = (
                f"query parameter 'outputs': give some of {', '.join(NAMES)}, separated by commas, "
                f"not {shown(name)}"
            )
            raise InvalidRequest("invalid-parameter", detail)
    return names


def write(media_type: str, answer: Prediction, asked: Instances) -> Reply:
    """The reply in one of `MEDIA_TYPES`. Raises InvalidRequest if that cannot hold the outputs.

    Formats without room for ignored columns, unknown cells, warnings, and the version that
    answered, give them in headers.
    """
    if media_type == JSON:
        return Reply(_json(answer, asked))
    ignored, unknown = asked.ignored, asked.unknown
    body = _WRITERS[media_type](answer, asked)
    answering = f"{answer.model.name}/{answer.model.version}"
    headers = [("X-Model-Version", answering)]
    if ignored:
        headers.append((IGNORED, ",".join(map(_in_header, ignored[:MAX_IN_HEADER]))))
    if unknown is not None:
        places = (f"{one['row']}:{_in_header(str(one['column']))}" for one in unknown.cells)
        first = ",".join(islice(places, MAX_IN_HEADER))
        headers.append((UNKNOWN, f"{unknown.count};{first}"))
    if (words := answer.unknown_words) is not None:
        first = ",".join(f"{row}:{count}" for row, count in words.rows[:MAX_IN_HEADER])
        headers.append((UNKNOWN_WORDS, f"{words.count};{first}"))
    if "probability" in asked.outputs and (rows := answer.unlikely_labels):
        headers.append((UNLIKELY, ",".join(map(str, rows[:MAX_IN_HEADER]))))
    return Reply(body, media_type, tuple(headers))


def _in_header(name: str) -> str:
    return quote(name[:MAX_VALUE_CHARACTERS], safe=" ", errors="replace")


def _json(answer: Prediction, asked: Instances) -> bytes:
    model = answer.model
    parts = [model.json_head]
    if asked.ignored:
        names = [name[:MAX_VALUE_CHARACTERS] for name in asked.ignored[:MAX_FAULTS]]
        parts.append(b',"ignored_columns":%b' % orjson.dumps(names))
    if asked.unknown is not None:
        parts.append(b',"unknown":%b' % orjson.dumps(asked.unknown.document))
    if (words := answer.unknown_words) is not None:
        parts.append(b',"unknown_words":%b' % orjson.dumps(words.document))
    for name in asked.outputs:
        if name == "label":
            labels = model.json_labels
            parts.append(b',"label":[%b]' % b",".join([labels[code] for code in answer.codes]))
        else:
            output = answer.output(name, asked.shares)
            value = orjson.dumps(output, option=orjson.OPT_SERIALIZE_NUMPY)
            parts.append(b',"%b":%b' % (model.offer[name].member.encode(), value))
            if name == "probability" and (rows := answer.unlikely_labels):
                parts.append(b',"warnings":[%b]' % orjson.dumps(_unlikely(rows)))
            if name in SHARE_OF:
                share = SHARE_OF[name]
                given = orjson.dumps(getattr(asked.shares, share))
                parts.append(b',"%b":%b' % (share.encode(), given))
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


def _ndjson(answer: Prediction, asked: Instances) -> bytes:
    columns = [_plain(answer.output(name, asked.shares)) for name in asked.outputs]
    rows = (dict(zip(asked.outputs, row, strict=True)) for row in zip(*columns, strict=True))
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _columns(answer: Prediction, asked: Instances) -> tuple[list[str], list[Any]]:
    """The outputs as columns and their names."""
    names: list[str] = []
    columns: list[Any] = []
    for name in asked.outputs:
        if name == "explanation":
            raise _impossible("explanations need JSON or NDJSON")
        value = answer.output(name, asked.shares)
        names += answer.model.offer[name].columns
        columns += list(value.T) if np.ndim(value) == 2 else [value]
    return names, columns


def _csv(answer: Prediction, asked: Instances) -> bytes:
    names, columns = _columns(answer, asked)
    return csv_text([names, *zip(*map(_plain, columns), strict=True)])


def _npy(answer: Prediction, asked: Instances) -> bytes:
    if len(asked.outputs) != 1 or asked.outputs[0] == "explanation":
        arrays = ", ".join(arrays_of(answer.model.offer))
        raise _impossible(f"an NPY reply holds one of {arrays}")
    file = io.BytesIO()
    np.save(file, answer.array(asked.outputs[0], asked.shares), allow_pickle=False)
    return file.getvalue()


def _plain(value: Any) -> list[Any]:
    plain: list[Any] = value.tolist() if isinstance(value, np.ndarray) else value
    return plain


def _impossible(detail: str) -> InvalidRequest:
    return InvalidRequest("invalid-parameter", f"{detail}; change Accept or `outputs`")


_WRITERS: dict[str, Callable[[Prediction, Instances], bytes]] = {
    NDJSON: _ndjson,
    CSV: _csv,
    NPY: _npy,
    ARROW: lambda answer, asked: arrow.write(*_columns(answer, asked)),
}
if not arrow.INSTALLED:
    del _WRITERS[ARROW]
MEDIA_TYPES = (JSON, *_WRITERS)
