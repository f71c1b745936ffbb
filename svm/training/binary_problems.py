"""The binary problems of a training: their rows, labels, weights and λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from svm.data.matrices import Indices, Vector
from svm.errors import InvalidData
from svm.model.multiclass import codes_of, label_name
from svm.model.pipeline import Pipeline
from svm.problem import Problem
from svm.training.preparation import Prepared, as_prepared


def problems(
    prepared: Prepared,
    pipeline: Pipeline,
    seed: int,
    interrupted: Callable[[], None],
    threads: int = 1,
) -> list[Problem]:
    """One problem for each split, in order; they share X and the rows of the kernel matrix.

    A single problem may use all `threads`; several are trained on one thread each.
    """
    made = []
    for k, split in enumerate(prepared.splits):
        rows, y = split.rows_and_sides(prepared.codes)
        problem = Problem(
            X=prepared.X,
            rows=rows,
            y=y,
            weights=_weights(pipeline, prepared, rows, y),
            regularization=pipeline.solver.regularization(_total(prepared, rows)),
            intercept=pipeline.solver.intercept,
            kernel=prepared.kernel,
            shared_kernel_rows=prepared.kernel_rows,
            shared_norms=prepared.norms,
            threads=threads if len(prepared.splits) == 1 else 1,
            seed=seed,
            pair=k,
            cost_change=pipeline.stopping.cost_change,
            max_updates=pipeline.stopping.max_updates,
            interrupted=interrupted,
        )
        made.append(problem)
    return made


def held_out(
    prepared: Prepared,
    pipeline: Pipeline,
    X: Any,
    labels: Any,
    like: list[Problem],
    interrupted: Callable[[], None] = lambda: None,
) -> list[Problem]:
    """The validation rows of each of the problems `like`. Raises InvalidData."""
    X = as_prepared(prepared, pipeline, X, interrupted)
    if np.shape(labels) != (X.shape[0],):
        raise InvalidData(
            "bad-shape", f"expected {X.shape[0]} validation labels, got {np.shape(labels)}"
        )
    codes = codes_of(prepared.classes, labels)  # rows of unknown classes belong to no problem
    watched = []
    for split, problem in zip(prepared.splits, like, strict=True):
        rows, y = split.rows_and_sides(codes)
        weights = np.ones(len(rows))
        watched.append(replace(problem, X=X, rows=rows, y=y, weights=weights, shared_norms=None))
    return watched


def _total(prepared: Prepared, rows: Indices) -> float:
    """Σ rᵢ of the rows, or their number."""
    return len(rows) if prepared.weights is None else float(prepared.weights[rows].sum())


def _weights(pipeline: Pipeline, prepared: Prepared, rows: Indices, y: Vector) -> Vector:
    """sᵢ = cᵢ, or with weights rᵢ of rows cᵢ rᵢ n / Σ r."""
    weights = _class_weights(pipeline, prepared, rows, y)
    if prepared.weights is None:
        return weights
    return weights * prepared.weights[rows] * (len(rows) / _total(prepared, rows))


def _class_weights(pipeline: Pipeline, prepared: Prepared, rows: Indices, y: Vector) -> Vector:
    """cᵢ: 1, or by class."""
    match pipeline.class_weight:
        case None:
            return np.ones(len(rows))
        case "balanced":  # both sides of every problem have the same total weight
            weights = None if prepared.weights is None else prepared.weights[rows]
            positive = float(np.average(y > 0, weights=weights))
            return np.where(y > 0, 0.5 / positive, 0.5 / (1.0 - positive))
        case by_label:
            names = [label_name(label) for label in prepared.classes.tolist()]
            if unknown := sorted(by_label.keys() - set(names)):
                raise InvalidData(
                    "unknown-class", f"class_weight has an unknown class: {unknown[0]!r}"
                )
            weights = np.array([float(by_label.get(name, 1.0)) for name in names])
            return weights[prepared.codes[rows]]
