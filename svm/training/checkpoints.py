"""Checkpoints: frozen dataclasses of arrays and numbers, as a flat dict of arrays; and the
fingerprint that shows whether one belongs to a training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from svm.data.matrices import Array, is_sparse
from svm.data.stored_rows import StoredRows
from svm.errors import CheckpointMismatch
from svm.model.pipeline import Pipeline
from svm.training.preparation import Prepared
from svm.training.warm_start import WarmStart

Arrays = dict[str, Array]
T = TypeVar("T")


def flatten(value: Any, prefix: str) -> Arrays:
    """The fields of a dataclass instance: each array under `prefix`name, and all numbers and texts
    as one JSON text under `prefix`numbers, as thousands of pairs have many."""
    arrays: Arrays = {}
    numbers: dict[str, Any] = {}
    for field in fields(value):
        array = np.asarray(getattr(value, field.name))
        if array.ndim == 0:
            numbers[field.name] = array.item()
        else:
            arrays[f"{prefix}{field.name}"] = array
    return {**arrays, f"{prefix}numbers": np.asarray(json.dumps(numbers))}


def restore(template: T, arrays: Mapping[str, Array], prefix: str) -> T:
    """An instance of the template's class from `flatten`'s arrays.

    Scalars become Python numbers. Raises CheckpointMismatch if a field is missing, or its dtype or
    number of dimensions differs from the template's.
    """
    try:
        numbers = json.loads(str(arrays[f"{prefix}numbers"]))
    except (KeyError, ValueError):
        raise CheckpointMismatch(f"the checkpoint lacks {prefix}numbers") from None
    values: dict[str, Any] = {}
    for field in fields(template):  # type: ignore[arg-type]
        expected = np.asarray(getattr(template, field.name))
        source = numbers if expected.ndim == 0 else arrays
        value = source.get(field.name if expected.ndim == 0 else f"{prefix}{field.name}")
        array = np.asarray(value)
        if array.ndim != expected.ndim or array.dtype.kind != expected.dtype.kind:
            raise CheckpointMismatch(f"{prefix}{field.name} is missing or does not fit")
        values[field.name] = value
    return type(template)(**values)


def platform() -> str:
    """The processor type and the numerical libraries, on which the bits of results depend."""
    import llvmlite.binding
    import numba
    import scipy

    cpu = llvmlite.binding.get_host_cpu_name()
    return f"{cpu} numpy {np.__version__} scipy {scipy.__version__} numba {numba.__version__}"


def fingerprint(
    pipeline: Pipeline,
    prepared: Prepared,
    seed: int,
    warm_start: WarmStart | None,
    data_digest: str | None,
) -> str:
    """A digest of everything that the states of a training depend on: settings, seed, data, labels.

    `data_digest`, if given, is used instead of X and labels.
    """
    X = prepared.X
    content = repr((pipeline, seed, X.shape, prepared.classes.tolist()))
    digest = hashlib.sha256(content.encode())
    encoder = prepared.steps.encoder
    if not encoder.is_plain:
        digest.update(repr((pipeline.encoding, encoder.columns)).encode())
    parts: tuple[Any, ...] = (prepared.codes if prepared.targets is None else prepared.targets,)
    if data_digest is not None:
        digest.update(data_digest.encode())
        parts = ()
    elif isinstance(X, StoredRows):
        digest.update(X.digest.encode())
    else:
        parts += (X.data, X.indices, X.indptr) if is_sparse(X) else (X,)
    if prepared.weights is not None:
        parts += (prepared.weights,)
    initial: Arrays = {} if warm_start is None else warm_start.to_arrays()
    if warm_start is not None:
        initial |= {
            "coefficients": warm_start.fitted.coefficients,
            "intercepts": warm_start.fitted.intercepts,
        }
    for array in (*parts, *initial.values()):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
