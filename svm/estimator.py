"""`SVMClassifier`: the solvers behind scikit-learn's estimator protocol. Needs scikit-learn."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from svm.errors import InvalidHyperparameter
from svm.kernel import KERNELS
from svm.model.multiclass import label_name
from svm.model.pipeline import Pipeline
from svm.solvers import CHOICES
from svm.stopping import Stopping
from svm.training import Training
from svm.transforms.features import FEATURES


class SVMClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Support vector classifier with a certificate, for `clone`, `GridSearchCV` and pipelines.

    Parameters
    ----------
    solver : name of a solver in `svm.SOLVERS`, or `auto`, which chooses one for the data.
    C : weight of the sum of hinge losses against ½‖w‖²; ignored if `regularization` is given.
    regularization : weight λ of ½‖w‖² against the mean hinge loss.
    kernel : name of a kernel, for the solvers that take one; `kernel_options` are its parameters.
    solver_options : further hyperparameters of the solver.
    scaling, features, feature_options, multiclass, class_weight : as in `svm.Pipeline`.
    duality_gap, max_epochs : when to stop.
    random_state : seed of everything random; None draws one.
    n_jobs : pairs of classes trained at once; -1 for as many as there are processors, -2 for one
        less, and so on.

    Attributes
    ----------
    classes_ : (n_classes,) sorted labels.
    n_features_in_ : number of features in `fit`.
    result_ : the `svm.TrainingResult`: certificate, stop reason, epochs, warnings.
    """

    def __init__(
        self,
        solver: str = "newton",
        *,
        C: float = 1.0,
        regularization: float | None = None,
        kernel: str | None = None,
        kernel_options: dict[str, Any] | None = None,
        solver_options: dict[str, Any] | None = None,
        scaling: str = "none",
        features: str = "identity",
        feature_options: dict[str, Any] | None = None,
        multiclass: str = "one-vs-one",
        class_weight: Any = None,
        duality_gap: float | None = 1e-3,
        max_epochs: int | None = 1000,
        random_state: Any = 0,
        n_jobs: int = 1,
    ) -> None:
        self.solver = solver
        self.C = C
        self.regularization = regularization
        self.kernel = kernel
        self.kernel_options = kernel_options
        self.solver_options = solver_options
        self.scaling = scaling
        self.features = features
        self.feature_options = feature_options
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.duality_gap = duality_gap
        self.max_epochs = max_epochs
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X (n_samples, n_features), dense or sparse, and labels y (n_samples,).

        A row of `sample_weight` 2 counts as two equal rows; scaling counts each row once.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        training = Training(
            self._pipeline(X.dtype, y),
            X,
            y,
            weights=sample_weight,
            seed=self._seed(),
            threads=self._threads(),
        )
        for _ in training:
            pass
        self.result_ = training.result()
        self.classes_: npt.NDArray[Any] = training.classes
        self.n_iter_ = self.result_.epochs
        return self

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Two classes: (n_samples,), positive for `classes_[1]`; more: (n_samples, n_classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self.result_.fitted.decision_function(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels (n_samples,)."""
        decision = self.decision_function(X)
        return self.result_.fitted.labels_from_decision(decision)

    def _pipeline(self, dtype: np.dtype[Any], y: npt.NDArray[Any]) -> Pipeline:
        options: dict[str, Any] = {"dtype": dtype.name, **(self.solver_options or {})}
        options |= (
            {"C": self.C} if self.regularization is None else {"lambda_": self.regularization}
        )
        if self.kernel is not None:
            options["kernel"] = KERNELS[self.kernel](**(self.kernel_options or {}))
        weights = self.class_weight
        if isinstance(weights, dict):
            classes = {label: label_name(label) for label in np.unique(y).tolist()}
            weights = {
                classes.get(label, str(label)): float(weight) for label, weight in weights.items()
            }
        settings: dict[str, Any] = {
            "solver": CHOICES[self.solver](**options),
            "features": FEATURES[self.features](**(self.feature_options or {})),
            "scaling": self.scaling,
            "multiclass": self.multiclass,
            "class_weight": weights,
        }
        stopping = Stopping(duality_gap=self.duality_gap, max_epochs=self.max_epochs)
        return Pipeline(stopping=stopping, **settings)

    def _threads(self) -> int:
        if self.n_jobs == 0:
            raise InvalidHyperparameter("n_jobs", 0, "a number of pairs, or -1 for all processors")
        if self.n_jobs > 0:
            return self.n_jobs
        return max(1, (os.cpu_count() or 1) + 1 + self.n_jobs)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
