"""From rows and labels to binary problems: what happens before the first step of a training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from svm.errors import InvalidData
from svm.features import FeatureMap, Identity, fit_features
from svm.kernel_rows import KernelRows
from svm.kernels import AnyKernel, mostly_underflows, require_moderate_values
from svm.matrices import (
    LARGEST,
    Indices,
    Matrix,
    Vector,
    as_matrix,
    in_layout,
    require_finite,
    require_moderate,
)
from svm.multiclass import BinarySplit, MulticlassName, label_name, splits_of
from svm.pipeline import FittedPipeline, Pipeline
from svm.problem import Problem, operand_of
from svm.scaling import Scaling, fit_scaling
from svm.stored_rows import Rows, StoredRows, pieces
from svm.warm_start import WarmStart, check_same_data, check_warm_start

Codes = npt.NDArray[np.intp]
Way: TypeAlias = tuple[Any, ...]
"""All of a pipeline that decides what solvers see of given rows."""

NARROW_KERNEL = (
    "most kernel values between different rows are as good as 0: the model will remember its "
    "training rows and know nothing of others; scale the features, or give a smaller gamma"
)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The data as the solvers see it, and what was learnt on the way there.

    Trainings with one `way` on the same rows can share it. What they then have in common saves work
    and changes no bit.
    """

    way: Way

    classes: npt.NDArray[Any]
    """(n_classes,) sorted labels."""
    codes: Codes
    """(n_samples,) class numbers."""
    scaling: Scaling
    features: FeatureMap
    X: Rows
    """(n_samples, n_outputs) after scaling and feature map."""
    norms: Vector | None
    """(n_samples,) ‖x‖² of its rows; None where they stay in files."""
    kernel: AnyKernel | None
    kernel_rows: KernelRows | None
    """Of all problems, and of all trainings that share this."""
    multiclass: MulticlassName
    splits: list[BinarySplit]
    warnings: tuple[str, ...]


def way_of(pipeline: Pipeline) -> Way:
    """Equal for pipelines whose trainings on the same rows can share what was prepared."""
    kernel = getattr(pipeline.solver, "kernel", None)
    precision = _input_dtype(pipeline), pipeline.solver.dtype
    return pipeline.scaling, pipeline.features, pipeline.multiclass, kernel, *precision


def prepare(
    pipeline: Pipeline,
    X: Any,
    labels: Any,
    seed: int,
    warm_start: WarmStart | None = None,
    interrupted: Callable[[], None] = lambda: None,
) -> Prepared:
    """Learn scaling, features and kernel from the training rows, or take those of a warm start.

    X is a matrix, or StoredRows for a solver that streams. Raises InvalidData and Interrupted.
    """
    labels = np.asarray(labels)
    if not isinstance(X, StoredRows):
        X = (in_layout if _is_plain(pipeline) else as_matrix)(X, _input_dtype(pipeline))
    elif not pipeline.solver.streams:
        raise InvalidData(
            "plan-too-large", "this solver needs all rows in memory: use one that streams"
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise InvalidData("empty-data", "there is nothing to train on")
    if labels.shape != (X.shape[0],):
        raise InvalidData("bad-shape", f"expected {X.shape[0]} labels, got {labels.shape}")
    classes = _classes(labels)
    codes = np.searchsorted(classes, labels)  # sorting with the inverse takes ten times as long
    if len(classes) < 2:
        raise InvalidData("single-class", "only one class: all rows have the same label")
    earlier: FittedPipeline | None = None
    if warm_start is not None:
        check_warm_start(pipeline, warm_start.pipeline)
        check_same_data(warm_start, classes, *X.shape)
        earlier = warm_start.fitted
    scaling = earlier.scaling if earlier else fit_scaling(pipeline.scaling, X, interrupted)
    if isinstance(X, StoredRows) or not _is_plain(pipeline):
        X = _scaled(X, scaling, pipeline, interrupted)
    features = earlier.features if earlier else fit_features(pipeline.features, X, seed)
    X = _mapped(X, features, pipeline, interrupted)
    norms = None if isinstance(X, StoredRows) else _norms(X)
    kernel: AnyKernel | None = getattr(pipeline.solver, "kernel", None)
    kernel_rows = None
    warnings: tuple[str, ...] = ()
    if kernel is not None:
        assert not isinstance(X, StoredRows)
        kernel = earlier.kernel if earlier else kernel.fitted(X)
        assert kernel is not None
        assert norms is not None
        require_moderate_values(kernel, norms)
        pairs = pipeline.multiclass == "one-vs-one" and len(classes) > 2
        kernel_rows = KernelRows(X, kernel, codes if pairs else None)
        warnings = (NARROW_KERNEL,) if mostly_underflows(kernel, X) else ()
    return Prepared(
        way=way_of(pipeline),
        classes=classes,
        codes=codes,
        scaling=scaling,
        features=features,
        X=X,
        norms=norms,
        kernel=kernel,
        kernel_rows=kernel_rows,
        multiclass=pipeline.multiclass,
        splits=splits_of(pipeline.multiclass, len(classes)),
        warnings=warnings,
    )


def _classes(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The different labels, sorted. Raises InvalidData (`bad-labels`)."""
    try:
        classes = np.unique(labels)
    except TypeError as error:
        raise InvalidData("bad-labels", "labels must be of one kind that can be sorted") from error
    if classes.dtype.kind == "f" and np.isnan(classes).any():
        raise InvalidData("bad-labels", "a label is NaN: leave out the rows that have none")
    return classes


def problems(
    prepared: Prepared,
    pipeline: Pipeline,
    seed: int,
    interrupted: Callable[[], None],
    threads: int = 1,
) -> list[Problem]:
    """One problem a split, in order; they share X, and rows of the kernel matrix.

    A single problem has all `threads` for itself; several are trained in one each.
    """
    own = threads if len(prepared.splits) == 1 else 1
    return [
        replace(_problem(prepared, pipeline, split, k, seed, interrupted), threads=own)
        for k, split in enumerate(prepared.splits)
    ]


def held_out(
    prepared: Prepared,
    pipeline: Pipeline,
    X: Any,
    labels: Any,
    like: list[Problem],
    interrupted: Callable[[], None] = lambda: None,
) -> list[Problem]:
    """Validation rows as the problems that they belong to. Raises InvalidData."""
    if not isinstance(X, StoredRows):
        X = as_matrix(X, _input_dtype(pipeline))
    n_features = prepared.features.n_inputs
    if X.shape[1] != n_features:
        raise InvalidData(
            "feature-mismatch",
            f"expected validation rows with {n_features} features, got {X.shape[1]}",
        )
    if np.shape(labels) != (X.shape[0],):
        raise InvalidData(
            "bad-shape", f"expected {X.shape[0]} validation labels, got {np.shape(labels)}"
        )
    X = _scaled(X, prepared.scaling, pipeline, interrupted)
    X = _mapped(X, prepared.features, pipeline, interrupted)
    classes = prepared.classes
    codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    codes[classes[codes] != labels] = -1  # of no class that is trained: of no problem
    watched = []
    for split, problem in zip(prepared.splits, like, strict=True):
        rows, y = _sides(split, codes)
        weights = np.ones(len(rows))
        watched.append(replace(problem, X=X, rows=rows, y=y, weights=weights, shared_norms=None))
    return watched


def _input_dtype(pipeline: Pipeline) -> str:
    """float64 for all that comes before the solver: rounding to float32 before a large mean is
    taken off would leave noise."""
    return pipeline.solver.dtype if _is_plain(pipeline) else "float64"


def _is_plain(pipeline: Pipeline) -> bool:
    """Whether solvers see the rows as they are."""
    return pipeline.scaling == "none" and isinstance(pipeline.features, Identity)


def _norms(X: Matrix) -> Vector:
    """‖x‖² of every row. One pass finds whatever is not finite or too large, too."""
    from svm.loops.products import squared_norms

    norms = np.empty(X.shape[0])
    squared_norms(operand_of(X), np.arange(len(norms)), norms)
    if not norms.max() <= LARGEST**2:
        require_finite(X)
        require_moderate(X)
    return norms


def _scaled(X: Rows, scaling: Scaling, pipeline: Pipeline, interrupted: Callable[[], None]) -> Rows:
    def scale(X: Matrix) -> Matrix:
        interrupted()
        X = scaling.transform(X)
        require_moderate(X)
        return X

    if not isinstance(X, StoredRows):
        return scale(X)
    dtype = _input_dtype(pipeline)
    if scaling.scale is not None or X.chosen is not None or X.dtype != dtype:
        return X.rewritten(lambda piece: scale(as_matrix(piece, dtype)))
    for piece in pieces(X):
        scale(as_matrix(piece, dtype))
    return X


def _mapped(
    X: Rows, features: FeatureMap, pipeline: Pipeline, interrupted: Callable[[], None]
) -> Rows:
    def transform(X: Matrix) -> Matrix:
        interrupted()
        with np.errstate(over="ignore", invalid="ignore"):  # found by as_matrix
            X = features.transform(X)
        X = as_matrix(X, pipeline.solver.dtype)
        require_moderate(X)
        return X

    if isinstance(features.spec, Identity) and X.dtype == pipeline.solver.dtype:
        return X
    if not isinstance(X, StoredRows):
        return transform(X)
    return X.rewritten(transform, features.n_outputs)


def _sides(split: BinarySplit, codes: Codes) -> tuple[Indices, Vector]:
    rows = np.flatnonzero(np.isin(codes, (*split.negative, split.positive)))
    return rows, np.where(codes[rows] == split.positive, 1.0, -1.0)


def _problem(
    prepared: Prepared,
    pipeline: Pipeline,
    split: BinarySplit,
    number: int,
    seed: int,
    interrupted: Callable[[], None],
) -> Problem:
    rows, y = _sides(split, prepared.codes)
    return Problem(
        X=prepared.X,
        rows=rows,
        y=y,
        weights=_weights(pipeline, prepared, rows, y),
        regularization=pipeline.solver.regularization(len(rows)),
        intercept=pipeline.solver.intercept,
        kernel=prepared.kernel,
        shared_kernel_rows=prepared.kernel_rows,
        shared_norms=prepared.norms,
        seed=seed,
        pair=number,
        cost_change=pipeline.stopping.cost_change,
        interrupted=interrupted,
    )


def _weights(pipeline: Pipeline, prepared: Prepared, rows: Indices, y: Vector) -> Vector:
    """sᵢ: 1, or by class."""
    match pipeline.class_weight:
        case None:
            return np.ones(len(rows))
        case "balanced":  # both sides of every problem weigh the same
            positive = float((y > 0).mean())
            return np.where(y > 0, 0.5 / positive, 0.5 / (1.0 - positive))
        case by_label:
            names = [label_name(label) for label in prepared.classes.tolist()]
            if unknown := sorted(by_label.keys() - set(names)):
                raise InvalidData("unknown-class", f"class_weight names no class: {unknown[0]!r}")
            weights = np.array([float(by_label.get(name, 1.0)) for name in names])
            return weights[prepared.codes[rows]]
