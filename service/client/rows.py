"""Converts rows of callers to bodies of requests. Booleans become 1 and 0, except labels.

NumPy is imported only for arrays, pandas and polars never: an object with `tocsr` is a sparse
matrix; `tables` knows frames.
"""

from __future__ import annotations

import io
import json
import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from service.client import calls, tables
from service.common.label_names import called_label

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T")

Array: TypeAlias = "npt.NDArray[Any]"
OneOutput: TypeAlias = Literal[
    "label", "decision", "probability", "label_or_none", "value", "interval"
]
"""An output of a prediction that is returned as an array."""
Outputs: TypeAlias = Literal["explanation"] | list[str] | tuple[str, ...]
"""What is returned as a dict."""


class Shares(TypedDict, total=False):
    """Of outputs that are made from rows that a model did not see; None is the default."""

    coverage: float | None
    """Of `interval`: the share of new rows whose target is inside; by default 0.9."""
    withheld: float | None
    """Of `label_or_none`: the share of rows of known classes without a label; by default 0.05."""


OR_NONE = "label_or_none"
IN_ARRAYS = ("label", "decision", "probability", "values", "intervals")
ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
JSON = "application/json"
LIBSVM = "text/x-libsvm"
NPY = "application/x-npy"
NPZ = "application/x-npz"

MEDIA_TYPES = {
    ".csv": CSV,
    ".txt": CSV,
    ".tsv": "text/tab-separated-values",
    ".json": JSON,
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".libsvm": LIBSVM,
    ".svm": LIBSVM,
    ".npy": NPY,
    ".npz": NPZ,
    ".parquet": "application/vnd.apache.parquet",
    ".arrows": ARROW,
    ".arrow": ARROW,
    ".feather": ARROW,
    ".ipc": ARROW,
    ".xls": "application/vnd.ms-excel",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
}
"""Formats by the suffix of a file's name."""
QUOTE = '"'
_ARCHIVES = {
    ".zip": "application/zip",
    ".gz": "application/gzip",
    ".bz2": "application/x-bzip2",
    ".xz": "application/x-xz",
    ".zst": "application/zstd",
}
_SENT_AS_THEY_ARE = (str, Path, bytes, bytearray, memoryview)
_NAMED = MEDIA_TYPES.keys() | _ARCHIVES.keys()


@dataclass(frozen=True, slots=True)
class Body:
    """A body, with the query parameters and headers that it needs."""

    media_type: str
    content: calls.Content
    params: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def media_type_of(path: Path) -> str:
    """Raises ValueError if the suffix is not known."""
    try:
        return MEDIA_TYPES[path.suffix.lower()]
    except KeyError:
        suffixes = ", ".join(MEDIA_TYPES)
        raise ValueError(f"{path.name}: not one of {suffixes}; give the media type") from None


def _file(path: Path, media_type: str | None) -> Body:
    """A file; one that ends in .gz is sent as it is, and named as compressed."""
    if path.suffix.lower() != ".gz":
        return Body(media_type or media_type_of(path), path)
    inner = path.with_suffix("")
    return Body(media_type or media_type_of(inner), path, headers={"Content-Encoding": "gzip"})


def upload_call(
    path: str,
    data: Any,
    labels: Any,
    columns: Sequence[str] | None,
    media_type: str | None,
    options: Mapping[str, Any],
    weights: Any = None,
    *,
    arrow: bool = True,
) -> calls.Call:
    """The request of an upload; `arrow`: of a frame as Arrow, if it can be. Raises ValueError for
    data that no format supports."""
    again = partial(upload_call, path, data, labels, columns, media_type, options, weights)
    if isinstance(options.get("schema"), Mapping):
        options = {**options, "schema": json.dumps(options["schema"])}
    if isinstance(options.get("missing"), (list, tuple)):
        options = {**options, "missing": ",".join(options["missing"])}
    body = upload_body(data, labels, columns, media_type, weights, options, arrow=arrow)
    params = {**body.params, **options}
    if "schema" in body.params:  # with that of the options
        params["schema"] = body.params["schema"]
    call = calls.create(path, body.content, body.media_type, params)
    return replace(call, headers={**call.headers, **body.headers}, instead=_instead(body, again))


def _instead(body: Body, again: Callable[..., T]) -> Callable[[], T] | None:
    """What gives the request for a service that does not read Arrow, if the body is a frame."""
    is_frame = body.media_type == ARROW and isinstance(body.content, bytes)
    return partial(again, arrow=False) if is_frame else None


def upload_body(
    data: Any,
    labels: Any,
    columns: Sequence[str] | None,
    media_type: str | None,
    weights: Any = None,
    options: Mapping[str, Any] = MappingProxyType({}),
    *,
    arrow: bool = False,
) -> Body:
    """The rows of a dataset: a file, bytes, a table, a sparse matrix, or array-like data.

    `options`: parameters that the caller gives. Raises ValueError for data that no format supports.
    """
    if not isinstance(data, _SENT_AS_THEY_ARE):
        data = tables.load(data)
    if isinstance(data, tables.Texts) and media_type is None:
        return _texts(data, labels, columns, weights, options)
    if weights is not None and (media_type is not None or not _is_weighable(data)):
        raise ValueError("weights need a table with named columns, such as a frame, or sparse data")
    if isinstance(data, (str, Path)):
        path = Path(data)
        if isinstance(labels, (str, Path)):
            _only_rows(None, columns, "a file")
            return _form(path, media_type, Path(labels))
        _only_rows(labels, columns, "a file")
        named = path.with_suffix("") if path.suffix.lower() == ".gz" else path
        if media_type is None and named.suffix.lower() not in MEDIA_TYPES:
            return _form(path, None, None)
        return _file(path, media_type)
    if isinstance(data, (bytes, bytearray, memoryview)):
        _only_rows(labels, columns, "bytes")
        if media_type is None:
            raise ValueError("bytes can be of any format: give `media_type`, such as 'text/csv'")
        return Body(media_type, bytes(data))
    if media_type is not None:
        raise ValueError("`media_type` is for files and bytes, not for arrays and frames")
    if hasattr(data, "tocsr"):
        if columns is not None:
            raise ValueError("sparse data have no column names")
        return _libsvm(data, labels, weights)
    sent = tables.as_arrow(data) if arrow and labels is columns is weights is None else None
    if sent is not None:
        names, content = sent
        return _table(data, {name: [] for name in names}, None, None, options, content)
    table = tables.columns_of(data)
    if table is not None:
        if columns is not None:
            raise ValueError("the table has column names: leave out `columns`")
        return _table(data, table, labels, weights, options)
    import numpy as np

    X = tables.matrix(data)
    params = {"target": "none"} if labels is None else {}
    if columns is not None:
        return replace(_json_table(list(columns), X.tolist(), labels), params=params)
    arrays = {"X": X} if labels is None else {"X": X, "y": tables.label_array(labels)}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return Body(NPZ, file.getvalue(), params)


def predict_call(
    model: str,
    rows: Any,
    outputs: str | Outputs | None,
    shares: Shares,
    *,
    arrow: bool = True,
) -> tuple[calls.Call, bool]:
    """The request of a prediction, and whether its reply is the array of a single output. No
    outputs are those that the service answers by default. `arrow`: of a frame as Arrow, if it can
    be."""
    body = predict_body(rows, arrow=arrow)
    single = outputs is None or (isinstance(outputs, str) and outputs != "explanation")
    names = outputs if outputs is None or isinstance(outputs, str) else ",".join(outputs)
    in_binary = single and outputs != OR_NONE
    accept = {"Content-Type": body.media_type, "Accept": NPY if in_binary else JSON}
    call = calls.Call(
        method="POST",
        path=f"{calls.model_path(model)}/predict",
        params={"outputs": names or None, **shares},
        headers=accept | body.headers,
        content=body.content,
        instead=_instead(
            body, lambda **plain: predict_call(model, rows, outputs, shares, **plain)[0]
        ),
    )
    return call, single


def predict_body(rows: Any, *, arrow: bool = False) -> Body:
    """Rows to predict. Arrays are sent in binary; frames with column names, which the service
    matches with the model's in any order."""
    if isinstance(rows, (str, Path)):
        return _file(Path(rows), None)
    rows = tables.load(rows)
    if hasattr(rows, "tocsr"):
        return _libsvm(rows, None)
    if not isinstance(rows, Sequence):
        sent = tables.as_arrow(rows) if arrow else None
        if sent is not None:
            return Body(ARROW, sent[1])
        table = tables.columns_of(rows)
        if table is not None and tables.is_numeric(table):
            return Body(CSV, tables.as_csv(table))
        if table is not None:
            return Body(JSON, tables.as_records(table))
    if isinstance(rows, tables.Texts):  # a missing one alone is not a row
        rows = [[row] if row is None else row for row in rows]
    if not hasattr(rows, "__array__"):
        rows = list(rows)
        if any(isinstance(row, (dict, str)) for row in rows) or _ragged(rows):
            return Body(JSON, json.dumps({"instances": _json_values(rows)}).encode())
    import numpy as np

    file = io.BytesIO()
    np.save(file, tables.matrix(rows), allow_pickle=False)
    return Body(NPY, file.getvalue())


def read_output(content: bytes, output: str | Outputs | None) -> Array:
    """The array of the reply to a single output: NPY, or labels and None from JSON."""
    import numpy as np

    if output == OR_NONE:
        return np.array(json.loads(content)[OR_NONE], dtype=object)
    array: npt.NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def read_outputs(reply: dict[str, Any]) -> dict[str, Any]:
    """The reply to several outputs, those of one entry or row of numbers for each row as arrays."""
    import numpy as np

    arrays = {name: np.array(reply[name]) for name in IN_ARRAYS if name in reply}
    if OR_NONE in reply:
        arrays[OR_NONE] = np.array(reply[OR_NONE], dtype=object)
    return {**reply, **arrays}


def score(reply: Mapping[str, Any], y: Any) -> float:
    """The accuracy of the labels in a reply of JSON, or R² of its values."""
    truth = tables.label_array(y).tolist()
    predicted = reply["label"] if "label" in reply else reply["values"]
    if len(truth) != len(predicted):
        raise ValueError(f"{len(truth):,} entries of y for {len(predicted):,} rows")
    pairs = list(zip(truth, predicted, strict=True))
    if "label" in reply:
        return sum(bool(one == other) for one, other in pairs) / len(pairs)
    mean = math.fsum(truth) / len(truth)
    errors = math.fsum((one - other) ** 2 for one, other in pairs)
    spread = math.fsum((one - mean) ** 2 for one in truth)
    return 1.0 - errors / spread if spread else float(errors == 0.0)


def read_arrays(content: bytes) -> tuple[Any, Any]:
    """X and y of an NPZ reply; y can be None."""
    import numpy as np

    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return arrays["X"], arrays.get("y")


def _only_rows(labels: Any, columns: Any, what: str) -> None:
    if labels is not None or columns is not None:
        raise ValueError(f"{what} contains labels and names itself: give `target`, or an array")


def _form(file: Path, media_type: str | None, labels: Path | None) -> Body:
    """Data and maybe labels in files of their own: the parts of a form. The service looks into a
    file whose name does not say its format."""
    parts = [("file", file, media_type or _type_of_part(file, "application/octet-stream"))]
    if labels is not None:
        parts.append(("labels", labels, _type_of_part(labels, CSV)))
    return _multipart(
        (name, "".join(one for one in path.suffixes if one.lower() in _NAMED), kind, path)
        for name, path, kind in parts
    )


def _multipart(parts: Iterable[tuple[str, str, str, bytes | Path]]) -> Body:
    """A form of files: the name of each, the suffix that is shown, the media type, the content."""
    boundary = uuid.uuid4().hex
    content: list[bytes | Path] = []
    for name, suffix, kind, file in parts:
        shown = f'name="{name}"; filename="{name}{suffix}"'
        start = f"--{boundary}\r\nContent-Disposition: form-data; {shown}"
        content += [f"{start}\r\nContent-Type: {kind}\r\n\r\n".encode(), file, b"\r\n"]
    content.append(f"--{boundary}--\r\n".encode())
    return Body(f"multipart/form-data; boundary={boundary}", tuple(content))


def _type_of_part(path: Path, default: str) -> str:
    """The media type by the suffix; of an archive, the service looks for the format in it."""
    suffix = path.suffix.lower()
    return _ARCHIVES.get(suffix) or MEDIA_TYPES.get(suffix, default)


def _is_weighable(data: Any) -> bool:
    if isinstance(data, _SENT_AS_THEY_ARE):
        return False
    return hasattr(data, "tocsr") or tables.columns_of(data) is not None


def _table(
    data: Any,
    table: tables.Columns,
    labels: Any,
    weights: Any,
    options: Mapping[str, Any],
    as_arrow: bytes | None = None,
) -> Body:
    """As JSON, in which texts stay texts; categories of the caller's library are in `schema`.
    `as_arrow`: the rows themselves; `table` has the names."""
    target = options.get("target")
    beside = {options.get(role) for role in ("weight", "group", "time")}
    others = [name for name in table if name not in beside]
    named = called_label(others)
    usual = named[0] if len(named) == 1 else next(reversed(others), None)
    last = usual if labels is None and target is None else target
    if labels is not None and target is not None:
        raise ValueError("give `labels` or `target`, not both")
    params: dict[str, Any] = {}
    schema: dict[str, Any] = {
        name: {"kind": "category"}
        for name in tables.categories_of(data)
        if name not in (last, *beside)
    }
    table = dict(table)
    if weights is not None and labels is None and target is None:
        params["target"] = last
    if weights is not None:
        schema[_add_column(table, "weight", list(map(tables.plain, weights)))] = {"role": "weight"}
    schema |= json.loads(options.get("schema") or "{}")
    if schema:
        params["schema"] = json.dumps(schema)
    if as_arrow is not None:
        return Body(ARROW, as_arrow, params)
    body = _json_table(list(table), zip(*table.values(), strict=True), labels)
    return replace(body, params=params)


def _texts(
    texts: tables.Texts,
    labels: Any,
    columns: Sequence[str] | None,
    weights: Any,
    options: Mapping[str, Any],
) -> Body:
    """As a table of a column of texts, named `text` or as `columns` says; without labels, it is no
    label."""
    name, *others = columns or ["text"]
    if others:
        raise ValueError(f"{1 + len(others)} names for one column of texts")
    schema = {name: {"kind": "text"}} | json.loads(options.get("schema") or "{}")
    params = {"target": "none"} if labels is None and "target" not in options else {}
    table: tables.Columns = {name: list(texts)}
    given = {**options, **params, "schema": json.dumps(schema)}
    body = _table(table, table, labels, weights, given)
    return replace(body, params={**body.params, **params})


def _add_column(table: tables.Columns, name: str, cells: list[Any]) -> str:
    """Add a column; returns its name, which is a new one."""
    n_rows = len(next(iter(table.values()), cells))
    if len(cells) != n_rows:
        raise ValueError(f"{len(cells):,} {name}s for {n_rows:,} rows")
    while name in table:
        name += "_"
    table[name] = cells
    return name


def _json_values(values: Any) -> Any:
    """Values for JSON: NaN becomes null, infinity a text."""
    if isinstance(values, dict):
        return {name: _json_values(value) for name, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [_json_values(value) for value in values]
    if getattr(values, "ndim", 0):  # of NumPy
        return _json_values(values.tolist())
    return tables.plain(values)


def _ragged(rows: list[Any]) -> bool:
    """Whether rows have several lengths, or values that are not numbers."""
    lengths = {len(row) if hasattr(row, "__len__") else -1 for row in rows}
    return len(lengths) != 1 or any(
        isinstance(value, (str, date)) or value is None
        for row in rows
        for value in (row if isinstance(row, (list, tuple)) else ())
    )


def _json_table(columns: list[str], rows: Iterable[Any], labels: Any) -> Body:
    table: dict[str, Any] = {"columns": columns, "rows": _json_values(list(rows))}
    if labels is not None:
        table["labels"] = _json_values(tables.label_array(labels).tolist())
    return Body(JSON, json.dumps(table, default=str).encode())


def _libsvm(sparse: Any, labels: Any, weights: Any = None) -> Body:
    """Lines `label cost:weight index:value …` with indices from 1; rows without a label begin with
    0. Texts as labels are a file of their own: they may have blanks."""
    csr = sparse.tocsr().copy()
    csr.sum_duplicates()
    n_samples, n_features = csr.shape
    firsts: list[Any] = [0] * n_samples
    texts = None
    if labels is not None:
        y = tables.label_array(labels)
        if len(y) != n_samples:
            raise ValueError(f"{len(y):,} labels for {n_samples:,} rows")
        if y.dtype.kind in "iufb":
            firsts = (y.astype(int) if y.dtype.kind == "b" else y).tolist()
        else:
            texts = "".join(f'"{label.replace(QUOTE, 2 * QUOTE)}"\n' for label in y.tolist())
    if weights is not None:
        costs = list(map(tables.plain, weights))
        if len(costs) != n_samples:
            raise ValueError(f"{len(costs):,} weights for {n_samples:,} rows")
        firsts = [f"{first} cost:{cost!r}" for first, cost in zip(firsts, costs, strict=True)]
    data = csr.data.astype(int) if csr.dtype.kind == "b" else csr.data
    indices, values = (csr.indices + 1).tolist(), data.tolist()
    indptr = csr.indptr.tolist()
    lines = []
    for first, (start, stop) in zip(firsts, pairwise(indptr), strict=True):
        pairs = zip(indices[start:stop], values[start:stop], strict=True)
        lines.append(" ".join([str(first), *(f"{j}:{value!r}" for j, value in pairs)]))
    params: dict[str, Any] = {"n_features": n_features, "dense": "never"}
    if labels is None or texts is not None:
        params["target"] = "none"
    content = "\n".join([f"# {n_features} features", *lines, ""]).encode()
    if texts is None:
        return Body(LIBSVM, content, params)
    parts = ("file", ".svm", LIBSVM, content), ("labels", ".csv", CSV, texts.encode())
    return replace(_multipart(parts), params=params)
