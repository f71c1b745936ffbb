"""What to train, and what came out: labels and decision values for new rows.

Predicting needs NumPy alone: this module and what it imports stay clear of Numba and SciPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from svm.errors import InvalidData
from svm.hyperparameters import Checked
from svm.matrices import Matrix, Vector, as_matrix, is_sparse
from svm.multiclass import codes_from_decision, one_vs_one_decision, pairs_of
from svm.scaling import Scaling, ScalingName
from svm.solvers import AnySolver
from svm.stopping import Stopping

FORMAT = 1
"""Number of the plain form that `to_arrays` gives; old numbers stay readable."""

MulticlassName = Literal["one-vs-one"]


@dataclass(frozen=True, kw_only=True)
class Pipeline(Checked):
    """Scaling, then one binary training for each pair of classes."""

    solver: AnySolver
    scaling: ScalingName = "none"
    multiclass: MulticlassName = "one-vs-one"
    stopping: Stopping = field(default_factory=Stopping)


@dataclass(frozen=True, kw_only=True)
class FittedPipeline:
    """A trained model: a plain value.

    Every row is scored by operations in an order of its own: its result is the same to the bit
    alone and in any batch, dense batches and sparse batches each.
    """

    classes: npt.NDArray[Any]
    """(n_classes,) sorted labels; of two, the second is the positive one."""
    scaling: Scaling
    coefficients: Vector
    """(n_pairs, n_features), for scaled features; the pairs in the order of `pairs_of`."""
    intercepts: Vector
    """(n_pairs,)"""

    @property
    def n_features(self) -> int:
        return int(self.coefficients.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        scaling = (self.scaling.offset, self.scaling.scale)
        arrays = [self.classes, self.coefficients, self.intercepts, *scaling]
        return sum(array.nbytes for array in arrays if array is not None)

    def pair_scores(self, X: Any) -> Vector:
        """The score of every binary classifier: (n_samples, n_pairs).

        Raises InvalidData (`feature-mismatch`, `non-finite-value`, …).
        """
        X = as_matrix(X, np.float64)
        if X.shape[1] != self.n_features:
            raise InvalidData(
                "feature-mismatch",
                f"the model has {self.n_features} features, the rows have {X.shape[1]}",
            )
        X = self.scaling.transform(X)
        scores = np.empty((X.shape[0], len(self.intercepts)))
        for k, (w, intercept) in enumerate(zip(self.coefficients, self.intercepts, strict=True)):
            scores[:, k] = _row_products(X, w) + intercept
        return scores

    def decision_function(self, X: Any) -> Vector:
        """Two classes: (n_samples,), positive for `classes[1]`. More: (n_samples, n_classes).

        X is (n_samples, n_features), dense or sparse; see `pair_scores` for errors.
        """
        scores = self.pair_scores(X)
        if len(self.classes) == 2:
            return scores[:, 0]
        return one_vs_one_decision(scores, len(self.classes))

    def labels_from_decision(self, decision: Vector) -> npt.NDArray[Any]:
        """Labels (n_samples,) that belong to decision values."""
        labels: npt.NDArray[Any] = self.classes[codes_from_decision(decision)]
        return labels

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels (n_samples,) of the rows of X."""
        return self.labels_from_decision(self.decision_function(X))

    def to_arrays(self) -> dict[str, Any]:
        """Plain arrays, numbers and strings, from which `from_arrays` builds an equal model."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "kind": "linear",
            "multiclass": "one-vs-one",
            "classes": self.classes,
            "scaling": self.scaling.name,
            "coefficients": self.coefficients,
            "intercepts": self.intercepts,
        }
        if self.scaling.offset is not None:
            content["scaling_offset"] = self.scaling.offset
        if self.scaling.scale is not None:
            content["scaling_scale"] = self.scaling.scale
        return content

    @classmethod
    def from_arrays(cls, content: Mapping[str, Any]) -> FittedPipeline:
        """The model of `to_arrays`. Raises InvalidData (`model-unreadable`)."""
        if content.get("format") != FORMAT or content.get("kind") != "linear":
            raise InvalidData("model-unreadable", "the model has an unknown format")
        try:
            scaling = Scaling(
                content["scaling"], content.get("scaling_offset"), content.get("scaling_scale")
            )
            model = cls(
                classes=content["classes"],
                scaling=scaling,
                coefficients=content["coefficients"],
                intercepts=content["intercepts"],
            )
            n_pairs, d = len(pairs_of(len(model.classes))), model.n_features
            vectors = [v for v in (scaling.offset, scaling.scale) if v is not None]
            consistent = (
                model.coefficients.shape == (n_pairs, d)
                and model.intercepts.shape == (n_pairs,)
                and all(vector.shape == (d,) for vector in vectors)
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise InvalidData("model-unreadable", "the model lacks a part") from error
        if not consistent:
            raise InvalidData("model-unreadable", "the parts of the model do not fit together")
        return model


def _row_products(X: Matrix, w: Vector) -> Vector:
    """⟨xᵢ, w⟩ for every row, each summed in an order that depends on the row alone.

    A BLAS product would be faster for large batches, but gives a row other bits there.
    """
    if is_sparse(X):
        return np.asarray(X @ w)
    products: Vector = np.einsum("ij,j->i", X, w, dtype=np.float64)
    return products
