"""In which order the trainings of a comparison are carried out, and what one leaves to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from service.jobs.comparisons.entries import key_of
from service.jobs.training.schemas import JobCreate
from svm.training.preparation import preprocessing_key


@dataclass(frozen=True, slots=True)
class Turn:
    """One training."""

    entry: int
    part: int
    """Of the rows: 0 makes the model, 1 … are those of folds."""
    data: tuple[Any, ...]
    """Equal where solvers see the same of the rows, so that it is prepared once."""
    begins_at: int | None
    """The entry whose training on the same part, the turn before, this one may begin at."""


def turns_of(
    entries: Sequence[JobCreate], n_parts: int, in_files: Sequence[bool], warm_starts: bool
) -> list[Turn]:
    """Entries for which the same data are prepared come together, part by part, and of those that
    differ in λ the largest first: every training finds what the one before prepared, its kernel
    rows, and where to begin. The models come after the folds, when it is known which is the best.
    """
    groups: dict[Any, dict[str, list[int]]] = {}
    for k, entry in enumerate(entries):
        group = groups.setdefault((preprocessing_key(entry.pipeline()), in_files[k]), {})
        group.setdefault(key_of(entry, regularized=False), []).append(k)
    turns = []
    for way, chains in groups.items():
        for part in [*range(1, n_parts), 0]:
            for chain in chains.values():
                before = None
                # λ of any number of rows: what stands as C and what stands as λ are ordered alike.
                for k in sorted(chain, key=lambda k: -entries[k].solver.regularization(1000)):
                    turns.append(Turn(k, part, (*way, part), before))
                    before = k if warm_starts and can_begin_elsewhere(entries[k]) else None
    return turns


def can_begin_elsewhere(entry: JobCreate) -> bool:
    """Whether the start decides only about the time: the solver finds the optimum itself, and is
    stopped by how far it may be from there. The rule on the change of the cost would stop at once
    where a training begins near its end, and others go on as slowly as where they began ended."""
    stopping = entry.stopping
    near = stopping.duality_gap is not None and stopping.cost_change is None
    return entry.solver.certifies and near
