"""Converts rows of callers to bodies of requests. Booleans become 1 and 0, except labels.

NumPy is imported only for arrays, pandas and polars never: an object with `tocsr` is a sparse
matrix; `tables` knows frames.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from service.client.calls import Content
from service.client.inputs import label_array, loaded, matrix
from service.client.tables import (
    Columns,
    as_csv,
    as_records,
    categories_of,
    columns_of,
    is_numeric,
    plain,
)

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
OneOutput: TypeAlias = Literal["label", "decision", "probability"]
"""An output of a prediction that is returned as an array."""
Outputs: TypeAlias = Literal["explanation"] | list[str] | tuple[str, ...]
"""What is returned as a dict."""

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
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Formats by the suffix of a file's name."""
ZIP = "application/zip"
_ARCHIVES = {".zip": ZIP, ".gz": "application/gzip"}
_SENT_AS_THEY_ARE = (str, Path, bytes, bytearray, memoryview)
_NAMED = MEDIA_TYPES.keys() | _ARCHIVES.keys()


@dataclass(frozen=True, slots=True)
class Body:
    """A body, with the query parameters and headers that it needs."""

    media_type: str
    content: Content
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


def upload_body(
    data: Any,
    labels: Any,
    columns: Sequence[str] | None,
    media_type: str | None,
    weights: Any = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Body:
    """The rows of a dataset: a file, bytes, a table, a sparse matrix, or array-like data.

    `options`: parameters that the caller gives. Raises ValueError for data that no format supports.
    """
    if not isinstance(data, _SENT_AS_THEY_ARE):
        data = loaded(data)
    if weights is not None and (media_type is not None or not _may_be_table(data)):
        raise ValueError("weights need a table with named columns, such as a frame")
    if isinstance(data, (str, Path)):
        path = Path(data)
        if media_type is None and path.suffix.lower() == ".zip":
            media_type = ZIP
        if isinstance(labels, (str, Path)):
            _only_rows(None, columns, "a file")
            return _form(path, media_type, Path(labels))
        _only_rows(labels, columns, "a file")
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
        return _libsvm(data, labels)
    table = columns_of(data)
    if table is not None:
        if columns is not None:
            raise ValueError("the table has column names: leave out `columns`")
        return _table(data, table, labels, weights, options)
    import numpy as np

    X = matrix(data)
    params = {"target": "none"} if labels is None else {}
    if columns is not None:
        return replace(_json_table(list(columns), X.tolist(), labels), params=params)
    arrays = {"X": X} if labels is None else {"X": X, "y": label_array(labels)}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return Body(NPZ, file.getvalue(), params)


def predict_body(rows: Any) -> Body:
    """Rows to predict. Arrays are sent in binary; frames with column names, which the service
    matches with the model's in any order."""
    if isinstance(rows, (str, Path)):
        return _file(Path(rows), None)
    rows = loaded(rows)
    if hasattr(rows, "tocsr"):
        return _libsvm(rows, None)
    if not isinstance(rows, Sequence):
        table = columns_of(rows)
        if table is not None and is_numeric(table):
            return Body(CSV, as_csv(table))
        if table is not None:
            return Body(JSON, as_records(table))
    if not hasattr(rows, "__array__"):
        rows = list(rows)
        if any(isinstance(row, dict) for row in rows) or _ragged(rows):
            return Body(JSON, json.dumps({"instances": _json_values(rows)}).encode())
    import numpy as np

    file = io.BytesIO()
    np.save(file, matrix(rows), allow_pickle=False)
    return Body(NPY, file.getvalue())


def read_array(content: bytes) -> Array:
    """The array of an NPY reply."""
    import numpy as np

    array: npt.NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def read_arrays(content: bytes) -> tuple[Any, Any]:
    """X and y of an NPZ reply; y can be None."""
    import numpy as np

    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return arrays["X"], arrays.get("y")


def _only_rows(labels: Any, columns: Any, what: str) -> None:
    if labels is not None or columns is not None:
        raise ValueError(f"{what} contains labels and names itself: give `target`, or an array")


def _form(file: Path, media_type: str | None, labels: Path) -> Body:
    """Data and labels in two files: the parts of a form."""
    boundary = uuid.uuid4().hex
    types = {
        "file": media_type or _type_of_part(file) or media_type_of(file),
        "labels": _type_of_part(labels) or MEDIA_TYPES.get(labels.suffix.lower(), CSV),
    }
    content: list[bytes | Path] = []
    for name, path in (("file", file), ("labels", labels)):
        shown = name + "".join(one for one in path.suffixes if one.lower() in _NAMED)
        start = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{shown}"'
        content += [f"{start}\r\nContent-Type: {types[name]}\r\n\r\n".encode(), path, b"\r\n"]
    content.append(f"--{boundary}--\r\n".encode())
    return Body(f"multipart/form-data; boundary={boundary}", tuple(content))


def _type_of_part(path: Path) -> str | None:
    """Of an archive: the service looks for the format in it, or in its name."""
    return _ARCHIVES.get(path.suffix.lower())


def _may_be_table(data: Any) -> bool:
    return not isinstance(data, _SENT_AS_THEY_ARE) and columns_of(data) is not None


def _table(
    data: Any, table: Columns, labels: Any, weights: Any, options: Mapping[str, Any]
) -> Body:
    """As JSON, in which texts stay texts; categories of the caller's library are in `schema`."""
    target = options.get("target")
    last = next(reversed(table), None) if labels is None and target is None else target
    if labels is not None and target is not None:
        raise ValueError("give `labels` or `target`, not both")
    params: dict[str, Any] = {}
    schema: dict[str, Any] = {
        name: {"kind": "category"} for name in categories_of(data) if name != last
    }
    table = dict(table)
    if weights is not None and labels is None and target is None:
        params["target"] = last
    if weights is not None:
        schema[_added(table, "weight", list(map(plain, weights)))] = {"role": "weight"}
    schema |= json.loads(options.get("schema") or "{}")
    if schema:
        params["schema"] = json.dumps(schema)
    body = _json_table(list(table), zip(*table.values(), strict=True), labels)
    return replace(body, params=params)


def _added(table: Columns, name: str, cells: list[Any]) -> str:
    """Add a column; returns its name, which is a new one."""
    n_rows = len(next(iter(table.values()), cells))
    if len(cells) != n_rows:
        raise ValueError(f"{len(cells):,} {name}s for {n_rows:,} rows")
    while name in table:
        name += "_"
    table[name] = cells
    return name


def _json_values(values: Any) -> Any:
    """The same for JSON: NaN becomes null, infinity a text."""
    if isinstance(values, dict):
        return {name: _json_values(value) for name, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [_json_values(value) for value in values]
    if getattr(values, "ndim", 0):  # of NumPy
        return _json_values(values.tolist())
    return plain(values)


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
        table["labels"] = _json_values(label_array(labels).tolist())
    return Body(JSON, json.dumps(table, default=str).encode())


def _libsvm(sparse: Any, labels: Any) -> Body:
    """Lines `label index:value …` with indices from 1; rows without a label begin with 0."""
    csr = sparse.tocsr().copy()
    csr.sum_duplicates()
    n_samples, n_features = csr.shape
    firsts: list[Any] = [0] * n_samples
    if labels is not None:
        y = label_array(labels)
        if y.dtype.kind not in "iufb":
            raise ValueError("sparse data are sent as LIBSVM lines, whose labels are numbers")
        if len(y) != n_samples:
            raise ValueError(f"{len(y):,} labels for {n_samples:,} rows")
        firsts = (y.astype(int) if y.dtype.kind == "b" else y).tolist()
    data = csr.data.astype(int) if csr.dtype.kind == "b" else csr.data
    indices, values = (csr.indices + 1).tolist(), data.tolist()
    indptr = csr.indptr.tolist()
    lines = []
    for first, (start, stop) in zip(firsts, pairwise(indptr), strict=True):
        pairs = zip(indices[start:stop], values[start:stop], strict=True)
        lines.append(" ".join([str(first), *(f"{j}:{value!r}" for j, value in pairs)]))
    params: dict[str, Any] = {"n_features": n_features, "dense": "never"}
    if labels is None:
        params["target"] = "none"
    return Body(LIBSVM, "\n".join([*lines, ""]).encode(), params)
