"""Checkpoints: frozen dataclasses of arrays and numbers, as a flat dict of arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from svm.errors import CheckpointMismatch

Arrays = dict[str, npt.NDArray[Any]]
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


def restore(template: T, arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> T:
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
