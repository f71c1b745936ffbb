"""The results of the entries of a comparison, and their ranking."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from service.jobs.comparisons.curve import as_table
from service.jobs.comparisons.entries import spec_of
from service.jobs.comparisons.schemas import RankBy
from service.jobs.comparisons.sizes import size_of
from service.jobs.training.rows import Confusion
from service.jobs.training.schemas import JobCreate
from service.jobs.training.summary import metrics_of_folds
from svm.model.metrics import classification_metrics
from svm.training.preparation import preprocessing_key
from svm.training.results import TrainingResult

SCORES = ("accuracy", "balanced_accuracy", "macro_f1")

NOTHING = dict.fromkeys(
    (
        *("train", "certificate", "stop_reason", "converged", "epochs", "updates"),
        *("n_support_vectors", "size_bytes"),
    )
)
"""Fields of an entry that has not finished."""

Error = dict[str, Any]
"""`code`, `detail` and `hint`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """Of the training of one entry on one split of the rows: plain values."""

    elapsed_s: float
    cpu_s: float
    confusion: list[list[int]] | None
    """Of the split's validation rows."""
    weighted: list[list[float]] | None
    """The same in sums of weights, if the rows have weights. Ranks do not depend on it."""
    fold: dict[str, Any] | None
    """Of a fold: `accuracy`, `stop_reason`, `epochs` and `relative_gap`."""


@dataclass(frozen=True, kw_only=True)
class EntryResult:
    """The result of one entry so far: plain values, stored in checkpoints and results."""

    splits: dict[int, SplitResult] = field(default_factory=dict)
    """Of its trainings so far."""
    warm_start_from: int | None = None
    """Position of the entry with whose model it began."""
    model: dict[str, Any] | None = None
    """Of the training of the model: what `model_result` gives. Then the entry has finished."""
    curve: list[list[float]] = field(default_factory=list)
    objective: str = ""
    """Equal for equal objectives."""
    regularization: float = 0.0
    error: Error | None = None
    """Why it was given up."""

    @classmethod
    def of(cls, plain: dict[str, Any]) -> EntryResult:
        """From its JSON. Raises TypeError if it has other fields."""
        splits = {int(k): SplitResult(**each) for k, each in plain.pop("splits").items()}
        return cls(splits=splits, **plain)

    def merged(self, other: EntryResult) -> EntryResult:
        """With what `other` has more, which began with what this one had then."""
        newer = other if other.model is not None else self
        error = self.error or other.error
        return replace(newer, splits=self.splits | other.splits, error=error)

    @property
    def _in_order(self) -> list[SplitResult]:
        return [self.splits[k] for k in sorted(self.splits)]

    @property
    def elapsed_s(self) -> float:
        return sum(each.elapsed_s for each in self._in_order)

    @property
    def cpu_s(self) -> float:
        return sum(each.cpu_s for each in self._in_order)

    @property
    def folds(self) -> list[dict[str, Any]]:
        return [each.fold for each in self._in_order if each.fold is not None]

    @property
    def confusion(self) -> Confusion | None:
        """Of the validation set; with folds the sum of all."""
        counts = [each.confusion for each in self._in_order if each.confusion is not None]
        weights = [each.weighted for each in self._in_order if each.weighted is not None]
        if not counts:
            return None
        return Confusion(np.sum(counts, axis=0), np.sum(weights, axis=0) if weights else None)

    def score(self, rank_by: RankBy) -> float | None:
        """None until the entry has finished."""
        if self.model is None or self.confusion is None:
            return None
        return float(classification_metrics(self.confusion.counts)[rank_by])

    def sort_key(self, rank_by: RankBy) -> tuple[float, ...]:
        """Ascending from the best: of equal scores the smaller model, then the larger λ, then the
        fewer updates. Times do not count, so that the same comparison always has the same order."""
        score = self.score(rank_by)
        assert score is not None
        assert self.model is not None
        size, updates = self.model["size_bytes"], self.model["updates"]
        return -score, size, -self.regularization, updates


OF_CERTIFICATE = (
    *("primal", "dual", "gap", "relative_gap", "excess", "status", "summary"),
    "solver_objective",
)
"""The fields of `CostRead`."""


def model_result(result: TrainingResult, train: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `EntryRead` that come from the training of a model."""
    certificate = result.certificate.as_dict(result.fitted.classes)
    return {
        "train": {name: train[name] for name in SCORES},
        "certificate": {name: certificate[name] for name in OF_CERTIFICATE},
        "stop_reason": result.stop_reason,
        "converged": result.converged,
        "epochs": result.epochs,
        "updates": result.updates,
        "n_support_vectors": result.n_support_vectors,
        "size_bytes": result.fitted.nbytes,
        "warnings": list(result.warnings),
        "notes": list(result.notes),
    }


def objective_of(entry: JobCreate, result: TrainingResult) -> str:
    """Equal for trainings on the same rows that minimize the same function."""
    values = [f"{value:.12g}" for value in result.warm_start.regularization]
    content = repr(
        (
            *(values, preprocessing_key(entry.pipeline()), entry.solver.intercept),
            *(entry.class_weight, size_of(entry)),
        )
    )
    return hashlib.sha256(content.encode()).hexdigest()


def validation_metrics(result: EntryResult) -> dict[str, Any]:
    """Metrics of the validation set, in the same form as a job's."""
    confusion = result.confusion
    assert confusion is not None
    return metrics_of_folds(confusion, result.folds) if result.folds else confusion.metrics()


def report(
    entries: Sequence[JobCreate], results: Sequence[EntryResult], rank_by: RankBy
) -> dict[str, Any]:
    """The JSON of `ComparisonResults`, complete or so far."""
    ranked = [k for k, each in enumerate(results) if each.model is not None]
    ranked.sort(key=lambda k: (*results[k].sort_key(rank_by), k))
    ranks = {k: rank for rank, k in enumerate(ranked, start=1)}
    by_objective: dict[str, list[int]] = {}
    for k in sorted(ranked):
        by_objective.setdefault(results[k].objective, []).append(k)
    numbers = {key: number for number, key in enumerate(by_objective, start=1)}
    order = [*ranked, *(k for k in range(len(entries)) if k not in ranks)]
    return {
        "entries": [
            {
                "number": k + 1,
                "rank": ranks.get(k),
                "objective": numbers.get(results[k].objective),
                "spec": spec_of(entries[k]),
                "rows": size_of(entries[k])[0],
                "columns": size_of(entries[k])[1],
                **_entry(results[k], rank_by),
            }
            for k in order
        ],
        "objectives": [
            {"number": number, **_objective([(k, results[k]) for k in members])}
            for number, members in enumerate(by_objective.values(), start=1)
        ],
    }


def _entry(result: EntryResult, rank_by: RankBy) -> dict[str, Any]:
    validation = None
    if result.model is not None:
        metrics = validation_metrics(result)
        validation = {name: metrics[name] for name in SCORES}
        validation["folds"] = [fold["accuracy"] for fold in result.folds] or None
    begun = result.elapsed_s > 0
    state = "failed" if result.error else "waiting" if result.model is None else "finished"
    return {
        **NOTHING,
        "warnings": [],
        "notes": [],
        **(result.model or {}),
        "state": state,
        "score": result.score(rank_by),
        "validation": validation,
        "warm_start_from": None if result.warm_start_from is None else result.warm_start_from + 1,
        "elapsed_s": result.elapsed_s if begun else None,
        "cpu_s": result.cpu_s if begun else None,
        "trace": as_table(result.curve) if result.curve else None,
        "error": result.error,
    }


def _objective(members: list[tuple[int, EntryResult]]) -> dict[str, Any]:
    costs = sorted((result.curve[-1][1], k) for k, result in members)
    dual = max(result.curve[-1][2] for _, result in members)
    return {
        "regularization": members[0][1].regularization,
        "entries": [k + 1 for _, k in costs],
        "dual": dual,
        "excess": [max(0.0, cost - dual) / cost if cost > 0 else 0.0 for cost, _ in costs],
    }
