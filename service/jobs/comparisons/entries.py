"""From the request for a comparison to its entries, each a body of `POST /v1/jobs`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from service.jobs.comparisons.schemas import ComparisonCreate, EntryCreate, Grid
from service.jobs.comparisons.sizes import SizedEntry, sized
from service.jobs.training.schemas import JobCreate
from svm.solvers import AnyChoice
from svm.transforms.features import AnyFeatures
from svm.transforms.scaling import ScalingName

NAMELESS = "unnamed"
"""The name of a model that is not kept."""


def entries_of(body: ComparisonCreate, limit: int | None = None) -> list[JobCreate]:
    """Each different training once, in the order of the request; of a grid the regularization
    changes fastest. Raises InvalidHyperparameter, and OverflowError beyond `limit` combinations."""
    entries: dict[str, JobCreate] = {}
    combinations = _combinations(body)
    for spec in islice(combinations, limit):
        for entry in sized(_entry(body, spec), body.sizes):
            entries.setdefault(key_of(entry), entry)
    if next(combinations, None) is not None or (limit is not None and len(entries) > limit):
        raise OverflowError(f"more than {limit} entries")
    return list(entries.values())


def spec_of(entry: JobCreate) -> dict[str, Any]:
    """The `spec` of an entry: a body of `POST /v1/jobs`, without the name `unnamed`."""
    size = {"rows", "columns"} if isinstance(entry, SizedEntry) else None
    shown = entry.model_dump(mode="json", by_alias=True, exclude=size)
    if entry.model_name == NAMELESS:
        del shown["model_name"]
    return shown


def key_of(entry: JobCreate, *, regularized: bool = True) -> str:
    """Equal for equal trainings; with `regularized=False` also if only C or λ differ."""
    shown = entry.model_dump(mode="json", by_alias=True)
    if not regularized:
        shown["solver"] |= {"C": None, "lambda": None}
    return json.dumps(shown, sort_keys=True)


def _entry(body: ComparisonCreate, spec: EntryCreate) -> JobCreate:
    return JobCreate(
        dataset_id=body.dataset_id,
        model_name=body.model_name or NAMELESS,
        classes=body.classes,
        solver=spec.solver,
        encoding=spec.encoding or body.encoding,
        scaling=spec.scaling or body.scaling,
        features=spec.features or body.features,
        multiclass=spec.multiclass or body.multiclass,
        class_weight=spec.class_weight or body.class_weight,
        stopping=(spec.stopping or body.stopping).resolve(),
        validation=body.validation,
        seed=body.seed,
    )


def _combinations(body: ComparisonCreate) -> Iterator[EntryCreate]:
    yield from body.specs
    if body.grid is None:
        return
    grid = body.grid
    scalings: Sequence[ScalingName | None] = grid.scaling or [body.scaling]
    for solver in grid.solver:
        for features in grid.features or [body.features]:
            for scaling in scalings:
                for in_kernel, mapped in _with_gamma(grid, solver, features):
                    for final in _regularized(grid, in_kernel):
                        yield EntryCreate(solver=final, features=mapped, scaling=scaling)


def _with_gamma(
    grid: Grid, solver: AnyChoice, features: AnyFeatures
) -> Iterator[tuple[AnyChoice, AnyFeatures]]:
    """Every γ for a solver or features that have one; else both unchanged."""
    if grid.gamma is None:
        yield solver, features
        return
    for gamma in grid.gamma:
        if (other := _given(solver, gamma)) is not None:
            yield other, features
        elif (mapped := _given(features, gamma)) is not None:
            yield solver, mapped
        else:
            yield solver, features
            return


def _given(part: Any, gamma: float | str) -> Any:
    """The solver or feature map with this γ; None if it has no γ."""
    if hasattr(part, "gamma"):
        return replace(part, gamma=gamma)
    kernel = getattr(part, "kernel", None)
    return None if not hasattr(kernel, "gamma") else replace(part, kernel=_given(kernel, gamma))


def _regularized(grid: Grid, solver: AnyChoice) -> Iterator[AnyChoice]:
    if grid.C is not None:
        yield from (replace(solver, C=C, lambda_=None) for C in grid.C)
    elif grid.lambda_ is not None:
        yield from (replace(solver, lambda_=value, C=None) for value in grid.lambda_)
    else:
        yield solver
