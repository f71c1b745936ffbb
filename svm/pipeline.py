"""What to train, and what came out: labels and decision values for new rows.

Predicting needs NumPy alone: this module and what it imports stay clear of Numba and SciPy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from svm.errors import InvalidData, InvalidHyperparameter
from svm.features import FEATURES, AnyFeatures, FeatureMap, Identity, kernel_values
from svm.hyperparameters import Checked, Positive
from svm.kernels import KERNELS, AnyKernel
from svm.matrices import Matrix, Vector, as_matrix, is_sparse
from svm.multiclass import MulticlassName, codes_from_decision, decision, splits_of
from svm.scaling import Scaling, ScalingName
from svm.solvers import AnySolver
from svm.stopping import Stopping

FORMAT = 1
"""Number of the plain form that `to_arrays` gives; old numbers stay readable."""


@dataclass(frozen=True, kw_only=True)
class Pipeline(Checked):
    """Scaling, then a feature map, then one binary training for each pair of classes."""

    solver: AnySolver
    scaling: ScalingName = "none"
    features: AnyFeatures = field(default_factory=Identity)
    multiclass: MulticlassName = "one-vs-one"
    class_weight: Literal["balanced"] | dict[str, Positive] | None = None
    """Weights sᵢ of the hinge losses by class: `balanced`, or a number for some labels (as they
    stand in JSON), 1 for the others."""
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

    @property
    def n_features(self) -> int:
        """Features of a row, as the caller gives it."""
        return self.features.n_inputs

    @cached_property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        content = self.to_arrays().values()
        return sum(array.nbytes for array in content if isinstance(array, np.ndarray))

    def problem_scores(self, X: Any) -> Vector:
        """The score of every binary classifier: (n_samples, n_problems).

        Raises InvalidData (`feature-mismatch`, `non-finite-value`, …).
        """
        X = as_matrix(X, np.float64)
        if X.shape[1] != self.n_features:
            raise InvalidData(
                "feature-mismatch",
                f"the model has {self.n_features} features, the rows have {X.shape[1]}",
            )
        X = self.features.transform(self.scaling.transform(X))
        if self.kernel is not None:
            assert self.support_vectors is not None
            X = kernel_values(self.kernel, X, self.support_vectors)
        return _row_products(X, self.coefficients) + self.intercepts

    def decision_function(self, X: Any) -> Vector:
        """Two classes: (n_samples,), positive for `classes[1]`. More: (n_samples, n_classes).

        X is (n_samples, n_features), dense or sparse; see `problem_scores` for errors.
        """
        return decision(self.multiclass, self.problem_scores(X), len(self.classes))

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
            "classes": self.classes,
            "scaling": self.scaling.name,
            "features": json.dumps(asdict(self.features.spec), sort_keys=True),
            "n_features": self.n_features,
            "multiclass": self.multiclass,
            "coefficients": self.coefficients,
            "intercepts": self.intercepts,
        }
        optional = {
            "scaling_offset": self.scaling.offset,
            "scaling_scale": self.scaling.scale,
            "features_directions": self.features.directions,
            "features_weights": self.features.weights,
        }
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

    @classmethod
    def from_arrays(cls, content: Mapping[str, Any]) -> FittedPipeline:
        """The model of `to_arrays`. Raises InvalidData (`model-unreadable`)."""
        if content.get("format") != FORMAT:
            raise InvalidData("model-unreadable", "the model has an unknown format")
        try:
            model = _read(cls, content)
            consistent = _consistent(model)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise InvalidData("model-unreadable", "the model lacks a part") from error
        if not consistent:
            raise InvalidData("model-unreadable", "the parts of the model do not fit together")
        return model


def _read(cls: type[FittedPipeline], content: Mapping[str, Any]) -> FittedPipeline:
    features = json.loads(content["features"])
    if features["name"] == "nystroem":
        features["kernel"] = _named(KERNELS, features["kernel"])
    feature_map = FeatureMap(
        _named(FEATURES, features),
        int(content["n_features"]),
        content.get("features_directions"),
        content.get("features_weights"),
    )
    kernel, vectors = None, None
    if "kernel" in content:
        kernel = _named(KERNELS, json.loads(content["kernel"]))
        vectors = content.get("vectors")
        if vectors is None:
            from scipy.sparse import csr_array

            parts = (
                content["vectors_data"],
                content["vectors_indices"],
                content["vectors_indptr"],
            )
            shape = (len(parts[2]) - 1, feature_map.n_outputs)
            vectors = csr_array(parts, shape=shape)
            vectors.check_format()
    return cls(
        classes=content["classes"],
        scaling=Scaling(
            content["scaling"], content.get("scaling_offset"), content.get("scaling_scale")
        ),
        features=feature_map,
        coefficients=content["coefficients"],
        intercepts=content["intercepts"],
        multiclass=content["multiclass"],
        kernel=kernel,
        support_vectors=vectors,
    )


def _named(choices: Mapping[str, Any], spec: dict[str, Any]) -> Any:
    try:
        return choices[spec["name"]](**spec)
    except InvalidHyperparameter as error:
        raise ValueError(str(error)) from error


def _consistent(model: FittedPipeline) -> bool:
    n_problems, d = len(splits_of(model.multiclass, len(model.classes))), model.n_features
    scaling = [v for v in (model.scaling.offset, model.scaling.scale) if v is not None]
    width = model.features.n_outputs
    if model.kernel is not None:
        assert model.support_vectors is not None
        if model.support_vectors.shape[1] != width:
            return False
        width = model.support_vectors.shape[0]
    directions, weights = model.features.directions, model.features.weights
    return (
        model.coefficients.shape == (n_problems, width)
        and model.intercepts.shape == (n_problems,)
        and all(vector.shape == (d,) for vector in scaling)
        and (directions is None or directions.shape == (model.features.n_outputs, d))
        and (weights is None or len(weights) == model.features.n_outputs)
    )


def _row_products(X: Matrix, W: Vector) -> Vector:
    """X Wᵀ, (n_samples, len(W)), each sum in an order that depends on the row alone.

    A BLAS product would be faster for large batches, but gives a row other bits there.
    """
    if is_sparse(X):
        return np.asarray(X @ W.T)
    products: Vector = np.einsum("ij,kj->ik", X, W, dtype=np.float64)
    return products
