"""Runs evaluations: a model is measured on a labeled dataset, its columns by how much the accuracy
or the errors depend on each, and its rows by whether they were trained on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import ValidationError

from service.common.phases import MEASURING, SAVING
from service.datasets.dataset import Dataset
from service.datasets.rows_of_classes import RowsOfClasses, only_new
from service.errors import Corrupt, NotFound
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.job import State
from service.jobs.core.leases import Outcome
from service.jobs.core.model_columns import adapt_rows
from service.jobs.parts.leases import PartWork
from service.jobs.scoring import BLOCK_ROWS, Scoring, score, score_piece
from service.jobs.training.auditing import trained_groups, trained_rows
from service.jobs.training.rows import LabeledRows, count_seen
from service.jobs.training.schemas import JobCreate
from service.jobs.training.summary import COVERAGES
from service.rows.spec import Label
from service.storage.database import new_id
from service.storage.database.tables import ModelVersion
from svm.audit.findings import ABOUT, Finding
from svm.data.matrices import Array, Indices, Matrix, is_sparse
from svm.data.row_hashes import Words, row_hashes
from svm.errors import InvalidData
from svm.model import metrics
from svm.model.conformal import Conformal
from svm.model.explanations import permutation_importance
from svm.model.measures import Baseline, Errors, GroupSums

CURVE_POINTS = 201
"""Points of a ROC curve; each of many classes has fewer, but at least `FEWEST_POINTS`."""
ALL_POINTS = 2010
FEWEST_POINTS = 21
LARGEST_ERRORS = 20
WRONG_ROWS = 100
POINTS = 1000
"""Rows that are shown, predicted against actual."""
NOT_KNOWN = "The training data of the model are not known here: no row was left out."
NO_VALIDATION = "the training of the model held out no rows of this dataset to measure it on"
HEADLINE = ("accuracy", "roc_auc", "mae", "rmse", "r2", "n_samples", "trained_rows")
"""Metrics that lists show, if there are."""


def run(context: RunContext, attempt: Attempt) -> None:
    """Score, measure, and end the job as succeeded, or as canceled. Raises as `score`."""
    more: dict[str, Any] = {"importance": None}
    rows = np.empty(0, np.int64)
    warnings: tuple[str, ...] = ()
    found: list[Finding] = []

    def then(scoring: Scoring) -> None:
        nonlocal rows, warnings
        attempt.begin(MEASURING)
        rows = np.arange(len(scoring.truth))
        training = _trained_on(context, scoring.version)
        if attempt.job.spec.get("validation_only"):
            if training is None or scoring.version.seed is None:
                raise InvalidData("empty-data", NO_VALIDATION)
            rows = training[1].validated_on(scoring.version.spec, scoring.version.seed)
        known = None if training is None else _hashes(scoring, rows, attempt, *training)
        more["trained_rows"] = None if known is None else count_seen(*known)
        if attempt.job.spec.get("leave_out_trained"):
            if known is None:
                warnings = (NOT_KNOWN,)
            else:
                rows = only_new(rows, *known)
                more.update(trained_rows=0, left_out_rows=more["trained_rows"])
        if attempt.job.spec.get("importance"):
            more["importance"] = importance_of(scoring, rows, attempt)
        if training is not None:
            dataset, trained, some = training
            groups = scoring.data.groups
            measured = scoring.dataset, None if groups is None else groups[rows]
            sides = (dataset, trained.apart.of(some).groups), measured
            with suppress(NotFound, Corrupt):  # the training data may be gone by now
                found.extend(trained_groups(context.datasets, *sides, "rows"))

    scored = score(context, attempt, then)
    if scored is None:
        return
    measures = _metrics_of(scored, rows) | more
    found[:0] = trained_rows(measures["trained_rows"], len(rows), "rows")
    attempt.begin(SAVING)
    headline = {name: measures[name] for name in HEADLINE if name in measures}
    attempt.finish(
        Outcome(
            state=State.SUCCEEDED,
            stop_reason="finished",
            result={"metrics": headline, "unknown_cells": scored.unknown},
            warnings=warnings + tuple(f"{one.found} {ABOUT[one.name].why}" for one in found),
            results=context.blobs.write(f"evaluations/{new_id('results')}", orjson.dumps(measures)),
        )
    )


def help(context: RunContext, part: PartWork) -> None:
    """Score some rows for another worker's evaluation. Raises as `score`."""
    score_piece(context, part)


def outputs_of(version: ModelVersion) -> list[str]:
    """The outputs that an evaluation needs for every row."""
    if not version.classes:
        return ["value"]
    return ["decision"] if version.calibration is None else ["decision", "probability"]


def _metrics_of(scored: Scoring, rows: Indices) -> dict[str, Any]:
    fitted, truth, weights = scored.fitted, scored.truth[rows], scored.data.weights
    weights = None if weights is None else weights[rows]
    outputs = {name: values[rows] for name, values in scored.outputs.items()}
    groups = RowsOfClasses(scored.data, scored.dataset).groups_of(rows)
    if fitted.target is not None:
        known = (scored.version.result.get("metrics") or {}).get("train", {}).get("baseline")
        baseline = known and Baseline(known["median"], known["mean"])
        errors = Errors(truth, outputs["value"], fitted.target, baseline, weights, groups)
        return error_metrics(errors, fitted.conformal, rows)
    decision, classes = outputs["decision"], scored.version.classes
    predicted = fitted.codes_from_decision(decision)
    probabilities = outputs.get("probability")
    measures = evaluation_metrics(truth, decision, predicted, probabilities, classes)
    if groups is not None:
        measures |= GroupSums.of(groups, truth != predicted).metrics(len(rows))
    margins = metrics.margins(truth, decision)
    measures["wrong_rows"] = [
        {
            "row": int(rows[i]) + 1,
            "actual": classes[truth[i]],
            "predicted": classes[predicted[i]],
            "margin": float(margins[i]),
        }
        for i in wrong_examples(truth, predicted, margins)
    ]
    if weights is not None:
        weighted = metrics.confusion_matrix(truth, predicted, len(classes), weights)
        measures["weighted"] = metrics.weighted_metrics(weighted)
    return measures


def wrong_examples(
    truth: npt.NDArray[Any], predicted: npt.NDArray[Any], margins: npt.NDArray[np.float64]
) -> list[int]:
    """Some rows that are predicted wrongly, those with the lowest margins first: the lowest of
    each pair of a true and a predicted class before the second lowest of any."""
    wrong = np.flatnonzero(truth != predicted)
    wrong = wrong[np.argsort(margins[wrong], kind="stable")]
    pairs = np.stack([truth[wrong], predicted[wrong]])
    by_pair = np.lexsort(pairs[::-1])
    starts = np.flatnonzero(np.diff(pairs[:, by_pair], axis=1, prepend=-1).any(axis=0))
    places = np.arange(len(wrong))
    ranks = np.empty_like(places)
    ranks[by_pair] = places - starts[np.searchsorted(starts, places, side="right") - 1]
    chosen = np.sort(np.argsort(ranks, kind="stable")[:WRONG_ROWS])
    return list(map(int, wrong[chosen]))


def error_metrics(errors: Errors, conformal: Conformal | None, rows: Indices) -> dict[str, Any]:
    """All measures as JSON; the size does not grow with the rows. `rows`: their numbers from 0."""
    residuals = errors.actual - errors.predicted
    largest = np.argsort(-errors.absolute, kind="stable")[:LARGEST_ERRORS]
    some = np.arange(0, len(residuals), -(-len(residuals) // POINTS))
    bins = metrics.histogram_by_class(np.zeros(len(residuals)), residuals, 1)
    return {
        **errors.metrics(),
        "largest_errors": [
            {"row": row + 1, "actual": actual, "predicted": predicted}
            for row, actual, predicted in zip(
                rows[largest].tolist(),
                errors.actual[largest].tolist(),
                errors.predicted[largest].tolist(),
                strict=True,
            )
        ],
        "points": {
            "actual": errors.actual[some].tolist(),
            "predicted": errors.predicted[some].tolist(),
        },
        "residuals": {"edges": bins["edges"], "counts": bins["counts"][0]},
        "coverages": None
        if conformal is None
        else [
            {"coverage": coverage, "share_inside": float(errors.within(width).mean())}
            for coverage, width in conformal.half_widths(COVERAGES)
        ],
    }


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


def importance_of(scoring: Scoring, rows: Indices, attempt: Attempt) -> dict[str, Any]:
    """As JSON, the most important columns first, on some of these rows. Raises Interrupted."""
    drawn = np.random.default_rng(SEED).permutation(len(rows))[:MAX_ROWS]
    rows = rows[np.sort(drawn)]
    X = scoring.read(rows)
    with np.errstate(all="ignore"):
        measured = permutation_importance(
            scoring.fitted,
            X.toarray() if is_sparse(X) else X,
            scoring.truth[rows],
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


def _trained_on(
    context: RunContext, version: ModelVersion
) -> tuple[Dataset, LabeledRows, Indices] | None:
    """The dataset of a version's training, its rows, and the numbers of those that were trained on.
    None if they are not known or not there."""
    if version.dataset_id is None or version.seed is None:
        return None
    try:
        spec = JobCreate.from_spec(version.spec)
        dataset = context.datasets.get(version.dataset_id)
        dataset = dataset.taken_as(spec.target_kind) or dataset
        data = context.datasets.open(dataset)
    except (NotFound, Corrupt, ValidationError):
        return None
    trained = LabeledRows(data, dataset, spec.classes)
    return dataset, trained, trained.splits(spec.validation, version.seed)[0].training


def _hashes(
    scoring: Scoring,
    measured: Indices,
    attempt: Attempt,
    dataset: Dataset,
    trained: LabeledRows,
    rows: Indices,
) -> tuple[Words, Words]:
    """Of the rows to measure and of the training rows: equal if the model sees the same values and
    label. Raises Interrupted."""
    taken = adapt_rows(scoring.fitted, dataset, scoring.version)

    def hashes(read: Callable[[Indices], Matrix], rows: Indices, truth: Array) -> Words:
        found = np.empty(len(rows), dtype=np.uint64)
        for start in range(0, len(rows), BLOCK_ROWS):
            attempt.check()
            some = slice(start, start + BLOCK_ROWS)
            found[some] = row_hashes(read(rows[some]), truth[some], scoring.fitted.columns)
        return found

    old = hashes(lambda some: taken(trained.X.read(some)), rows, trained.truth(rows))
    return hashes(scoring.read, measured, scoring.truth[measured]), old
