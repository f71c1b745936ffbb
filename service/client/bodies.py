"""Bodies of requests for jobs, from the arguments of callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from service.client.fields import AnyDataset, AnyModel, DatasetFields, reference

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


def scoring(
    model: AnyModel,
    dataset: AnyDataset,
    tags: Mapping[str, str] | None,
    callback: str | None,
    **options: Any,
) -> dict[str, Any]:
    """The body of `POST /v1/evaluations` and `/v1/batch-predictions`; an option of None is left to
    the service. Raises ValueError if model and dataset are in the other order: no name of a model
    begins like the id of a dataset."""
    if isinstance(model, DatasetFields) or (isinstance(model, str) and model.startswith("ds_")):
        raise ValueError("the model comes first, then the dataset")
    return {
        "model": reference(model),
        "dataset_id": reference(dataset),
        "tags": dict(tags or {}),
        "callback": callback,
        **{name: value for name, value in options.items() if value is not None},
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
    """A solver, features or stopping rules for JSON: a name, or one of the classes of `svm`."""
    if isinstance(value, str):
        return {"name": value}
    given = is_dataclass(value) and not isinstance(value, type)
    return _public(asdict(value)) if given else value


def _public(value: Any) -> Any:
    if isinstance(value, dict):  # `lambda_` is `lambda` in JSON
        return {name.rstrip("_"): _public(part) for name, part in value.items()}
    return value
