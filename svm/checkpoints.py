"""Checkpoints: frozen dataclasses of arrays and numbers, written as a flat dict of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from svm.errors import CheckpointMismatch

Arrays = dict[str, npt.NDArray[Any]]
DERIVED = {"derived": True}
"""Metadata of an array that follows from other fields: no checkpoint holds it."""
T = TypeVar("T")


def flatten(value: Any, prefix: str) -> Arrays:
    """The fields of a dataclass instance, each as an array under `prefix`name, but for derived
    ones."""
    written = (field for field in fields(value) if field.metadata != DERIVED)
    return {f"{prefix}{f.name}": np.asarray(getattr(value, f.name)) for f in written}


def restore(template: T, arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> T:
    """An instance of the template's class from `flatten`'s arrays.

    Scalars come back as Python numbers, derived arrays empty. Raises CheckpointMismatch where a
    field is missing or its dtype or number of dimensions is not the template's.
    """
    found: dict[str, Any] = {}
    for field in fields(template):  # type: ignore[arg-type]
        expected = np.asarray(getattr(template, field.name))
        if field.metadata == DERIVED:
            found[field.name] = expected[:0]
            continue
        array = arrays.get(f"{prefix}{field.name}")
        same = array is not None and array.ndim == expected.ndim
        if array is None or not same or array.dtype.kind != expected.dtype.kind:
            raise CheckpointMismatch(f"the checkpoint has no fitting {prefix}{field.name}")
        found[field.name] = array.item() if array.ndim == 0 else array
    return type(template)(**found)


def platform() -> str:
    """What equal bits depend on: the type of processor and the numerical libraries."""
    import llvmlite.binding
    import numba
    import scipy

    cpu = llvmlite.binding.get_host_cpu_name()
    return f"{cpu} numpy {np.__version__} scipy {scipy.__version__} numba {numba.__version__}"
