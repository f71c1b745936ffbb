"""What to train, and the trained model: labels and decision values for new rows.

SciPy is imported with the first sparse rows, Numba with the first rows of a model with a kernel or
a feature map, not by this module.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, TypeVarTuple, Unpack

import numpy as np

from svm.data.columns import Columns
from svm.data.matrices import (
    Array,
    Indices,
    Matrix,
    Vector,
    as_sparse,
    dense,
    is_sparse,
    matrix_bytes,
)
from svm.encoding.encoder import AnyEncoder, Encoder, Encoding, PlainEncoder
from svm.errors import InvalidHyperparameter
from svm.hyperparameters import Checked, Moderate
from svm.kernel.kernels import AnyKernel
from svm.kernel.row_products import KernelEvaluator, row_products
from svm.model.calibration import Calibration, CalibrationName, fit_calibration
from svm.model.conformal import Conformal
from svm.model.multiclass import MulticlassName, certainty, codes_from_decision, decision
from svm.model.rejection import Rejection
from svm.model.scorers import LinearScorer, TableScorer, table_scorer, unscaled_scorer
from svm.model.target import Target, TargetScale
from svm.solvers import AnyChoice
from svm.stopping import Stopping
from svm.transforms.features import AnyFeatures, FeatureMap, Identity, Nystroem, RandomFourier
from svm.transforms.scaling import Scaling, ScalingName

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
WIDE = 4096
"""Above this number of features, rows are scored by their non-zeros if scaling keeps zeros."""
BLOCK_VALUES = 1 << 17
MIN_WIDTH = 32
ROUNDED_LOGARITHM = 1e-12
"""More than the error of an exponential and a logarithm, one after the other."""


@dataclass(frozen=True, kw_only=True)
class Pipeline(Checked):
    """Encoding of a table, scaling, a feature map, one binary training for each pair of classes."""

    solver: AnyChoice
    encoding: Encoding = field(default_factory=Encoding, repr=False)
    """Only for tables with kinds of columns. Not in the text of a pipeline: the fingerprints of
    trainings without such a table stay as they were."""
    scaling: ScalingName = "none"
    features: AnyFeatures = field(default_factory=Identity)
    multiclass: MulticlassName = "one-vs-one"
    class_weight: Literal["balanced"] | dict[str, Moderate] | None = None
    """Weights sᵢ of the hinge losses by class: `balanced`, or a number for some labels (as
    written in JSON), 1 for the others."""
    stopping: Stopping = field(default_factory=Stopping)
    target_scale: TargetScale = field(default="linear", repr=False)
    """Of a numeric target: `logarithmic` trains on its logarithm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.predicts_numbers and self.class_weight is not None:
            raise InvalidHyperparameter(
                "class_weight", self.class_weight, "null: a numeric target has no classes"
            )

    @property
    def predicts_numbers(self) -> bool:
        """Whether the labels are numeric targets: the loss is one for these."""
        return self.solver.predicts_numbers

    def for_numbers(self) -> Pipeline:
        """This pipeline for a numeric target: with the default loss for it, if it has none."""
        if self.solver.loss is not None:
            return self
        return replace(self, solver=replace(self.solver, loss="epsilon-insensitive"))

    def for_texts(self) -> Pipeline:
        """This pipeline for classes of texts: a linear solver that names no loss gets the squared
        hinge, if it has that one, and each class one problem. With pairs 1.7 points of R8 are
        lost: each has few texts, and its scale of scores."""
        solver = self.solver
        if solver.loss is None and self.kernel is None:
            squared: Any = "squared-hinge"
            with suppress(InvalidHyperparameter):
                solver = replace(solver, loss=squared)
        return replace(self, solver=solver, multiclass="one-vs-rest")

    @property
    def kernel(self) -> AnyKernel | None:
        """The kernel of the solver; None for a linear model."""
        return getattr(self.solver, "kernel", None)


@dataclass(frozen=True, kw_only=True)
class FittedPipeline:
    """A trained model: a plain value.

    The bits of a row's result depend on that row alone: they are the same in any batch, dense or
    sparse.
    """

    classes: Array
    """(n_classes,) sorted labels; of two, the second is the positive one. None with a target."""
    scaling: Scaling
    features: FeatureMap
    coefficients: Vector
    """(n_problems, n_outputs) for the output features, or (n_problems, n_vectors) with a kernel;
    the problems in the order of `splits_of`."""
    intercepts: Vector
    """(n_problems,)"""
    multiclass: MulticlassName = "one-vs-one"
    kernel: AnyKernel | None = None
    support_vectors: Matrix | None = None
    """(n_vectors, n_outputs), float64, with a kernel."""
    calibration: Calibration | None = None
    """The map from scores to probabilities."""
    encoder: AnyEncoder = field(default=None)  # type: ignore[assignment]
    """From the values of a row to the features that are scaled. By default these are the same."""
    target: Target | None = None
    """What the model predicts, if that is a number."""
    conformal: Conformal | None = None
    """From predicted numbers to intervals."""
    rejection: Rejection | None = None
    """Which labels are withheld, if a row may be of no known class."""

    def __post_init__(self) -> None:
        if self.encoder is None:
            object.__setattr__(self, "encoder", PlainEncoder.of(self.features.n_inputs))

    @property
    def columns(self) -> Columns:
        """The columns of a row."""
        return self.encoder.columns

    def named(self, names: Sequence[str] | None) -> FittedPipeline:
        """This model with names for its columns, as far as it has none of its own."""
        return replace(self, encoder=self.encoder.named(names))

    @property
    def n_features(self) -> int:
        """Values of a row: of a table the original columns."""
        return len(self.columns)

    @cached_property
    def nbytes(self) -> int:
        """Memory of the arrays, and of the texts of levels."""
        texts = sum(text.nbytes for text in self.encoder.texts)
        return _array_bytes(self) + sum(map(sys.getsizeof, self.encoder.levels)) + texts

    @property
    def is_compiled(self) -> bool:
        """Whether compiled loops score rows: their import takes a second, and 120 MB."""
        return self.kernel is not None or isinstance(self.features.spec, RandomFourier | Nystroem)

    @property
    def takes_sparse(self) -> bool:
        """Whether rows are scored as sparse ones, even if given as dense ones."""
        plain = self.encoder.is_plain
        return plain and self.n_features > WIDE and self.scaling.offset is None

    @property
    def _encodes_sparse(self) -> bool:
        """Whether what the feature map takes is sparse: raw rows with texts are dense."""
        return self.takes_sparse or bool(self.encoder.texts)

    def problem_scores(self, X: Any) -> Vector:
        """The score of every binary classifier: (n_samples, n_problems).

        X is (n_samples, n_features), dense or sparse; of a table, its raw values.
        Raises InvalidData (`feature-mismatch`, `non-finite-value`, `missing-value`, …).
        """
        return self.scores_of_checked(self.encoder.checked(X))

    def prepare(self) -> int:
        """Do the work that the first rows would otherwise need; returns the bytes that it takes."""
        row = np.full((1, self.n_features), self.encoder.empty_cell)
        scores = self.scores_of_checked(row)
        if self.target is None:
            self.decision_from_scores(scores)
        taken = self.features.prepared_bytes
        if self.kernel is not None:
            taken += self._kernel_evaluator.nbytes
        return taken + (self._unscaled.nbytes if self._unscaled is not None else 0)

    def scores_of_checked(self, X: Matrix, unknown_words: Indices | None = None) -> Vector:
        """The `problem_scores` of a checked float64 matrix in C order: finite, or raw values, and
        of the right width. A score may overflow.

        To `unknown_words`, (n_samples,), is added how many words of each row no training text had.
        """
        n, block = X.shape[0], self._block_rows
        if n <= block:
            return quietly(self._scores, X, unknown_words)
        parts: list[Vector] = []
        for rows in (slice(start, start + block) for start in range(0, n, block)):
            words = None if unknown_words is None else unknown_words[rows]
            parts.append(quietly(self._scores, X[rows], words))
        return np.concatenate(parts)

    @cached_property
    def _block_rows(self) -> int:
        """Rows scored at a time: their transformed values fit into the processor's cache."""
        widths = [MIN_WIDTH]
        if isinstance(self._unscaled, TableScorer):
            widths.append(self._unscaled.values_per_row)
        elif not self._encodes_sparse:
            widths.append(self.encoder.n_outputs)
        if self.features.directions is not None or not self._encodes_sparse:
            widths.append(self.features.n_outputs)
        if not self._encodes_sparse:
            widths.append(self.n_features)
        if self.kernel is not None:
            widths.append(self.coefficients.shape[1])
        return max(1, BLOCK_VALUES // max(widths))

    @cached_property
    def _kernel_evaluator(self) -> KernelEvaluator:
        assert self.kernel is not None
        assert self.support_vectors is not None
        return KernelEvaluator(self.kernel, self.support_vectors)

    @cached_property
    def _unscaled(self) -> LinearScorer | TableScorer | None:
        """For a linear model without a feature map, the common case: needs no copy of the rows."""
        simple = self.kernel is None and isinstance(self.features.spec, Identity)
        if not simple or self.takes_sparse:
            return None
        learned = self.scaling, self.coefficients, self.intercepts
        if isinstance(self.encoder, PlainEncoder):
            return unscaled_scorer(*learned)
        return table_scorer(self.encoder, *learned)

    @cached_property
    def _of_features(self) -> LinearScorer:
        """For a linear model on output features."""
        return LinearScorer(None, self.coefficients, self.intercepts)

    def in_form(self, X: Matrix) -> Matrix:
        """X, dense or sparse as rows are scored; raw rows as they are."""
        if self.takes_sparse:
            return X if is_sparse(X) else as_sparse(X)
        return X.toarray() if is_sparse(X) else X

    def scaled(self, X: Matrix) -> Matrix:
        """The values that the feature map or the kernel takes. X as in `scores_of_checked`."""
        return self.encoder.transform(self.in_form(X), self.scaling)

    def values_of_checked(self, X: Matrix) -> Matrix:
        """The values that coefficients multiply: output features, or kernel values with the support
        vectors. X as in `scores_of_checked`."""
        X = self.features.transform(self.scaled(X))
        return X if self.kernel is None else self._kernel_evaluator(X)

    def _scores(self, X: Matrix, unknown_words: Indices | None) -> Vector:
        scorer = self._unscaled
        if isinstance(scorer, TableScorer):
            return scorer(dense(X), unknown_words)
        if unknown_words is not None and isinstance(self.encoder, Encoder):
            unknown_words += self.encoder.unknown_words(dense(X))
        if scorer is not None:
            return scorer(dense(X))
        values = self.values_of_checked(X)
        if self.kernel is None and not is_sparse(values):
            return self._of_features(values)
        scores = row_products(values, self.coefficients)
        scores += self.intercepts
        return scores

    def decision_function(self, X: Any) -> Vector:
        """Two classes: (n_samples,), positive for `classes[1]`. More: (n_samples, n_classes).

        See `problem_scores` for X and errors.
        """
        return self.decision_from_scores(self.problem_scores(X))

    def decision_from_scores(self, scores: Vector) -> Vector:
        """Decision values from `problem_scores`."""
        return decision(self.multiclass, scores, len(self.classes))

    def probabilities_from_scores(self, scores: Vector) -> Vector:
        """(n_samples, n_classes) from `problem_scores` of a calibrated model."""
        assert self.calibration is not None
        return self.calibration.probabilities(self.multiclass, scores, len(self.classes))

    def calibrated(self, name: CalibrationName, scores: Vector, codes: Array) -> FittedPipeline:
        """This model with probabilities, learned from the scores and class numbers of a validation
        set. Raises InvalidData as `fit_calibration`."""
        calibration = fit_calibration(name, scores, codes, self.multiclass, len(self.classes))
        return replace(self, calibration=calibration)

    def codes_from_decision(self, decision: Vector) -> Array:
        """Class numbers (n_samples,) from decision values."""
        return codes_from_decision(decision)

    def labels_from_decision(self, decision: Vector) -> Array:
        """Labels (n_samples,) from decision values."""
        labels: Array = self.classes[self.codes_from_decision(decision)]
        return labels

    def with_rejection(self, certain: Vector) -> FittedPipeline:
        """This model, able to withhold labels: `certain` is how certain those are of rows of its
        classes that it did not see."""
        return replace(self, rejection=Rejection.of(certain))

    def codes_and_certainty(self, scores: Vector) -> tuple[Array, Vector]:
        """Class numbers (n_samples,) from `problem_scores`, and how certain they are."""
        codes = self.codes_from_decision(self.decision_from_scores(scores))
        return codes, certainty(self.multiclass, scores, codes, len(self.classes))

    def codes_or_none(self, scores: Vector, withheld: float) -> Array:
        """Class numbers (n_samples,) from `problem_scores` of a model `with_rejection`; -1 for a
        label that is withheld. Raises InvalidData (`invalid-field`) for a share that needs more
        rows."""
        assert self.rejection is not None
        codes, certain = self.codes_and_certainty(scores)
        return np.where(certain < self.rejection.threshold(withheld), -1, codes).astype(np.int32)

    def labels_or_none(self, X: Any, withheld: float = 0.05) -> Array:
        """(n_samples,) objects: labels, and None for rows that may be of no known class. Of rows of
        known classes a share `withheld` gets None, on average. Raises as `codes_or_none`."""
        codes = self.codes_or_none(self.problem_scores(X), withheld)
        return np.array([*self.classes.tolist(), None], dtype=object)[codes]

    def values_from_scores(self, scores: Vector) -> Vector:
        """Predicted numbers (n_samples,) from `problem_scores`."""
        assert self.target is not None
        return self.target.values(scores)

    def intervals_from_scores(self, scores: Vector, coverage: float) -> Vector:
        """(n_samples, 2) the ends of prediction intervals, from `problem_scores` of a model
        `with_intervals`. Raises InvalidData (`invalid-field`) for a coverage that needs more rows.
        """
        assert self.target is not None
        assert self.conformal is not None
        ends = self.conformal.intervals(scores[:, 0], coverage)
        return self.target.values(ends[:, :, None])

    def with_intervals(self, actual: Vector, predicted: Vector) -> FittedPipeline:
        """This model with prediction intervals, from the targets of rows that it did not see, and
        what it predicts for these."""
        assert self.target is not None
        errors = self.target.errors(actual, predicted)
        if self.target.logarithm:
            errors = errors + ROUNDED_LOGARITHM
        return replace(self, conformal=Conformal.of(errors))

    def predict(self, X: Any) -> Array:
        """Labels (n_samples,) of the rows of X, or numbers."""
        if self.target is not None:
            return self.values_from_scores(self.problem_scores(X))
        return self.labels_from_decision(self.decision_function(X))


def _array_bytes(value: Any) -> int:
    """Memory of the arrays in a dataclass, a sparse matrix or an array."""
    if is_dataclass(value):
        return sum(_array_bytes(getattr(value, field.name)) for field in fields(value))
    return matrix_bytes(value) if isinstance(value, np.ndarray) or hasattr(value, "indptr") else 0


class _Quiet(threading.local):
    """NumPy keeps its settings in a context variable. A context is entered by one thread at a
    time."""

    def __init__(self) -> None:
        self.context = Context()
        self.context.run(np.seterr, all="ignore")


_quiet = _Quiet()


def quietly(work: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
    """`work(*arguments)`, which may not call `quietly` itself."""
    return _quiet.context.run(work, *arguments)
