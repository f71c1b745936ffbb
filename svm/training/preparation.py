"""Preparing the data: scaling, features and kernel, learned before the first training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from svm.data import matrices
from svm.data.columns import Columns, PlainColumns, bounds_of, raw_matrix, require_raw
from svm.data.executors import IN_THIS_THREAD, Executor
from svm.data.matrices import Array, Indices, Matrix, Vector
from svm.data.shards import shard_edges, subtrees
from svm.data.stored_rows import Rows, StoredRows, pieces
from svm.encoding.encoder import AnyEncoder, PlainEncoder
from svm.encoding.fitting import fit_encoder
from svm.errors import InvalidData
from svm.kernel import kernels
from svm.kernel.kernel_rows import KernelRows
from svm.kernel.kernels import AnyKernel
from svm.model.multiclass import BinarySplit, splits_of
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.model.target import Target, is_skewed, numbers
from svm.problem.problem import operand_of
from svm.training.warm_start import WarmStart, check_same_data, check_warm_start
from svm.transforms.features import (
    AnyFeatures,
    FeatureMap,
    Identity,
    Nystroem,
    Terms,
    check_terms,
    fit_features,
)
from svm.transforms.scaling import Scaling, fit_scaling

Codes = npt.NDArray[np.unsignedinteger[Any]]
PreprocessingKey: TypeAlias = tuple[Any, ...]
"""The settings of a pipeline that decide what solvers see of given rows."""
DENSE_OUTPUTS = 64
"""Up to this number of outputs of an encoder, a linear solver sees them as a dense matrix."""
FIRST_LABELS = 1000
"""If there are two classes among these, the other labels need no sorting."""
NARROW_KERNEL = (
    "most kernel values between different rows are almost 0: the model may fit its training rows "
    "and predict others by chance; if its accuracy on other rows is low, scale the features, or "
    "give a smaller gamma"
)
SKEWED_TARGET = (
    "the target is positive and skewed, so that a few large values decide the fit: a model of its "
    'logarithm ("target_scale": "logarithmic") may be better'
)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """The steps from rows as they are given to rows as the solvers see them."""

    pipeline: Pipeline
    """The pipeline that was trained first on these rows; others have the same
    `preprocessing_key`."""
    encoder: AnyEncoder
    scaling: Scaling
    features: FeatureMap

    def transform(self, X: Matrix) -> Matrix:
        """Some checked rows, as the prepared ones are."""
        X = matrices.as_matrix(X, _input_dtype(self.pipeline)) if self.encoder.is_plain else X
        sparse = encodes_sparse(self.pipeline, self.encoder.n_outputs, self.encoder.texts)
        X = self.encoder.transform(X, self.scaling, sparse=sparse)
        if self.keeps(X):
            return X
        with np.errstate(over="ignore", invalid="ignore"):
            return matrices.as_matrix(self.features.transform(X), self.pipeline.solver.dtype)

    def keeps(self, X: Rows) -> bool:
        """Whether features and precision leave encoded rows as they are."""
        return isinstance(self.features.spec, Identity) and X.dtype == self.pipeline.solver.dtype

    def rows(self, X: Any, interrupted: Callable[[], None]) -> Rows:
        """Other rows, transformed like the prepared ones. Raises InvalidData."""
        encoder = self.encoder
        if not encoder.is_plain:
            X = _raw(X, encoder.columns, self.pipeline)
        elif not isinstance(X, StoredRows):
            X = matrices.as_matrix(X, _input_dtype(self.pipeline))
        if X.shape[1] != len(encoder.columns):
            raise InvalidData(
                "feature-mismatch",
                f"expected validation rows with {len(encoder.columns)} features, got {X.shape[1]}",
            )
        return self.map(self.encode(X, interrupted), interrupted)

    def encode(self, X: Rows, interrupted: Callable[[], None], *, in_place: bool = False) -> Rows:
        """The scaled outputs of the encoder; numbers in memory may be scaled `in_place`."""
        encoder, scaling = self.encoder, self.scaling
        sparse = encodes_sparse(self.pipeline, encoder.n_outputs, encoder.texts)
        in_files = isinstance(X, StoredRows)

        def encode(X: Matrix) -> Matrix:
            interrupted()
            encoder.require_accepted(X)
            with np.errstate(over="ignore"):
                if encoder.is_plain:
                    X = scaling.transform(X, in_place=in_place and not in_files)
                else:
                    X = encoder.transform(X, scaling, sparse=sparse)
            matrices.require_moderate(X)
            return X

        if not isinstance(X, StoredRows):
            return encode(X)
        if not encoder.is_plain:
            width = X.n_features + encoder.entries_per_row
            return X.rewritten(encode, width if sparse else encoder.n_outputs)
        dtype = "float64"
        if scaling.scale is not None or X.chosen is not None or X.dtype != dtype:
            return X.rewritten(lambda piece: encode(matrices.as_matrix(piece, dtype)))
        for piece in pieces(X):
            encode(matrices.as_matrix(piece, dtype))
        return X

    def map(
        self, X: Rows, interrupted: Callable[[], None], distances: list[Vector] | None = None
    ) -> Rows:
        """The output features of encoded rows, in the precision of the solver. `distances` gets
        how far rounding moves the rows, piece by piece, if it does."""

        def transform(X: Matrix) -> Matrix:
            interrupted()
            with np.errstate(over="ignore", invalid="ignore"):  # checked by as_matrix
                mapped = self.features.transform(X)
            X = matrices.as_matrix(mapped, self.pipeline.solver.dtype)
            matrices.require_moderate(X)
            if distances is not None and X.dtype != mapped.dtype:
                distances.extend(_distances(mapped, X))
            return X

        if self.keeps(X):
            return X
        if not isinstance(X, StoredRows):
            return transform(X)
        return X.rewritten(transform, self.features.n_outputs)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The data as the solvers see it, and the transforms that made it.

    Trainings with the same `preprocessing_key` on the same rows can share it: that saves work and
    changes no bit.
    """

    steps: Preprocessing
    target: Target | None
    """None for classes."""
    targets: Vector | None
    """(n_samples,) numeric targets, standardized; None for classes."""
    classes: Array
    """(n_classes,) sorted labels; none with a numeric target, as of the next."""
    codes: Codes
    """(n_samples,) class numbers."""
    X: Rows
    """(n_samples, n_outputs) after scaling and feature map."""
    norms: Vector | None
    """(n_samples,) ‖x‖² of its rows; None if they stay in files."""
    unmapped: Rows | None
    """The rows before a Nyström map, for a certificate with the kernel itself."""
    moved: Vector | None
    """(n_samples,) how far rounding to single precision has moved each row, in the space of the
    kernel; None in double precision. Models see rows to predict as they are."""
    kernel: AnyKernel | None
    kernel_rows: KernelRows | None
    """Shared by all problems, and by all trainings that share this; None if X stays in files."""
    splits: list[BinarySplit]
    warnings: tuple[str, ...]
    weights: Vector | None = None
    """(n_samples,) > 0, of the rows; None if they have none."""
    kept: Indices | None = None
    """Numbers of the rows among those given, if some had weight 0 and were left out."""

    @property
    def problem_classes(self) -> list[tuple[int, ...]]:
        """The numbers of the classes of each problem; of the only one of a numeric target, none."""
        return [split.classes for split in self.splits] if self.target is None else [()]

    @cached_property
    def served(self) -> Rows:
        """X of a Nyström map as the model sees rows that it predicts: not rounded to single
        precision."""
        assert self.unmapped is not None
        if self.X.dtype == np.float64:
            return self.X
        features = self.steps.features
        if isinstance(self.unmapped, StoredRows):
            return self.unmapped.rewritten(features.transform, features.n_outputs)
        return features.transform(self.unmapped)


def preprocessing_key(pipeline: Pipeline) -> PreprocessingKey:
    """Equal for pipelines whose trainings on the same rows can share `Prepared` data."""
    precision = _input_dtype(pipeline), pipeline.solver.dtype
    steps = pipeline.encoding, pipeline.scaling, pipeline.features
    predicts = pipeline.predicts_numbers, pipeline.target_scale, pipeline.solver.intercept == "none"
    return *steps, pipeline.multiclass, pipeline.kernel, *precision, *predicts


def prepare(
    pipeline: Pipeline,
    X: Any,
    labels: Any,
    seed: int,
    warm_start: WarmStart | None = None,
    interrupted: Callable[[], None] = lambda: None,
    columns: Columns | None = None,
    weights: Any = None,
    executor: Executor = IN_THIS_THREAD,
    *,
    owns_rows: bool = False,
) -> Prepared:
    """Learn encoder, scaling, features and kernel from the training rows, or take those of a warm
    start. Each row of positive weight counts once there. `owns_rows`: X may be overwritten.

    X is a matrix, or StoredRows for a solver that streams; raw values of `columns` if they are
    given. Raises InvalidData and Interrupted.
    """
    labels = np.asarray(labels)
    if columns is None or isinstance(columns, PlainColumns):
        X = _numbers(X, pipeline)
        columns = columns or PlainColumns(None, X.shape[1])
    else:
        X = _raw(X, columns, pipeline)
    plain = isinstance(columns, PlainColumns)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise InvalidData("empty-data", "there are no rows or no features to train on")
    if labels.shape != (X.shape[0],):
        raise InvalidData("bad-shape", f"expected {X.shape[0]} labels, got {labels.shape}")
    n_samples, kept = X.shape[0], None
    warnings: tuple[str, ...] = ()
    if weights is not None:
        weights = row_weights(weights, n_samples)
        if not weights.all():
            kept = np.flatnonzero(weights)
            X, labels, weights = X[kept], labels[kept], weights[kept]
    target: Target | None = None
    targets: Vector | None = None
    classes: Array = np.empty(0)
    codes: Array = np.empty(0, dtype=np.uint8)
    if pipeline.predicts_numbers:
        labels = numbers(labels)
        target = warm_start.fitted.target if warm_start is not None else None
        if target is None:
            centered = pipeline.solver.intercept != "none"
            target = Target.of(labels, pipeline.target_scale, weights, centered=centered)
        targets = target.standardized(labels)
        if not target.logarithm and is_skewed(labels):
            warnings = (SKEWED_TARGET,)
    else:
        classes = _classes(labels)
        # Sorting with the inverse takes ten times as long.
        above = labels > classes[0] if len(classes) == 2 else np.searchsorted(classes, labels)
        codes = above.astype(np.min_scalar_type(len(classes)))
        if len(classes) < 2:
            raise InvalidData("single-class", "only one class: all rows have the same label")
    earlier: FittedPipeline | None = None
    if warm_start is not None:
        check_warm_start(pipeline, warm_start.pipeline)
        check_same_data(warm_start, classes, n_samples, X.shape[1], columns)
        earlier = warm_start.fitted
    encoder: AnyEncoder
    if earlier:
        encoder, scaling = earlier.encoder, earlier.scaling
    elif plain:
        encoder, scaling = PlainEncoder(columns), fit_scaling(pipeline.scaling, X, interrupted)
    else:
        encoder, scaling = fit_encoder(pipeline.encoding, pipeline.scaling, X, columns)
    no_map = FeatureMap(Identity(), encoder.n_outputs)
    steps = Preprocessing(pipeline=pipeline, encoder=encoder, scaling=scaling, features=no_map)
    if isinstance(X, StoredRows) or not (plain and _is_plain(pipeline)):
        X = steps.encode(X, interrupted, in_place=owns_rows)
    if earlier:
        features = earlier.features
    else:
        places = _places(pipeline.features, encoder)
        features = fit_features(pipeline.features, X, seed, places)
    steps = replace(steps, features=features)
    unmapped = X if isinstance(features.spec, Nystroem) else None
    distances: list[Vector] = []
    X = steps.map(X, interrupted, distances)
    moved = np.concatenate(distances) if distances else None
    if moved is not None and not moved.any():
        moved = None
    norms = None if isinstance(X, StoredRows) else _norms(X, executor)
    kernel, kernel_rows = pipeline.kernel, None
    if kernel is not None:
        assert not isinstance(X, StoredRows)
        kernel = earlier.kernel if earlier else kernel.fitted(X)
        assert kernel is not None
        assert norms is not None
        kernels.require_moderate_values(kernel, norms)
        kernels.require_spread_rows(X)
        if kernels.mostly_underflows(kernel, X):
            warnings = (*warnings, NARROW_KERNEL)
        if moved is not None:
            moved *= kernel.steepness(np.square(np.sqrt(norms) + moved))
    if not isinstance(X, StoredRows):
        pairs = pipeline.multiclass == "one-vs-one" and len(classes) > 2
        kernel_rows = KernelRows(X, kernel or kernels.LINEAR, codes if pairs else None)
    return Prepared(
        steps=steps,
        target=target,
        targets=targets,
        classes=classes,
        codes=codes,
        X=X,
        norms=norms,
        unmapped=unmapped,
        moved=moved,
        kernel=kernel,
        kernel_rows=kernel_rows,
        splits=splits_of(pipeline.multiclass, len(classes)) if target is None else [],
        warnings=warnings,
        weights=weights,
        kept=kept,
    )


def _places(spec: AnyFeatures, encoder: AnyEncoder) -> dict[str, int] | None:
    """The places of the features that terms can name. Raises InvalidData."""
    if not isinstance(spec, Terms):
        return None
    check_terms(spec, encoder.columns)
    sources = enumerate(encoder.sources.tolist())
    return {encoder.columns[j].name: k for k, j in sources if encoder.columns[j].kind != "date"}


def _classes(labels: Array) -> Array:
    """The distinct labels, sorted. Raises InvalidData (`bad-labels`)."""
    try:
        classes = np.unique(labels[:FIRST_LABELS])
        if len(classes) != 2 or not ((labels == classes[0]) | (labels == classes[1])).all():
            classes = np.unique(labels)
    except TypeError as error:
        raise InvalidData("bad-labels", "labels must all be numbers or all be texts") from error
    if classes.dtype.kind == "f" and np.isnan(classes).any():
        raise InvalidData("bad-labels", "a label is NaN; remove the rows without a label")
    return classes


def row_weights(weights: Any, n_samples: int) -> Vector:
    """(n_samples,) float64. Raises InvalidData (`bad-shape`, `bad-weights`)."""
    try:
        given = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidData("bad-weights", "the weights of rows must be numbers") from error
    if given.shape != (n_samples,):
        raise InvalidData("bad-shape", f"expected {n_samples} weights of rows, got {given.shape}")
    bad = ~((given == 0.0) | ((given >= 1.0 / matrices.LARGEST) & (given <= matrices.LARGEST)))
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidData(
            "bad-weights",
            f"row {i} (counted from 0) has the weight {given[i]:g}; weights are 0, or between "
            f"{1.0 / matrices.LARGEST:g} and {matrices.LARGEST:g}",
        )
    if not given.any():
        raise InvalidData("empty-data", "all rows have weight 0: there are none to train on")
    return given


def _numbers(X: Any, pipeline: Pipeline) -> Rows:
    """X as rows of finite numbers. Raises InvalidData."""
    if isinstance(X, StoredRows):
        return _require_streaming(X, pipeline)
    # Rows in single precision stay as they are, others are rounded by `Preprocessing.map`.
    single = getattr(X, "dtype", None) == np.float32
    dtype = _input_dtype(pipeline) if single else "float64"
    return (matrices.in_layout if _is_plain(pipeline) else matrices.as_matrix)(X, dtype)


def _require_streaming(X: StoredRows, pipeline: Pipeline) -> StoredRows:
    """X, for a solver that reads rows from files. Raises InvalidData."""
    if not pipeline.solver.streams:
        message = "this solver needs all rows in memory; use one that reads from files"
        raise InvalidData("plan-too-large", message)
    return X


def _raw(X: Any, columns: Columns, pipeline: Pipeline) -> Rows:
    """X as raw values of the columns. Raises InvalidData."""
    from svm.loops.tables import are_raw

    rows = _require_streaming(X, pipeline) if isinstance(X, StoredRows) else raw_matrix(X)
    bounds = bounds_of(columns)
    for piece in pieces(rows):
        if rows.shape[1] != len(columns) or not are_raw(
            matrices.read_only(np.asarray(piece)), *bounds
        ):
            require_raw(np.asarray(piece), columns)
    return rows


def encodes_sparse(pipeline: Pipeline, n_outputs: int, texts: Sequence[object] = ()) -> bool:
    """Whether a solver sees this many outputs of an encoder as CSR; always those of texts."""
    linear = pipeline.kernel is None and isinstance(pipeline.features, Identity)
    return bool(texts) or (linear and n_outputs > DENSE_OUTPUTS)


def _input_dtype(pipeline: Pipeline) -> str:
    """float64 for all steps before the solver: rounding to float32 before a large mean is
    subtracted would leave noise."""
    return pipeline.solver.dtype if _is_plain(pipeline) else "float64"


def _is_plain(pipeline: Pipeline) -> bool:
    """Whether the rows are neither scaled nor mapped."""
    return pipeline.scaling == "none" and isinstance(pipeline.features, Identity)


def _norms(X: Matrix, executor: Executor) -> Vector:
    """‖x‖² of every row. The same pass finds values that are not finite or too large."""
    from svm.loops.row_operations import squared_norms

    norms, edges, operand = np.empty(X.shape[0]), shard_edges(X), operand_of(X)

    def of_run(run: range) -> None:
        first, last = edges[run.start], edges[run.stop]
        squared_norms(operand, np.arange(first, last), norms[first:last])

    executor.map(of_run, subtrees(len(edges) - 1, executor.threads))
    if not norms.max() <= matrices.LARGEST**2:
        matrices.require_finite(X)
        matrices.require_moderate(X)
    return norms


def _distances(X: Matrix, rounded: Matrix) -> Iterator[Vector]:
    """‖x - x̃‖ of the rows, piece by piece."""
    for exact, single in zip(pieces(X), pieces(rounded), strict=True):
        difference: Any = exact - single
        squares = (
            difference.multiply(difference) if matrices.is_sparse(exact) else np.square(difference)
        )
        yield np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
