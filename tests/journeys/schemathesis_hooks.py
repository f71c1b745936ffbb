"""What schemathesis has to know of this service; it loads this module by its name.

Bodies of data are sent in their formats, no call waits, every second body is the documented
example, and some resources are never deleted: so that calls meet what exists.
"""

from __future__ import annotations

import itertools
import json
import os
import uuid
from typing import Any

import numpy as np
import schemathesis

from service.rows.spec import NDJSON, NPY, NPZ, PARQUET
from tests.service.rows.arrays import npy, parquet
from tests.service.rows.test_npz import npz

X = np.arange(24.0).reshape(6, 4) % 5
BINARY = {
    NPY: npy(X),
    NPZ: npz(X=X, y=np.array(["a", "b"] * 3)),
    PARQUET: parquet({f"c{i}": column for i, column in enumerate(X.T)}),
}
TEXTUAL = ("text/", NDJSON)
KEPT = set(os.environ.get("FUZZ_KEPT", "").split(","))
"""Names and ids that are not deleted."""
_turns = itertools.cycle((False, True))


@schemathesis.serializer(*BINARY, NDJSON, "application/octet-stream")
def _as_it_is(context: Any, value: Any) -> Any:
    """Texts are bodies; where any will do, a file of the format; anything else is written as JSON,
    which no reader takes."""
    case = context.case
    if case.media_type in BINARY and isinstance(value, (bytes, str)) and not _is_wrong(case):
        return BINARY[case.media_type]
    if isinstance(value, (bytes, str)):
        return value
    return json.dumps(value, default=str)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """A long poll does not wait, and events are a page: a stream lasts as long as its job. No key
    comes twice: the stored reply may tell of something that another case deleted."""
    if case.path.endswith("/events") and not _is_wrong(case):
        case.headers = {**(case.headers or {}), "Accept": "application/json"}
    if "Idempotency-Key" in (case.headers or {}) and not _is_wrong(case):
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    if isinstance(case.query, dict) and str(case.query.get("wait_s")).isdecimal():
        case.query["wait_s"] = "0"
    if case.media_type and not _is_wrong(case) and next(_turns):
        _take_example(case)


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Any body of a text format is a text: there is none that its schema forbids."""
    if str(case.media_type).startswith(TEXTUAL) and _is_wrong(case):
        return False
    named = {str(value) for value in (case.path_parameters or {}).values()}
    return case.method != "DELETE" or not named & KEPT


def _take_example(case: Any) -> None:
    """In place of the generated body; the dataset that a link gave stays."""
    example = case.operation.definition.raw["requestBody"]["content"][case.media_type].get(
        "example"
    )
    if isinstance(example, dict) and isinstance(case.body, dict):
        linked = case.meta.phase.name.value == "stateful" and "dataset_id" in case.body
        case.body = {**example, **({"dataset_id": case.body["dataset_id"]} if linked else {})}
    elif isinstance(example, str) and isinstance(case.body, (str, bytes)):
        case.body = example


def _is_wrong(case: Any) -> bool:
    """Whether something about the case was made to be refused."""
    if case.meta is None or case.meta.generation.mode.is_negative:
        return True
    return any(part.mode.is_negative for part in case.meta.components.values())
