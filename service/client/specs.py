"""What a training may be told, for editors and type checkers; the service checks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, TypedDict


class TrainSpec(TypedDict, total=False):
    """All that `POST /v1/jobs` takes beside dataset, model and solver."""

    scaling: str
    features: Any
    multiclass: str
    class_weight: str | Mapping[str, float] | None
    stopping: Any
    validation: Mapping[str, Any] | None
    calibration: str | None
    priority: int
    warm_start_from: str | None
    seed: int | None
    set_alias: str | None
    labels: Mapping[str, str]


def plain(value: Any) -> Any:
    """The same as JSON has it: a solver may be given as its name, or as one of `svm`'s classes."""
    if isinstance(value, str):
        return {"name": value}
    given = is_dataclass(value) and not isinstance(value, type)
    return _public(asdict(value)) if given else value


def _public(value: Any) -> Any:
    if isinstance(value, dict):  # `lambda_` is `lambda` in JSON
        return {name.rstrip("_"): _public(part) for name, part in value.items()}
    return value
