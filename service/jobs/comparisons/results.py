"""What is known of the entries of a comparison, and their order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from service.jobs.comparisons.curve import as_table
from service.jobs.comparisons.entries import spec_of
from service.jobs.comparisons.schemas import RankBy
from service.jobs.training.schemas import JobCreate
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
"""Of an entry that has not finished."""

Error = dict[str, Any]
"""`code`, `detail` and `hint`."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is known of one entry: plain values, which stand in checkpoints and results."""

    elapsed_s: float = 0.0
    """Of its trainings so far."""
    cpu_s: float = 0.0
    confusion: list[list[int]] | None = None
    """Of the rows that were held back, those of all folds together."""
    folds: list[dict[str, Any]] = field(default_factory=list)
    """Of each `accuracy`, `stop_reason`, `epochs` and `relative_gap`."""
    warm_start_from: int | None = None
    """Position of another entry."""
    outcome: dict[str, Any] | None = None
    """Of the training that makes the model: what `outcome_of` gives. The entry is finished then."""
    curve: list[list[float]] = field(default_factory=list)
    objective: str = ""
    """Equal for equal objectives."""
    regularization: float = 0.0
    error: Error | None = None
    """Why there is nothing more to come."""

    def score(self, rank_by: RankBy) -> float | None:
        """None until the entry has finished."""
        if self.outcome is None or self.confusion is None:
            return None
        return float(classification_metrics(np.array(self.confusion))[rank_by])

    def place(self, rank_by: RankBy) -> tuple[float, ...]:
        """Ascending from the best: of equal scores the smaller model, then the larger λ, then the
        fewer updates. No times, so that the same comparison has the same order again."""
        score = self.score(rank_by)
        assert score is not None
        assert self.outcome is not None
        size, updates = self.outcome["size_bytes"], self.outcome["updates"]
        return -score, size, -self.regularization, updates


def outcome_of(result: TrainingResult, train: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `EntryRead` that a model's training decides."""
    worst = result.certificate.worst
    return {
        "train": {name: train[name] for name in SCORES},
        "certificate": {
            "primal": worst.primal,
            "dual": worst.dual,
            "gap": worst.gap,
            "relative_gap": worst.relative_gap,
            "solver_objective": worst.solver_objective,
        },
        "stop_reason": result.stop_reason,
        "converged": result.converged,
        "epochs": result.epochs,
        "updates": result.updates,
        "n_support_vectors": result.n_support_vectors,
        "size_bytes": result.fitted.nbytes,
        "warnings": list(result.warnings),
    }


def objective_of(entry: JobCreate, result: TrainingResult) -> str:
    """Equal for trainings on the same rows whose costs are values of the same function."""
    values = [f"{value:.12g}" for value in result.warm_start.regularization]
    content = repr(
        (values, preprocessing_key(entry.pipeline()), entry.solver.intercept, entry.class_weight)
    )
    return hashlib.sha256(content.encode()).hexdigest()


def validation_metrics(found: Found) -> dict[str, Any]:
    """Metrics of the rows held back, in the form of a job's."""
    metrics = classification_metrics(np.array(found.confusion))
    if not found.folds:
        return metrics
    accuracies = [fold["accuracy"] for fold in found.folds]
    return {
        **metrics,
        "accuracy_mean": float(np.mean(accuracies)),
        "accuracy_std": float(np.std(accuracies, ddof=1)),
        "folds": found.folds,
    }


def report(entries: Sequence[JobCreate], found: Sequence[Found], rank_by: RankBy) -> dict[str, Any]:
    """The JSON of `OutcomeRead`, at any moment."""
    ranked = [k for k, each in enumerate(found) if each.outcome is not None]
    ranked.sort(key=lambda k: (*found[k].place(rank_by), k))
    ranks = {k: rank for rank, k in enumerate(ranked, start=1)}
    by_objective: dict[str, list[int]] = {}
    for k in sorted(ranked):
        by_objective.setdefault(found[k].objective, []).append(k)
    numbers = {key: number for number, key in enumerate(by_objective, start=1)}
    order = [*ranked, *(k for k in range(len(entries)) if k not in ranks)]
    return {
        "entries": [
            {
                "number": k + 1,
                "rank": ranks.get(k),
                "objective": numbers.get(found[k].objective),
                "spec": spec_of(entries[k]),
                **_shown(found[k], rank_by),
            }
            for k in order
        ],
        "objectives": [
            {"number": number, **_objective([(k, found[k]) for k in members])}
            for number, members in enumerate(by_objective.values(), start=1)
        ],
    }


def _shown(found: Found, rank_by: RankBy) -> dict[str, Any]:
    validation = None
    if found.outcome is not None:
        metrics = validation_metrics(found)
        validation = {name: metrics[name] for name in SCORES}
        validation["folds"] = [fold["accuracy"] for fold in found.folds] or None
    begun = found.elapsed_s > 0
    state = "failed" if found.error else "waiting" if found.outcome is None else "finished"
    return {
        **NOTHING,
        "warnings": [],
        **(found.outcome or {}),
        "state": state,
        "score": found.score(rank_by),
        "validation": validation,
        "warm_start_from": None if found.warm_start_from is None else found.warm_start_from + 1,
        "elapsed_s": found.elapsed_s if begun else None,
        "cpu_s": found.cpu_s if begun else None,
        "trace": as_table(found.curve) if found.curve else None,
        "error": found.error,
    }


def _objective(members: list[tuple[int, Found]]) -> dict[str, Any]:
    costs = sorted((found.curve[-1][1], k) for k, found in members)
    dual = max(found.curve[-1][2] for _, found in members)
    return {
        "regularization": members[0][1].regularization,
        "entries": [k + 1 for _, k in costs],
        "dual": dual,
        "excess": [max(0.0, cost - dual) / cost if cost > 0 else 0.0 for cost, _ in costs],
    }
