"""Bodies of the service's own predict calls, in every format, to rows."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import InvalidContent, InvalidRequest, UnsupportedFormat
from service.predictions import error_reader
from service.predictions.error_reader import Instances, too_many_rows
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import DEFAULT_OUTPUTS, OUTPUTS
from service.rows.faults import Faults, refuse
from service.rows.formats import json_numbers, libsvm, npy
from service.rows.formats.cells import examine
from service.rows.formats.detection import HEAD_BYTES, check_format
from service.rows.number_text import is_value
from service.rows.table.layout import Layout
from service.rows.text import decode_text, records, unterminated
from service.settings import Limits

JSON = "application/json"
NPY = "application/x-npy"
_BOM = b"\xef\xbb\xbf"


def decode(media_type: str, body: bytes, model: LoadedModel, limits: Limits) -> Instances:
    """The rows of a body of one of `MEDIA_TYPES`.

    Raises UnsupportedFormat, InvalidRequest (`malformed-json`, `bad-encoding`), TooLarge
    (`too-many-rows`) and InvalidContent with every bad row.
    """
    try:
        read = _READERS[media_type]
    except KeyError:
        raise UnsupportedFormat(
            "unsupported-format", f"send the rows as {', '.join(MEDIA_TYPES)}"
        ) from None
    if media_type in _LINES and len(body) > limits.line_bytes:
        _check_lines(body, limits.line_bytes)
    try:
        return read(body, model, limits)
    except (InvalidContent, InvalidRequest):
        check_format(media_type, bytes(body[:HEAD_BYTES]))  # which says more
        raise


def _check_lines(body: bytes, limit_bytes: int) -> None:
    """Raises InvalidContent `csv-cell-too-large` where one is longer."""
    for number, line in enumerate(body.split(b"\n"), 1):
        if len(line) > limit_bytes:
            message = f"line {number} has more than {limit_bytes:,} bytes"
            raise refuse("csv-cell-too-large", message, hint="is a line end missing?")


def _read_json(body: bytes, model: LoadedModel, limits: Limits) -> Instances:
    found = json_numbers.read_document(body, model.n_features)
    if found is None:
        found = json_numbers.read_any_document(body, model.columns, model.n_features)
    if found is not None:
        X, others = found
        outputs = others.pop("outputs", DEFAULT_OUTPUTS)
        if not others and _all_known(outputs):
            return Instances(_counted(X, limits), tuple(dict.fromkeys(outputs)))
    return error_reader.decode_carefully(body, model, limits.predict_rows)


def _all_known(outputs: Any) -> bool:
    return isinstance(outputs, (list, tuple)) and all(output in OUTPUTS for output in outputs)


def _read_ndjson(body: bytes, model: LoadedModel, limits: Limits) -> Instances:
    text = body.strip()
    n_ends = text.count(b"\n")
    X = None
    if text.count(b"\n[") == n_ends:  # no row begins in another one's line
        X = json_numbers.read_lists(b"[%b]" % text.replace(b"\n", b","), model.n_features)
    if X is None or len(X) != n_ends + 1:
        lines = [line for line in text.split(b"\n") if line and not line.isspace()]
        X = json_numbers.read_any_lines(lines, model.columns, model.n_features)
    if X is None:
        return error_reader.decode_lines(body, model, limits.predict_rows)
    return _plain(X, limits)


def _read_csv(body: bytes, model: LoadedModel, limits: Limits) -> Instances:
    return _read_delimited(body, model, limits, ",")


def _read_tsv(body: bytes, model: LoadedModel, limits: Limits) -> Instances:
    return _read_delimited(body, model, limits, "\t")


def _read_delimited(body: bytes, model: LoadedModel, limits: Limits, delimiter: str) -> Instances:
    """With or without a header; its names may stand in any order."""
    text = body.removeprefix(_BOM).replace(b"\r\n", b"\n").strip(b"\n")
    plain = b"[" not in text and b"\r" not in text
    if delimiter == "\t":
        plain = plain and b"," not in text
        text = text.replace(b"\t", b",")
    first, _, rest = text.partition(b"\n")
    if first == model.header:
        text = rest
    X = None
    if plain:
        # Lines of plain numbers are JSON but for the brackets.
        X = json_numbers.read_lists(b"[[%b]]" % text.replace(b"\n", b"],["), model.n_features)
    if X is None:
        X = _read_delimited_carefully(body, model, limits, delimiter)
    return _plain(X, limits)


def _read_delimited_carefully(
    body: bytes, model: LoadedModel, limits: Limits, delimiter: str
) -> NDArray[np.float64]:
    text = decode_text(body)
    csv.field_size_limit(len(text) + 1)
    rows = records(text, delimiter)
    done = 0
    try:
        first = next(rows, None)
        if first is None:
            raise InvalidContent("empty-data", "the body holds no row")
        order = _header(first, model)
        if order is None:
            rows = chain([first], rows)
            layout = Layout(model.n_features, model.columns, None)
        else:
            layout = Layout(model.n_features, [name.strip() for name in first], None)
        faults = Faults()
        found = []
        widths = set()
        for done, row in enumerate(rows, 1):
            if done > limits.predict_rows:
                raise too_many_rows(limits.predict_rows)
            widths.add(len(row))
            found += examine([row], layout, done, limits.cell_bytes, faults)
    except csv.Error:
        raise unterminated(done + 1) from None
    if len(widths) == 1 and widths != {layout.n_cells}:
        raise error_reader.wrong_width(widths.pop(), model)
    faults.check()
    if not found:
        raise InvalidContent("empty-data", "there is no row below the header")
    X = np.array(found, dtype=np.float64)
    return X if order is None else np.ascontiguousarray(X[:, order])


def _header(first: list[str], model: LoadedModel) -> list[int] | None:
    """Where each feature stands, if the first record names them; None if it is a row.

    Raises InvalidContent `feature-mismatch`.
    """
    names = [name.strip() for name in first]
    known = set(model.columns or ())
    if not known.intersection(names) and any(is_value(name) or not name for name in names):
        return None
    if model.columns is None:
        if len(names) != model.n_features or any(is_value(name) for name in names):
            return None  # the row's own faults say more
        return list(range(model.n_features))
    error_reader.check_names(names, model)
    return [names.index(name) for name in model.columns]


def _read_libsvm(body: bytes, model: LoadedModel, limits: Limits) -> Instances:
    """Labels before the pairs are allowed, and count for nothing; features not named are 0."""
    from scipy.sparse import csr_array

    lines = libsvm.lines_of(decode_text(body))
    if not lines:
        raise InvalidContent("empty-data", "the body holds no line of data")
    if len(lines) > limits.predict_rows:
        raise too_many_rows(limits.predict_rows)
    lines = [f"0 {line}" if ":" in line.partition(" ")[0] else line for line in lines]
    faults = Faults()
    found = libsvm.rows_of(
        *(lines, 1, model.n_features, faults),
        below_hint="indices begin at 1 here, whatever the data of the model began at",
        beyond_hint=f"the model takes {model.n_features} features, with indices from 1",
    )
    faults.check()
    indptr = np.concatenate([[0], np.cumsum(found.lengths)])
    shape = (len(lines), model.n_features)
    X = csr_array((found.values, found.indices - 1, indptr), shape=shape)
    if not model.fitted.takes_sparse and X.shape[0] * X.shape[1] <= _DENSE_VALUES:
        return Instances(X.toarray(), DEFAULT_OUTPUTS)
    return Instances(X, DEFAULT_OUTPUTS)


def _read_npy(body: bytes, model: LoadedModel, limits: Limits) -> Instances:
    head = bytes(body[: _npy_header_bytes(body)])  # a body in a buffer of its own has no hash
    header = _npy_header(head, len(body))
    shape = header.shape
    if len(shape) != 2:
        hint = "one row is an array of shape (1, features)"
        raise refuse(
            "npy-unsupported", f"the array has shape {shape}, not two dimensions", hint=hint
        )
    if shape[0] > limits.predict_rows:
        raise too_many_rows(limits.predict_rows)
    if shape[0] == 0:
        raise InvalidContent("empty-data", "the array holds no row")
    if shape[1] != model.n_features:
        raise error_reader.wrong_width(shape[1], model)
    values = np.frombuffer(body, header.dtype, offset=header.size)
    X = values.reshape(shape, order="F" if header.fortran_order else "C")
    return Instances(finite(np.require(X, np.float64, ["C", "A"]), model), DEFAULT_OUTPUTS)


def _npy_header_bytes(body: bytes) -> int:
    """Where the header ends, or would end; not beyond the longest that is read."""
    start = 10 if body[6:7] == b"\x01" else 12
    return start + min(int.from_bytes(body[8:start], "little"), npy.HEADER_BYTES)


@lru_cache(maxsize=256)
def _npy_header(head: bytes, size: int) -> npy.Header:
    return npy.read_header(io.BytesIO(head), size)


def finite(X: NDArray[np.float64], model: LoadedModel) -> NDArray[np.float64]:
    """X, if all of it is finite. Raises InvalidContent `non-finite-value` with every such value."""
    values = X.ravel()
    # A value that is not finite shows in the sum of squares, which may overflow besides.
    if math.isfinite(values.dot(values)):
        return X
    sound = np.isfinite(X)
    if sound.all():
        return X
    faults = Faults()
    for i, j in np.argwhere(~sound):
        faults.add(
            "non-finite-value",
            "is not finite",
            row=int(i) + 1,
            column=model.column(int(j)),
            value=str(X[i, j]),
            hint="nothing is imputed",
        )
    faults.check()
    return X


def _plain(X: NDArray[np.float64], limits: Limits) -> Instances:
    return Instances(_counted(X, limits), DEFAULT_OUTPUTS)


def _counted(X: NDArray[np.float64], limits: Limits) -> NDArray[np.float64]:
    if len(X) > limits.predict_rows:
        raise too_many_rows(limits.predict_rows)
    return X


_DENSE_VALUES = 1 << 22
"""Rows of so many values may be made dense at once; larger batches are, block by block."""

_READERS: dict[str, Callable[[bytes, LoadedModel, Limits], Instances]] = {
    JSON: _read_json,
    "application/x-ndjson": _read_ndjson,
    "text/csv": _read_csv,
    "text/tab-separated-values": _read_tsv,
    "text/x-libsvm": _read_libsvm,
    NPY: _read_npy,
}
_LINES = frozenset(_READERS) - {JSON, NPY}
MEDIA_TYPES = tuple(_READERS)
