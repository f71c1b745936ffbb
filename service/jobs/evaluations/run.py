"""Runs evaluations: a model is measured on a labeled dataset, its columns by how much the accuracy
depends on each, and its rows by whether they were trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import ValidationError

from service.errors import Corrupt, NotFound
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.job import State
from service.jobs.core.leases import Outcome
from service.jobs.core.model_columns import adapt_rows, class_numbers
from service.jobs.parts.leases import PartWork
from service.jobs.scoring import BLOCK_ROWS, Scoring, score, score_piece
from service.jobs.training.rows import LabeledRows, count_seen
from service.jobs.training.schemas import JobCreate
from service.jobs.training.summary import warn_of_trained_rows
from service.rows.spec import Label
from service.rows.table.row_hashes import Words, row_hashes
from service.storage.database import new_id
from service.storage.database.tables import ModelVersion
from svm.data.matrices import Indices, Matrix, is_sparse
from svm.model import metrics
from svm.model.explanations import permutation_importance

CURVE_POINTS = 201
"""Points of a ROC curve; each of many classes has fewer, but at least `FEWEST_POINTS`."""
ALL_POINTS = 2010
FEWEST_POINTS = 21


def run(context: RunContext, attempt: Attempt) -> None:
    """Score, measure, and end the job as succeeded, or as canceled. Raises as `score`."""
    more: dict[str, Any] = {"importance": None}

    def then(scoring: Scoring) -> None:
        if attempt.job.spec.get("importance"):
            more["importance"] = importance_of(scoring, attempt)
        more["trained_rows"] = trained_rows(context, scoring, attempt)

    scored = score(context, attempt, then)
    if scored is None:
        return
    assert scored.data.codes is not None
    codes = class_numbers(scored.dataset, scored.version.classes)[scored.data.codes]
    decision = scored.outputs["decision"]
    predicted = scored.fitted.codes_from_decision(decision)
    measures = evaluation_metrics(
        codes, decision, predicted, scored.outputs.get("probability"), scored.version.classes
    )
    if scored.data.weights is not None:
        n_classes = len(scored.version.classes)
        weighted = metrics.confusion_matrix(codes, predicted, n_classes, scored.data.weights)
        measures["weighted"] = metrics.weighted_metrics(weighted)
    measures |= more
    content = orjson.dumps(measures)
    headline = {
        name: measures[name] for name in ("accuracy", "roc_auc", "n_samples", "trained_rows")
    }
    attempt.finish(
        Outcome(
            state=State.SUCCEEDED,
            stop_reason="finished",
            result={"metrics": headline, "unknown_cells": scored.unknown},
            warnings=warn_of_trained_rows(measures["trained_rows"], len(codes), "rows"),
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
    """All measures as JSON; the size does not grow with the rows.

    `codes` and `predicted` are (n,) numbers of `classes`, `decision` (n,) or (n, n_classes).
    """
    n_classes = len(classes)
    binary = decision.ndim == 1
    measures = metrics.classification_metrics(metrics.confusion_matrix(codes, predicted, n_classes))
    n_points = max(FEWEST_POINTS, min(CURVE_POINTS, ALL_POINTS // n_classes))
    curves = {
        k: metrics.roc_curve(codes == k, decision if binary else decision[:, k])
        for k in ([1] if binary else range(n_classes))
    }
    areas = [curve.area for curve in curves.values() if curve is not None]
    area = float(np.mean(areas)) if areas else None
    by_class = zip(classes, measures.pop("per_class"), strict=True)
    return {
        "n_samples": len(codes),
        "classes": classes,
        **measures,
        "per_class": [{"label": label, **each} for label, each in by_class],
        "roc_auc": area,
        "roc_auc_one_vs_one": area if binary else metrics.one_vs_one_area(codes, decision),
        "roc": [
            {"label": classes[k], **_points(curve.thinned(n_points))}
            for k, curve in curves.items()
            if curve is not None
        ],
        "margins": metrics.histogram_by_class(codes, metrics.margins(codes, decision), n_classes),
        "calibration": None
        if probabilities is None
        else metrics.calibration_metrics(probabilities, predicted, codes),
    }


def _points(curve: metrics.RocCurve) -> dict[str, Any]:
    return {
        "auc": curve.area,
        "thresholds": [None, *curve.thresholds[1:].tolist()],
        "false_positive_rate": curve.false_positive_rate.tolist(),
        "true_positive_rate": curve.true_positive_rate.tolist(),
    }


MAX_COLUMNS = 200
MAX_ROWS = 2000
SEED = 0


def importance_of(scoring: Scoring, attempt: Attempt) -> dict[str, Any]:
    """As JSON, the most important columns first. Raises Interrupted."""
    n = scoring.dataset.n_samples
    drawn = np.random.default_rng(SEED).permutation(n)[:MAX_ROWS]
    rows = np.sort(drawn)
    X = scoring.read(rows)
    codes = scoring.data.codes
    assert codes is not None
    numbers = class_numbers(scoring.dataset, scoring.version.classes)[codes[rows]]
    with np.errstate(all="ignore"):
        measured = permutation_importance(
            scoring.fitted,
            X.toarray() if is_sparse(X) else X,
            numbers,
            seed=SEED,
            check=attempt.check,
        )
    names = scoring.version.columns or [f"feature {j}" for j in range(len(measured))]
    falls, errors = measured.T.tolist()
    columns = [
        {"name": names[j], "decrease": falls[j], "standard_error": errors[j]}
        for j in np.argsort(-measured[:, 0], kind="stable").tolist()
    ]
    return {"n_samples": len(rows), "columns": columns}


def trained_rows(context: RunContext, scoring: Scoring, attempt: Attempt) -> int | None:
    """Rows are equal if the model sees the same values and label; None if its training data are not
    known or not there. Raises Interrupted."""
    version = scoring.version
    if version.dataset_id is None or version.seed is None:
        return None
    try:
        dataset = context.datasets.get(version.dataset_id)
        data = context.datasets.open(dataset)
        spec = JobCreate.from_spec(version.spec)
    except (NotFound, Corrupt, ValidationError):
        return None
    trained = LabeledRows(data, dataset, spec.classes)
    rows = trained.splits(spec.validation, version.seed)[0].training
    taken = adapt_rows(scoring.fitted, dataset, version)

    def hashes(read: Callable[[Indices], Matrix], rows: Indices, codes: Indices) -> Words:
        found = np.empty(len(rows), dtype=np.uint64)
        for start in range(0, len(rows), BLOCK_ROWS):
            attempt.check()
            some = slice(start, start + BLOCK_ROWS)
            found[some] = row_hashes(read(rows[some]), codes[some])
        return found

    assert scoring.data.codes is not None
    codes = class_numbers(scoring.dataset, version.classes)[scoring.data.codes]
    measured = hashes(scoring.read, np.arange(len(codes)), codes)
    return count_seen(
        measured, hashes(lambda some: taken(data.X.read(some)), rows, trained.codes(rows))
    )
