"""Hooks for schemathesis, which loads this module by its name.

Bodies of data have valid formats, no call is a long poll, every second body is the documented
example, and some resources are never deleted, so that calls find existing resources.
"""

from __future__ import annotations

import itertools
import json
import os
import uuid
from typing import Any

import numpy as np
import schemathesis

from service.rows.spec import NDJSON, NPY, NPZ, ODS, PARQUET, XLS, XLSX, ZIP
from tests.service.rows.arrays import npy, parquet
from tests.service.rows.formats.test_npz import npz
from tests.service.rows.workbooks import workbook, zipped

X = np.arange(24.0).reshape(6, 4) % 5
BINARY = {
    NPY: npy(X),
    NPZ: npz(X=X, y=np.array(["a", "b"] * 3)),
    PARQUET: parquet({f"c{i}": column for i, column in enumerate(X.T)}),
    XLSX: workbook({"Data": X.tolist()}),
    ZIP: zipped({"data.npy": npy(X)}),
}
TEXTUAL = ("text/", NDJSON)
KEPT = set(os.environ.get("FUZZ_KEPT", "").split(","))
"""Names and ids of resources that are not deleted."""
_use_example = itertools.cycle((False, True))


@schemathesis.serializer(*BINARY, XLS, ODS, NDJSON, "application/octet-stream")
def _serialize(context: Any, value: Any) -> Any:
    """Texts are sent unchanged, a valid file for a binary format; anything else as JSON, which is
    invalid there."""
    case = context.case
    if case.media_type in BINARY and isinstance(value, (bytes, str)) and not _is_wrong(case):
        return BINARY[case.media_type]
    if isinstance(value, (bytes, str)):
        return value
    return json.dumps(value, default=str)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Long polls do not wait, and events are read as a page, since a stream lasts as long as its
    job. No Idempotency-Key is repeated: another case can have deleted the resource. In chains, no
    two jobs add to one model: a queued job would make the model again after it is deleted."""
    if case.path.endswith("/events") and not _is_wrong(case):
        case.headers = {**(case.headers or {}), "Accept": "application/json"}
    if "Idempotency-Key" in (case.headers or {}) and not _is_wrong(case):
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    if isinstance(case.query, dict) and "wait_s" in case.query and not _is_wrong(case):
        case.query["wait_s"] = "0"
    if case.media_type and not _is_wrong(case) and next(_use_example):
        _take_example(case)
    if _is_linked(case) and isinstance(case.body, dict) and "model_name" in case.body:
        case.body["model_name"] = f"m{uuid.uuid4().hex}"


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Leave out invalid bodies of text formats, whose schema allows any text."""
    if str(case.media_type).startswith(TEXTUAL) and _is_wrong(case):
        return False
    named = {str(value) for value in (case.path_parameters or {}).values()}
    return case.method != "DELETE" or not named & KEPT


def _take_example(case: Any) -> None:
    """Use the example instead of the generated body; keep the dataset from a link."""
    example = _body(case)["content"][case.media_type].get("example")
    if isinstance(example, dict) and isinstance(case.body, dict):
        linked = _is_linked(case) and "dataset_id" in case.body
        case.body = {**example, **({"dataset_id": case.body["dataset_id"]} if linked else {})}
    elif isinstance(example, str) and isinstance(case.body, (str, bytes)):
        case.body = example


def _is_linked(case: Any) -> bool:
    return case.meta is not None and case.meta.phase.name.value == "stateful"


def _is_wrong(case: Any) -> bool:
    """Whether the case is invalid on purpose."""
    if case.meta is None or case.meta.generation.mode.is_negative:
        return True
    return any(part.mode.is_negative for part in case.meta.components.values())


def _body(case: Any) -> dict[str, Any]:
    """The operation's body, which can be a component of the document."""
    body: dict[str, Any] = case.operation.definition.raw["requestBody"]
    if "$ref" in body:
        name = body["$ref"].rpartition("/")[2]
        body = case.operation.schema.raw_schema["components"]["requestBodies"][name]
    return body
