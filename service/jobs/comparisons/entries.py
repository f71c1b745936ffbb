"""The entries of a comparison: from the request to bodies of `POST /v1/jobs`, on all of the data or
a part of it, and the order in which they are trained."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from service.datasets.dataset import Dataset
from service.errors import InvalidContent
from service.jobs.collection.schemas import KindCreate
from service.jobs.comparisons.schemas import ComparisonCreate, EntryCreate, Grid, Sizes
from service.jobs.training.schemas import (
    JobCreate,
    TrainingOptions,
    ValidationSplit,
)
from svm.data.matrices import Indices
from svm.data.randomness import generator
from svm.data.splitting import held_out_rows
from svm.solvers import AnyChoice
from svm.training.preparation import preprocessing_key
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
        for entry in at_sizes(_entry(body, spec), body.sizes):
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


SHARED = TrainingOptions.model_fields.keys() - KindCreate.model_fields.keys() - {"set_alias"}
"""The fields that an entry takes from the comparison, if it has none of its own."""


def _entry(body: ComparisonCreate, spec: EntryCreate) -> JobCreate:
    fields = {name: getattr(spec, name, None) or getattr(body, name) for name in SHARED}
    fields["stopping"] = fields["stopping"].resolve()
    return JobCreate(
        dataset_id=body.dataset_id,
        model_name=body.model_name or NAMELESS,
        solver=spec.solver.without_search(),
        validation=body.validation,
        **fields,
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


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One training."""

    entry: int
    split: int
    """Which rows: 0 trains the model, 1 … train the folds."""
    data: tuple[Any, ...]
    """Equal if solvers get the same prepared rows, which are then prepared once."""
    starts_from: int | None
    """The entry whose model, of the step before in its chain, this one may begin with."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Trainings on one split that differ in λ: one worker does all of them."""

    steps: tuple[ChainStep, ...]
    """None of the last chain, if it trains only the best entry of all others."""
    needs: tuple[int, ...]
    """The numbers of the chains that come before: those of the folds, if this one makes models."""

    @property
    def trainings(self) -> int:
        return max(1, len(self.steps))


def data_of(entry: JobCreate, in_files: bool, split: int) -> tuple[Any, ...]:
    """The `data` of a step."""
    return preprocessing_key(entry.pipeline()), in_files, size_of(entry), split


def chains_of(
    body: ComparisonCreate, entries: Sequence[JobCreate], n_splits: int, in_files: Sequence[bool]
) -> list[Chain]:
    """Entries with the same prepared data come together, split by split. Of those that differ in λ
    the largest comes first. So a training reuses the prepared data and kernel rows of the one
    before and can begin with its model. The models come after the folds, when the best entry is
    known.
    """
    warm_starts = body.warm_starts and not body.sizes
    models = [0] if n_splits == 1 or body.refit == "all" else []
    groups: dict[Any, dict[str, list[int]]] = {}
    for k, entry in enumerate(entries):
        group = groups.setdefault(data_of(entry, in_files[k], 0)[:-1], {})
        group.setdefault(key_of(entry, regularized=False), []).append(k)
    done: list[Chain] = []
    for way, chains in groups.items():
        of_folds: dict[str, list[int]] = {key: [] for key in chains}
        for split in [*range(1, n_splits), *models]:
            for key, chain in chains.items():
                before, steps = None, []
                # λ for any number of rows: C and λ are ordered by the same measure.
                for k in sorted(chain, key=lambda k: -entries[k].solver.regularization(1000)):
                    steps.append(ChainStep(k, split, (*way, split), before))
                    before = k if warm_starts and accepts_any_start(entries[k]) else None
                done.append(Chain(tuple(steps), () if split else tuple(of_folds[key])))
                of_folds[key].append(len(done) - 1)
    if not models and body.model_name is not None:
        done.append(Chain((), tuple(range(len(done)))))
    return done


def accepts_any_start(entry: JobCreate) -> bool:
    """Whether the start changes the model only within the gap: the solver converges to the optimum
    from any start, and stops by its distance from it. The rule on the change of the cost would stop
    at once if the training began near the optimum."""
    stopping = entry.stopping
    near = stopping.duality_gap is not None and stopping.cost_change is None
    return entry.solver.certifies and near


class SizedEntry(JobCreate):
    """An entry on a part of the training rows or of the features."""

    rows: int | None
    columns: int | None


Size = tuple[int | None, int | None]


def size_of(entry: JobCreate) -> Size:
    """(training rows, features) of a part of the data; None is all of them."""
    return (entry.rows, entry.columns) if isinstance(entry, SizedEntry) else (None, None)


def at_sizes(entry: JobCreate, sizes: Sizes | None) -> Iterator[JobCreate]:
    """The entry on each of the parts; itself if there are none."""
    if sizes is None:
        yield entry
        return
    fields = {name: getattr(entry, name) for name in JobCreate.model_fields}
    for rows in sizes.rows or []:
        yield SizedEntry.model_construct(**fields, rows=rows, columns=None)
    for columns in sizes.columns or []:
        yield SizedEntry.model_construct(**fields, rows=None, columns=columns)


def check_sizes(sizes: Sizes, validation: object, dataset: Dataset) -> None:
    """Raises InvalidContent if a part has more than there is, or too little to train on. `dataset`
    has only the classes that are trained on."""
    if not isinstance(validation, ValidationSplit):
        message = "parts of the data are measured on one validation set"
        raise InvalidContent.at(
            "/validation", "invalid-field", message, "give `validation` a `fraction`"
        )
    counts = dataset.class_counts or [dataset.n_samples]
    groups = counts if validation.stratify else (sum(counts),)
    most = sum(n - held_out_rows(n, validation.fraction) for n in groups)
    for number, rows in enumerate(sizes.rows or []):
        if not len(counts) <= rows <= most:
            message = f"expected {len(counts)} … {most} training rows, got {rows}"
            raise InvalidContent.at(f"/sizes/rows/{number}", "invalid-field", message)
    for number, columns in enumerate(sizes.columns or []):
        if columns > dataset.n_features:
            message = f"the data has {dataset.n_features} features, got {columns}"
            raise InvalidContent.at(f"/sizes/columns/{number}", "invalid-field", message)


def part_of(rows: Indices, codes: Indices, count: int, seed: int) -> Indices:
    """`count` of the rows, ascending, of which `codes` are the classes.

    The rows of each class come in a random order, at even distances; so the first ones have the
    same share of each class, and at least one row of each.
    """
    shuffled = generator("sizes", seed).permutation(len(rows))
    place = np.empty(len(rows))
    for code in np.unique(codes):
        members = shuffled[codes[shuffled] == code]
        place[members] = np.arange(len(members)) / len(members)
    chosen: Indices = np.sort(rows[np.argsort(place, kind="stable")[:count]])
    return chosen
