"""Runs evaluations: a model is measured on a labeled dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.core.model_columns import class_numbers
from service.jobs.evaluations.importance import importance_of
from service.jobs.evaluations.trained_rows import trained_rows
from service.jobs.parts.helping import PartWork
from service.jobs.scoring import Scoring, score, score_piece
from service.jobs.training.summary import measured_on_trained
from service.models.versions import ModelVersion
from service.rows.spec import Label
from service.storage.database import new_id
from svm.model.metrics import (
    RocCurve,
    calibration_metrics,
    classification_metrics,
    confusion_matrix,
    histogram_by_class,
    margins,
    one_vs_one_area,
    roc_curve,
    weighted_metrics,
)

CURVE_POINTS = 201
"""Of a ROC curve; of each of many classes fewer, but at least `FEWEST_POINTS`."""
ALL_POINTS = 2010
FEWEST_POINTS = 21


def run(context: RunContext, attempt: Attempt) -> None:
    """Score, measure, and end the job as succeeded, or as canceled. Raises as `score`."""
    importance: dict[str, Any] | None = None
    trained: int | None = None

    def then(scoring: Scoring) -> None:
        nonlocal importance, trained
        if attempt.job.spec.get("importance"):
            importance = importance_of(scoring, attempt)
        trained = trained_rows(context, scoring, attempt)

    scored = score(context, attempt, then)
    if scored is None:
        return
    assert scored.codes is not None
    codes = class_numbers(scored.dataset, scored.version.classes)[scored.codes]
    decision = scored.outputs["decision"]
    predicted = scored.fitted.codes_from_decision(decision)
    metrics = evaluation_metrics(
        codes, decision, predicted, scored.outputs.get("probability"), scored.version.classes
    )
    if scored.weights is not None:
        n_classes = len(scored.version.classes)
        weighted = confusion_matrix(codes, predicted, n_classes, scored.weights)
        metrics["weighted"] = weighted_metrics(weighted)
    metrics |= {"importance": importance, "trained_rows": trained}
    content = orjson.dumps(metrics)
    headline = {
        name: metrics[name] for name in ("accuracy", "roc_auc", "n_samples", "trained_rows")
    }
    attempt.finish(
        Outcome(
            state=State.SUCCEEDED,
            stop_reason="finished",
            result={"metrics": headline, "unknown_cells": scored.unknown},
            warnings=measured_on_trained(trained, len(codes), "rows"),
            results=context.blobs.write(f"evaluations/{new_id('results')}", content),
        )
    )


def help(context: RunContext, part: PartWork) -> None:
    """Score some rows for another worker's evaluation. Raises as `score`."""
    score_piece(context, part)


def outputs_of(version: ModelVersion) -> list[str]:
    """The outputs that an evaluation needs for every row."""
    return ["decision"] if version.calibration is None else ["decision", "probability"]


def evaluation_metrics(
    codes: npt.NDArray[Any],
    decision: npt.NDArray[np.float64],
    predicted: npt.NDArray[Any],
    probabilities: npt.NDArray[np.float64] | None,
    classes: list[Label],
) -> dict[str, Any]:
    """All metrics as JSON; the size does not grow with the rows.

    `codes` and `predicted` are (n,) numbers of `classes`, `decision` (n,) or (n, n_classes).
    """
    n_classes = len(classes)
    binary = decision.ndim == 1
    metrics = classification_metrics(confusion_matrix(codes, predicted, n_classes))
    n_points = max(FEWEST_POINTS, min(CURVE_POINTS, ALL_POINTS // n_classes))
    curves = {
        k: roc_curve(codes == k, decision if binary else decision[:, k])
        for k in ([1] if binary else range(n_classes))
    }
    areas = [curve.area for curve in curves.values() if curve is not None]
    area = float(np.mean(areas)) if areas else None
    by_class = zip(classes, metrics.pop("per_class"), strict=True)
    return {
        "n_samples": len(codes),
        "classes": classes,
        **metrics,
        "per_class": [{"label": label, **each} for label, each in by_class],
        "roc_auc": area,
        "roc_auc_one_vs_one": area if binary else one_vs_one_area(codes, decision),
        "roc": [
            {"label": classes[k], **_points(curve.thinned(n_points))}
            for k, curve in curves.items()
            if curve is not None
        ],
        "margins": histogram_by_class(codes, margins(codes, decision), n_classes),
        "calibration": None
        if probabilities is None
        else calibration_metrics(probabilities, predicted, codes),
    }


def _points(curve: RocCurve) -> dict[str, Any]:
    return {
        "auc": curve.area,
        "thresholds": [None, *curve.thresholds[1:].tolist()],
        "false_positive_rate": curve.false_positive_rate.tolist(),
        "true_positive_rate": curve.true_positive_rate.tolist(),
    }
