"""Bodies of requests for trainings and comparisons, from the arguments of callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from service.client.fields import AnyDataset, reference

_STRUCTURED = ("features", "stopping", "validation")


def training(
    dataset: AnyDataset, model_name: str, solver: Any = "auto", **spec: Any
) -> dict[str, Any]:
    """The body of `POST /v1/jobs`."""
    return {
        "dataset_id": reference(dataset),
        "model_name": model_name,
        "solver": _setting(solver),
        **_settings(spec),
    }


def comparison(
    dataset: AnyDataset,
    solvers: Sequence[Any],
    grid: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """The body of `POST /v1/comparisons`; each of `solvers` may be a solver, or have one."""
    entries = [
        one if isinstance(one, Mapping) and "solver" in one else {"solver": one} for one in solvers
    ]
    body = {
        "dataset_id": reference(dataset),
        "specs": [{**entry, "solver": _setting(entry["solver"])} for entry in entries],
        **_settings(options),
    }
    if grid is not None:
        body["grid"] = {**grid, "solver": [_setting(solver) for solver in grid["solver"]]}
    return body


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _setting(v) if name in _STRUCTURED else v for name, v in options.items()}


def _setting(value: Any) -> Any:
    """A solver, features or stopping rules for JSON: a solver and its kernel can be a name, each of
    them one of the classes of `svm`."""
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
