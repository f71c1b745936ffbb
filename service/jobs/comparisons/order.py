"""The order of the trainings of a comparison, and which of them belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.jobs.comparisons.entries import key_of
from service.jobs.comparisons.sizes import size_of
from service.jobs.training.schemas import JobCreate
from svm.training.preparation import preprocessing_key


@dataclass(frozen=True, slots=True)
class Step:
    """One training."""

    entry: int
    split: int
    """Of the rows: 0 trains the model, 1 … train the folds."""
    data: tuple[Any, ...]
    """Equal if solvers get the same prepared rows, which are then prepared once."""
    starts_from: int | None
    """The entry whose model, of the step before in its chain, this one may begin with."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Trainings on one split that differ in λ: one worker does all of them."""

    steps: tuple[Step, ...]
    needs: tuple[int, ...]
    """The numbers of the chains that come before: those of the folds, if this one makes models."""


def chains_of(
    entries: Sequence[JobCreate], n_splits: int, in_files: Sequence[bool], warm_starts: bool
) -> list[Chain]:
    """Entries with the same prepared data come together, split by split. Of those that differ in λ
    the largest comes first. So a training reuses the prepared data and kernel rows of the one
    before and can begin with its model. The models come after the folds, when the best entry is
    known.
    """
    groups: dict[Any, dict[str, list[int]]] = {}
    for k, entry in enumerate(entries):
        way = preprocessing_key(entry.pipeline()), in_files[k], size_of(entry)
        group = groups.setdefault(way, {})
        group.setdefault(key_of(entry, regularized=False), []).append(k)
    done: list[Chain] = []
    for way, chains in groups.items():
        of_folds: dict[str, list[int]] = {key: [] for key in chains}
        for split in [*range(1, n_splits), 0]:
            for key, chain in chains.items():
                before, steps = None, []
                # λ for any number of rows: C and λ are ordered by the same measure.
                for k in sorted(chain, key=lambda k: -entries[k].solver.regularization(1000)):
                    steps.append(Step(k, split, (*way, split), before))
                    before = k if warm_starts and accepts_any_start(entries[k]) else None
                done.append(Chain(tuple(steps), () if split else tuple(of_folds[key])))
                of_folds[key].append(len(done) - 1)
    return done


def accepts_any_start(entry: JobCreate) -> bool:
    """Whether the start changes the model only within the gap: the solver converges to the optimum
    from any start, and stops by its distance from it. The rule on the change of the cost would stop
    at once if the training began near the optimum."""
    stopping = entry.stopping
    near = stopping.duality_gap is not None and stopping.cost_change is None
    return entry.solver.certifies and near
