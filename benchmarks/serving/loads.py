"""What is sent: requests of several kinds, and the script by which wrk sends them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars

from benchmarks.serving.models import LEVELS, NAMES, PASSENGERS, passengers
from service.predictions.datatypes import datatype_of, to_bytes
from svm.data.matrices import Vector

CONTENT_TYPES = {
    "JSON": "application/json",
    "objects": "application/json",
    "CSV": "text/csv",
    "LIBSVM": "text/x-libsvm",
    "Arrow": "application/vnd.apache.arrow.stream",
    "NPY": "application/x-npy",
    "V2 JSON": "application/json",
    "V2 binary": "application/octet-stream",
    "V2 columns": "application/octet-stream",
}
"""By the form of a body."""

QUERY, CHUNKED, TWICE, CLOSE = "with a query", "in a chunk", "Accept twice", "Connection: close"


@dataclass(frozen=True)
class Load:
    """Requests of one kind, over several connections."""

    model: str
    rows: int
    connections: int
    form: str = "JSON"
    """A key of `CONTENT_TYPES`."""
    outputs: tuple[str, ...] = ("label",)
    differing: bool = False
    """Every request has a trace and an id of its own, as callers send them."""
    sent: str = ""
    """One of `QUERY`, `CHUNKED`, `TWICE`, `CLOSE`, or as most clients send it."""
    proxy: str = ""
    """Through nginx: a key of `proxy.SITES`."""

    @property
    def path(self) -> str:
        if self.form.startswith("V2"):
            return f"/v2/models/{self.model}/infer"
        return f"/v1/models/{self.model}/predict{self.query}"

    @property
    def query(self) -> str:
        return "?outputs=label" if self.sent == QUERY else ""

    @property
    def is_plain(self) -> bool:
        """Lists of numbers for labels, as any server takes them."""
        return self.form == "JSON" and self.outputs == ("label",)

    @property
    def media_type(self) -> str:
        return CONTENT_TYPES[self.form]

    def __str__(self) -> str:
        heads = ", differing heads" if self.differing else ""
        asked = "" if self.outputs == ("label",) else f", {' and '.join(self.outputs)}"
        shape = f"{self.rows} × {NAMES[self.model]}"
        at_once = "connection" if self.connections == 1 else "connections"
        others = "".join(f", {what}" for what in (self.sent, self.proxy) if what)
        return f"{self.form} {shape}{asked}, {self.connections} {at_once}{heads}{others}"


LOADS = (
    *(
        Load("linear64", 1, connections, differing=differing)
        for connections in (1, 16, 64)
        for differing in (False, True)
    ),
    Load("linear64", 1, 64, differing=True, proxy="through nginx"),
    *(Load("linear64", 1, 16, sent=sent) for sent in (QUERY, CHUNKED, TWICE, CLOSE)),
    Load("linear64", 1, 16, proxy="through nginx by its defaults"),
    Load("linear64", 100, 16),
    Load("linear256", 1000, 1),
    *(Load("linear64", 100, 16, form) for form in ("objects", "CSV", "LIBSVM", "Arrow", "NPY")),
    *(Load("mixed20", 1000, 1, form) for form in ("objects", "Arrow")),
    Load("linear256", 1000, 1, "NPY"),
    *(
        Load(model, rows, connections, form)
        for form in ("V2 JSON", "V2 binary")
        for model, rows, connections in (("linear64", 1, 16), ("linear64", 100, 16))
    ),
    Load("linear256", 1000, 1, "V2 binary"),
    *(
        Load("passengers", rows, connections, form)
        for rows, connections in ((1, 16), (1000, 1))
        for form in ("objects", "V2 columns")
    ),
    Load("classes10", 1, 16),
    Load("classes10", 100, 16),
    Load("calibrated", 1, 16, outputs=("label", "probability")),
    Load("linear64", 1, 16, outputs=("label", "explanation")),
    *(Load("gaussian64", 1, connections) for connections in (1, 16, 64)),
)


def request_of(load: Load, n_features: int) -> tuple[bytes, dict[str, str]]:
    """The body, and the headers that it needs."""
    X: Vector = np.random.default_rng(1).normal(size=(load.rows, n_features))
    headers = {"Content-Type": load.media_type}
    if load.form == "V2 columns":
        head, tensors = _column_tensors(passengers(load.rows, seed=1))
        headers["Inference-Header-Content-Length"] = str(len(head))
        return head + tensors, headers
    if load.model == "passengers":
        names = [column.name for column in PASSENGERS]
        rows = [dict(zip(names, row, strict=True)) for row in passengers(load.rows, seed=1)]
        return json.dumps({"instances": rows}).encode(), headers
    if load.form == "V2 binary":
        head, tensor = _inference_head(X), X.tobytes()
        headers["Inference-Header-Content-Length"] = str(len(head))
        return head + tensor, headers
    return _BODIES[load.form](X, load), headers


def _json(X: Vector, load: Load) -> bytes:
    rows = {"instances": X.tolist()}
    return json.dumps(
        rows | ({} if load.outputs == ("label",) else {"outputs": load.outputs})
    ).encode()


def _table(X: Vector, load: Load) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {f"x{i}": column.tolist() for i, column in enumerate(X.T)}
    if load.model == "mixed20":
        for name in list(columns)[10:]:
            columns[name] = [LEVELS[int(9 * abs(value)) % len(LEVELS)] for value in columns[name]]
    return columns


def _objects(X: Vector, load: Load) -> bytes:
    columns = _table(X, load)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json.dumps({"instances": rows}).encode()


def _arrow(X: Vector, load: Load) -> bytes:
    file = io.BytesIO()
    polars.DataFrame(_table(X, load)).write_ipc_stream(file)
    return file.getvalue()


def _csv(X: Vector, load: Load) -> bytes:
    return "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()).encode()


def _libsvm(X: Vector, load: Load) -> bytes:
    lines = (" ".join(f"{i}:{value!r}" for i, value in enumerate(row, 1)) for row in X.tolist())
    return "".join(f"0 {line}\n" for line in lines).encode()


def _npy(X: Vector, load: Load) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def _inference(X: Vector, load: Load) -> bytes:
    tensor = {"name": "x", "shape": list(X.shape), "datatype": "FP64", "data": X.ravel().tolist()}
    return json.dumps({"inputs": [tensor]}).encode()


def _inference_head(X: Vector) -> bytes:
    tensor = {
        "name": "x",
        "shape": list(X.shape),
        "datatype": "FP64",
        "parameters": {"binary_data_size": X.nbytes},
    }
    outputs = [{"name": "label", "parameters": {"binary_data": True}}]
    return json.dumps({"inputs": [tensor], "outputs": outputs}).encode()


def _column_tensors(rows: list[list[Any]]) -> tuple[bytes, bytes]:
    """What tritonclient sends: the JSON part, and a tensor for each column."""
    inputs, tensors = [], []
    for column, cells in zip(PASSENGERS, zip(*rows, strict=True), strict=True):
        values = np.array(cells)
        tensors.append(to_bytes(values))
        tensor = {"name": column.name, "shape": [len(rows), 1], "datatype": datatype_of(values)}
        inputs.append(tensor | {"parameters": {"binary_data_size": len(tensors[-1])}})
    outputs = [{"name": "label", "parameters": {"binary_data": True}}]
    head = json.dumps({"inputs": inputs, "outputs": outputs}, separators=(",", ":"))
    return head.encode(), b"".join(tensors)


_BODIES: Mapping[str, Callable[[Vector, Load], bytes]] = {
    "JSON": _json,
    "objects": _objects,
    "CSV": _csv,
    "LIBSVM": _libsvm,
    "Arrow": _arrow,
    "NPY": _npy,
    "V2 JSON": _inference,
}


def wrk_script(folder: Path, body: bytes, headers: dict[str, str], load: Load) -> Path:
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if load.sent == CHUNKED:
        lines.append("Transfer-Encoding: chunked")
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        lines.append(f"Content-Length: {len(body)}")
    lines += {TWICE: ["Accept: application/json", "Accept: */*"], CLOSE: ["Connection: close"]}.get(
        load.sent, []
    )
    (folder / "body").write_bytes(body)
    script = folder / "load.lua"
    script.write_text(
        _SCRIPT
        % {
            "lines": "".join(f"{line}\\r\\n" for line in lines),
            "body": folder / "body",
            "count": 1000 if load.differing else 1,
            "own": _OWN if load.differing else '""',
        }
    )
    return script


_SCRIPT = r"""
local requests, n = {}, 0
function init(_)
  local body = io.open("%(body)s", "rb"):read("*a")
  local head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.headers["Host"]
  for i = 1, %(count)d do
    requests[i] = head .. "\r\n%(lines)s" .. %(own)s .. "\r\n" .. body
  end
end
function request()
  n = n %% #requests + 1
  return requests[n]
end
"""
"""Made before the first one is sent, so that no load costs wrk more than another."""
_OWN = r"""string.format(
"traceparent: 00-%032x-%016x-01\r\nX-Request-Id: request-%d\r\n", i * 7919, i * 104729, i)"""
"""Header lines of request `i`."""
