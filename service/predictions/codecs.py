"""Rows in, answers out: JSON bodies to arrays, decision values to replies.

There are two ways to read a body. The fast one takes lists of numbers straight into an array, and
gives up at anything unusual. `careful` then reads the body again, and either finds all well or
names every bad row. Where both read a body, they give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import simdjson
from numpy.typing import NDArray

from service.errors import MAX_FAULTS, Fault, InvalidContent
from service.predictions.careful import Instances, decode_carefully, too_many_rows
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import DEFAULT_OUTPUTS, OUTPUTS

_SIMDJSON_SIZE_LIMIT = 0xFFFFFF  # simdjson counts no further
_BOM = b"\xef\xbb\xbf"


def decode(body: bytes, model: LoadedModel, row_limit: int) -> Instances:
    """Read `{"instances": [[…], …] or [{…}, …], "outputs": […]}`.

    Raises InvalidRequest `malformed-json`, TooLarge `too-many-rows`, and InvalidContent
    `invalid-field`, `empty-data`, `feature-mismatch`, `ragged-row`, `not-a-number`,
    `missing-value`, `non-finite-value`.
    """
    instances = _decode_numbers(body, model.n_features)
    if instances is None:
        return decode_carefully(body, model, row_limit)
    if len(instances.X) > row_limit:
        raise too_many_rows(row_limit)
    return instances


def encode(model: LoadedModel, outputs: tuple[str, ...], decision: NDArray[np.float64]) -> bytes:
    """The reply for decision values, (n_samples,) or (n_samples, n_classes).

    Raises InvalidContent `non-finite-value` for rows so large that their values overflow.
    """
    if not np.isfinite(decision).all():
        raise _overflow(decision)
    reply: dict[str, Any] = {
        "model": {"name": model.name, "version": model.version, "digest": model.digest},
        "classes": model.classes,
    }
    if "label" in outputs:
        reply["label"] = model.fitted.labels_from_decision(decision).tolist()
    if "decision" in outputs:
        reply["decision"] = decision
    return orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)


def _decode_numbers(body: bytes, n_features: int) -> Instances | None:
    """The fast way: None where anything is unusual, such as names, null or a short row."""
    if body.startswith(_BOM):  # simdjson would skip it
        return None
    try:
        document: Any = simdjson.Parser().parse(body)
        instances = document["instances"]
        outputs: tuple[str, ...] = DEFAULT_OUTPUTS
        lists = 1
        if len(document) > 1:
            outputs = tuple(document["outputs"].as_list())
            lists = 2
        n_rows = len(instances)
        if (
            len(document) != lists  # a name stands twice, or is unknown
            or not all(output in OUTPUTS for output in outputs)
            or not 0 < n_rows < _SIMDJSON_SIZE_LIMIT
            # `as_buffer` flattens lists inside rows: there must be none, and no short row.
            or body.count(b"[") != n_rows + lists
            or not all(len(row) == n_features for row in instances)
        ):
            return None
        X = np.frombuffer(instances.as_buffer(of_type="d"))
    except (ValueError, TypeError, KeyError, RuntimeError, AttributeError):
        return None
    return Instances(X.reshape(n_rows, n_features), outputs)


def _overflow(decision: NDArray[np.float64]) -> InvalidContent:
    finite = np.isfinite(decision.reshape(len(decision), -1)).all(axis=1)
    rows = (np.flatnonzero(~finite) + 1).tolist()
    faults = tuple(
        Fault(
            code="non-finite-value",
            message=f"row {row} has numbers so large that its decision value overflows",
            row=row,
        )
        for row in rows[:MAX_FAULTS]
    )
    return InvalidContent("non-finite-value", faults[0].message, faults, faults_total=len(rows))
