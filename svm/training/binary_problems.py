"""The problems of a training: their rows, labels, weights and λ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from svm.data.executors import IN_THIS_THREAD, Executor
from svm.data.matrices import Array, Indices, Signs, Vector
from svm.errors import InvalidData
from svm.model.multiclass import codes_of, label_name, rows_and_sides
from svm.model.pipeline import Pipeline
from svm.problem.losses import Loss
from svm.problem.passes import Cluster
from svm.problem.problem import Problem
from svm.solvers import AnySolver
from svm.solvers.in_passes import computes_in_passes
from svm.solvers.protocol import ChoosesSolver
from svm.training.default_epsilon import default_epsilon
from svm.training.preparation import Prepared

Spread: TypeAlias = Callable[[Prepared, Problem], Cluster | None]


def problems(
    prepared: Prepared,
    pipeline: Pipeline,
    seed: int,
    interrupted: Callable[[], None],
    executor: Executor = IN_THIS_THREAD,
) -> list[Problem]:
    """One problem for each split, in order; they share X and the rows of the kernel matrix.

    A single problem may use the executor; several are trained on one thread each.
    """
    if len(prepared.splits) > 1:
        executor = IN_THIS_THREAD
    made, loss = [], _loss(pipeline, prepared)
    sides: list[tuple[Indices | None, Signs, Vector | None]]
    if prepared.targets is None:
        sides = [(*one, None) for one in rows_and_sides(prepared.splits, prepared.codes)]
    else:
        sides = [_sides_of(loss, prepared.targets)]
    for k, (rows, y, margins) in enumerate(sides):
        problem = Problem(
            X=prepared.X,
            some_rows=rows,
            y=y,
            margins=margins,
            unequal_weights=_weights(pipeline, prepared, rows, y, loss.n_sides),
            loss=loss,
            regularization=pipeline.solver.regularization(
                _total(prepared, rows, len(y)) / loss.n_sides
            ),
            intercept=pipeline.solver.intercept,
            kernel=prepared.kernel,
            shared_kernel_rows=prepared.kernel_rows,
            shared_norms=prepared.norms,
            executor=executor,
            seed=seed,
            pair=k,
            cost_change=pipeline.stopping.cost_change,
            max_updates=pipeline.stopping.max_updates,
            interrupted=interrupted,
        )
        made.append(problem)
    whole = [one for one in made if one.some_rows is None and one.unequal_weights is None]
    for problem in whole[1:]:  # of the same rows, with the same weights
        problem.share(whole[0])
    return made


def solver_for(
    pipeline: Pipeline, binary: list[Problem], *, warm: bool
) -> tuple[AnySolver, AnySolver | None, tuple[str, ...]]:
    """The solver of all binary problems; if it was chosen by the data, also the solver that may
    take over, and why."""
    if not isinstance(pipeline.solver, ChoosesSolver):
        return pipeline.solver, None, ()
    solver, successor, reason = pipeline.solver.chosen(binary, warm=warm)
    return solver, successor, (reason,)


def spread_over(
    binary: list[Problem], solver: AnySolver, prepared: Prepared, spread: Spread | None
) -> list[Problem]:
    """The same, a single problem with the processes that `spread` gives for its passes."""
    if spread is None or len(binary) > 1 or not computes_in_passes(solver, binary[0]):
        return binary
    cluster = spread(prepared, binary[0])
    return binary if cluster is None else [replace(binary[0], executor=cluster)]


def validation_problems(
    prepared: Prepared,
    X: Any,
    labels: Any,
    like: list[Problem],
    interrupted: Callable[[], None],
) -> list[Problem]:
    """The validation rows of each of the problems `like`. Raises InvalidData."""
    X = prepared.steps.rows(X, interrupted)
    if np.shape(labels) != (X.shape[0],):
        raise InvalidData(
            "bad-shape", f"expected {X.shape[0]} validation labels, got {np.shape(labels)}"
        )
    if prepared.target is not None:
        (problem,) = like
        sides = _sides_of(problem.loss, prepared.target.standardized(labels))
        return [problem.with_rows(X, *sides)]
    codes = codes_of(prepared.classes, labels)  # rows of unknown classes belong to no problem
    pairs = zip(like, rows_and_sides(prepared.splits, codes), strict=True)
    return [problem.with_rows(X, *rows) for problem, rows in pairs]


def _loss(pipeline: Pipeline, prepared: Prepared) -> Loss:
    """The loss of all problems; with a numeric target, ε is in its standardized unit."""
    solver, target = pipeline.solver, prepared.target
    if target is None:
        return Loss(solver.loss_name)
    if solver.epsilon is not None:
        epsilon = float(solver.epsilon) / target.scale
    else:
        total = _total(prepared, None, prepared.X.shape[0])
        epsilon = default_epsilon(prepared, solver.regularization(total))
    return Loss(solver.loss_name, epsilon, target.scale)


def _sides_of(loss: Loss, targets: Vector) -> tuple[Indices, Signs, Vector]:
    """Row numbers, signs and margins of both sides of each row."""
    return np.repeat(np.arange(len(targets)), 2), *loss.two_sides(targets)


def _total(prepared: Prepared, rows: Indices | None, n: int) -> float:
    """Σ rᵢ of the n rows (None for all), or their number."""
    return n if prepared.weights is None else float(_of(rows, prepared.weights).sum())


def _weights(
    pipeline: Pipeline, prepared: Prepared, rows: Indices | None, y: Signs, n_sides: int
) -> Vector | None:
    """sᵢ = cᵢ, or with weights rᵢ of rows cᵢ rᵢ n / Σ r, times the sides of a row; None if all are
    equal."""
    weights = _class_weights(pipeline, prepared, rows, y)
    if prepared.weights is None:
        return weights
    scaled: Vector = _of(rows, prepared.weights)
    scaled = scaled if weights is None else weights * scaled
    scaled = scaled * (n_sides * len(y) / _total(prepared, rows, len(y)))
    return None if (scaled == n_sides).all() else scaled


def _class_weights(
    pipeline: Pipeline, prepared: Prepared, rows: Indices | None, y: Signs
) -> Vector | None:
    """cᵢ: 1, or by class."""
    match pipeline.class_weight:
        case None:
            return None
        case "balanced":  # both sides of every problem have the same total weight
            weights = None if prepared.weights is None else _of(rows, prepared.weights)
            positive = float(np.average(y > 0, weights=weights))
            return np.where(y > 0, 0.5 / positive, 0.5 / (1.0 - positive))
        case by_label:
            names = [label_name(label) for label in prepared.classes.tolist()]
            if unknown := sorted(by_label.keys() - set(names)):
                raise InvalidData(
                    "unknown-class", f"class_weight has an unknown class: {unknown[0]!r}"
                )
            weights = np.array([float(by_label.get(name, 1.0)) for name in names])
            return np.asarray(weights[_of(rows, prepared.codes)])


def _of(rows: Indices | None, values: Array) -> Array:
    return values if rows is None else values[rows]
