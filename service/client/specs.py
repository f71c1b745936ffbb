"""Arguments of a training, for editors and type checkers; the service validates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, TypedDict


class TrainSpec(TypedDict, total=False):
    """Fields of `POST /v1/jobs` besides dataset, model and solver."""

    classes: Sequence[str | int | float | bool] | None
    encoding: Any
    scaling: str
    features: Any
    multiclass: str
    class_weight: str | Mapping[str, float] | None
    stopping: Any
    validation: Mapping[str, Any] | None
    spread: str
    trace: Any
    calibration: str | None
    priority: int
    warm_start_from: str | None
    seed: int | None
    set_alias: str | None
    tags: Mapping[str, str]
    callback: str | None


def plain(value: Any) -> Any:
    """The value for JSON: a solver and its kernel can be a name, a solver one of the classes of
    `svm`."""
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Mapping) and isinstance(value.get("kernel"), str):
        return {**value, "kernel": {"name": value["kernel"]}}
    given = is_dataclass(value) and not isinstance(value, type)
    return _public(asdict(value)) if given else value


def _public(value: Any) -> Any:
    if isinstance(value, dict):  # `lambda_` is `lambda` in JSON
        return {name.rstrip("_"): _public(part) for name, part in value.items()}
    return value
