"""What to train, and what came out: labels and decision values for new rows.

This module and what it imports stay clear of Numba and SciPy, which are imported by the first
rows that need them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Matrix, Vector, as_matrix, as_sparse, is_sparse
from svm.errors import InvalidData
from svm.hyperparameters import Checked, Moderate
from svm.kernel import AnyKernel
from svm.kernel.kernel_evaluator import Likeness
from svm.kernel.row_products import row_products
from svm.model.calibration import Calibration, CalibrationName, fit_calibration
from svm.model.linear_scorer import LinearScores, of_unscaled
from svm.model.multiclass import MulticlassName, codes_from_decision, decision
from svm.solvers import AnyChoice
from svm.stopping import Stopping
from svm.transforms.features import AnyFeatures, FeatureMap, Identity
from svm.transforms.scaling import Scaling, ScalingName

FORMAT = 1
"""Number of the plain form that `to_arrays` gives; old numbers stay readable."""

WIDE = 4096
"""Above so many features rows are scored by their non-zeros, where scaling keeps zeros."""
BLOCK_VALUES = 1 << 17
KERNEL_VALUES = 1 << 20
"""Of one block: many, for the support vectors come from memory once for all of its rows."""
MIN_WIDTH = 32


@dataclass(frozen=True, kw_only=True)
class Pipeline(Checked):
    """Scaling, then a feature map, then one binary training for each pair of classes."""

    solver: AnyChoice
    scaling: ScalingName = "none"
    features: AnyFeatures = field(default_factory=Identity)
    multiclass: MulticlassName = "one-vs-one"
    class_weight: Literal["balanced"] | dict[str, Moderate] | None = None
    """Weights sᵢ of the hinge losses by class: `balanced`, or a number for some labels (as they
    stand in JSON), 1 for the others."""
    stopping: Stopping = field(default_factory=Stopping)


@dataclass(frozen=True, kw_only=True)
class FittedPipeline:
    """A trained model: a plain value.

    Every row is scored by operations in an order of its own: its result is the same to the bit
    alone and in any batch, given dense or sparse.
    """

    classes: npt.NDArray[Any]
    """(n_classes,) sorted labels; of two, the second is the positive one."""
    scaling: Scaling
    features: FeatureMap
    coefficients: Vector
    """(n_problems, n_outputs) for the features made, or (n_problems, n_vectors) with a kernel;
    the problems in the order of `splits_of`."""
    intercepts: Vector
    """(n_problems,)"""
    multiclass: MulticlassName = "one-vs-one"
    kernel: AnyKernel | None = None
    support_vectors: Matrix | None = None
    """(n_vectors, n_outputs), float64, with a kernel."""
    calibration: Calibration | None = None
    """What makes probabilities of the scores."""

    @property
    def n_features(self) -> int:
        """Features of a row, as the caller gives it."""
        return self.features.n_inputs

    @cached_property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        content = self.to_arrays().values()
        return sum(array.nbytes for array in content if isinstance(array, np.ndarray))

    @property
    def takes_sparse(self) -> bool:
        """Whether rows are scored as sparse ones, however they are given."""
        return self.n_features > WIDE and self.scaling.offset is None

    def problem_scores(self, X: Any) -> Vector:
        """The score of every binary classifier: (n_samples, n_problems).

        X is (n_samples, n_features), dense or sparse.
        Raises InvalidData (`feature-mismatch`, `non-finite-value`, …).
        """
        X = as_matrix(X, np.float64)
        if X.shape[1] != self.n_features:
            raise InvalidData(
                "feature-mismatch",
                f"the model has {self.n_features} features, the rows have {X.shape[1]}",
            )
        return self.scores_of_checked(X)

    def prepare(self) -> int:
        """Do now what the first rows would wait for; returns the bytes that it takes."""
        self.decision_function(np.zeros((1, self.n_features)))
        if self.kernel is not None:
            return self._likeness.nbytes
        return self._unscaled.nbytes if self._unscaled is not None else 0

    def scores_of_checked(self, X: Matrix) -> Vector:
        """As `problem_scores`, for a float64 matrix in C order, finite and of the right width. A
        score may overflow."""
        if self._unscaled is not None and not is_sparse(X):
            return self._unscaled(X)
        n, block = X.shape[0], self._block_rows
        if n <= block:
            return self._scores(X)
        parts = [self._scores(X[start : start + block]) for start in range(0, n, block)]
        return np.concatenate(parts)

    @cached_property
    def _block_rows(self) -> int:
        """Rows scored at a time: what they turn into stays near the processor."""
        widths = [MIN_WIDTH]
        if self.features.directions is not None or not self.takes_sparse:
            widths.append(self.features.n_outputs)
        if not self.takes_sparse:
            widths.append(self.n_features)
        rows = BLOCK_VALUES // max(widths)
        if self.kernel is not None:
            rows = min(rows, KERNEL_VALUES // max(1, self.coefficients.shape[1]))
        return max(1, rows)

    @cached_property
    def _likeness(self) -> Likeness:
        assert self.kernel is not None
        assert self.support_vectors is not None
        return Likeness(self.kernel, self.support_vectors)

    @cached_property
    def _unscaled(self) -> LinearScores | None:
        """Of a linear model on the features themselves, the common case, that needs no copy of the
        rows."""
        simple = self.kernel is None and isinstance(self.features.spec, Identity)
        if not simple or self.takes_sparse:
            return None
        return of_unscaled(self.scaling, self.coefficients, self.intercepts)

    @cached_property
    def _of_features(self) -> LinearScores:
        """Of a linear model on the features made of the rows."""
        return LinearScores(np.zeros(self.features.n_outputs), self.coefficients, self.intercepts)

    def in_form(self, X: Matrix) -> Matrix:
        """X dense or sparse, as rows are scored."""
        if self.takes_sparse:
            return X if is_sparse(X) else as_sparse(X)
        return X.toarray() if is_sparse(X) else X

    def values_of_checked(self, X: Matrix) -> Matrix:
        """What the coefficients multiply: the features made of the rows, or their kernel values
        with the support vectors. X as in `scores_of_checked`."""
        X = self.features.transform(self.scaling.transform(self.in_form(X)))
        return X if self.kernel is None else self._likeness(X)

    def _scores(self, X: Matrix) -> Vector:
        if self._unscaled is not None:
            dense: Any = self.in_form(X)
            return self._unscaled(dense)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
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
        """Decision values that belong to `problem_scores`."""
        return decision(self.multiclass, scores, len(self.classes))

    def probabilities_from_scores(self, scores: Vector) -> Vector:
        """(n_samples, n_classes) that belong to `problem_scores` of a calibrated model."""
        assert self.calibration is not None
        return self.calibration.probabilities(self.multiclass, scores, len(self.classes))

    def calibrated(
        self, name: CalibrationName, scores: Vector, codes: npt.NDArray[Any]
    ) -> FittedPipeline:
        """This model with probabilities, learnt from the scores and class numbers of rows that it
        was not trained on. Raises InvalidData as `fit_calibration`."""
        calibration = fit_calibration(name, scores, codes, self.multiclass, len(self.classes))
        return replace(self, calibration=calibration)

    def codes_from_decision(self, decision: Vector) -> npt.NDArray[Any]:
        """Class numbers (n_samples,) that belong to decision values."""
        return codes_from_decision(decision)

    def labels_from_decision(self, decision: Vector) -> npt.NDArray[Any]:
        """Labels (n_samples,) that belong to decision values."""
        labels: npt.NDArray[Any] = self.classes[self.codes_from_decision(decision)]
        return labels

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels (n_samples,) of the rows of X."""
        return self.labels_from_decision(self.decision_function(X))

    def to_arrays(self) -> dict[str, Any]:
        """Plain arrays, numbers and strings, from which `svm.model.serialization` builds an equal
        model."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "classes": self.classes,
            "scaling": self.scaling.name,
            "features": json.dumps(asdict(self.features.spec), sort_keys=True),
            "n_features": self.n_features,
            "multiclass": self.multiclass,
            "coefficients": self.coefficients,
            "intercepts": self.intercepts,
        }
        optional: dict[str, npt.NDArray[Any] | None] = {
            "scaling_offset": self.scaling.offset,
            "scaling_scale": self.scaling.scale,
            "features_directions": self.features.directions,
            "features_weights": self.features.weights,
        }
        if self.calibration is not None:
            content["calibration"] = self.calibration.name
            optional["calibration_knots"] = self.calibration.knots
            optional["calibration_values"] = self.calibration.values
            optional["calibration_starts"] = self.calibration.starts
        content |= {name: array for name, array in optional.items() if array is not None}
        if self.kernel is not None:
            content["kernel"] = json.dumps(asdict(self.kernel), sort_keys=True)
            vectors = self.support_vectors
            if vectors is not None and is_sparse(vectors):
                content["vectors_data"] = vectors.data
                content["vectors_indices"] = vectors.indices
                content["vectors_indptr"] = vectors.indptr
            else:
                content["vectors"] = vectors
        return content
