"""`SVMClassifier` and `SVMRegressor`: parameters, `fit` and `predict`.

Solver, kernel and features are names or objects, whose own parameters are reached as `solver__C`,
`kernel__gamma`, `features__n_components`.
"""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_is_fitted,
    validate_data,
)

from svm.attributes import linear_attributes, support_attributes
from svm.data.columns import Column, Columns, Kind, PlainColumns
from svm.data.frames import frame_of, learn_columns, raw_values
from svm.data.matrices import Array, Vector, is_sparse
from svm.encoding.encoder import Encoding
from svm.errors import InvalidData, InvalidHyperparameter
from svm.hyperparameters import NUMERIC_LOSSES, Checked, LossName
from svm.kernel.kernels import KERNELS, OTHER_NAMES, LinearKernel
from svm.model.calibration import CalibrationName
from svm.model.multiclass import label_name
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.solvers import CHOICES
from svm.solvers.other_names import did_you_mean
from svm.solvers.protocol import LearnsOnline
from svm.stopping import Stopping
from svm.training.online import OnlineTraining
from svm.training.training import Execution, Training
from svm.transforms.features import FEATURES

NAMED: dict[str, dict[str, type[Any]]] = {
    "solver": CHOICES,
    "kernel": KERNELS,
    "features": FEATURES,
}
SMALL = 1 << 20
"""Values of a sparse matrix, zeros included, that may be made dense: 8 MiB."""
FOLDS = 5
"""Calibration learns from scores of rows that were left out of a training."""


def _calibrates(estimator: Any) -> bool:
    return estimator.calibration is not None


def _streams(estimator: Any) -> bool:
    try:
        return isinstance(as_object("solver", estimator.solver), LearnsOnline)
    except InvalidHyperparameter:  # `fit` reports it
        return False


class SVMEstimator(BaseEstimator):  # type: ignore[misc]  # untyped
    """What the estimators share: parameters by name, and the training."""

    _predicts_numbers: bool

    def __init__(
        self,
        solver: Any,
        C: float | None,
        regularization: float | None,
        kernel: Any,
        scaling: str,
        features: Any,
        loss: str | None,
        duality_gap: float | None,
        max_epochs: int | None,
        random_state: Any,
        encoding: Encoding | None,
        kinds: Mapping[str, Kind] | None,
    ) -> None:
        self.encoding = encoding
        self.kinds = kinds
        self.solver = solver
        self.C = C
        self.regularization = regularization
        self.kernel = kernel
        self.scaling = scaling
        self.features = features
        self.loss = loss
        self.duality_gap = duality_gap
        self.max_epochs = max_epochs
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; `deep`: also those of solver, kernel and features, as `solver__C`."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name in NAMED:
                params |= list_nested(name, params[name])
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `solver__C` makes another solver, as solvers do not change."""
        inner: dict[str, dict[str, Any]] = defaultdict(dict)
        outer = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if rest and name in NAMED:
                inner[name][rest] = value
            else:
                outer[key] = value
        super().set_params(**outer)
        for name, changes in inner.items():
            setattr(self, name, change(name, getattr(self, name), changes))
        return self

    def _fit(self, pipeline: Pipeline, X: Any, y: Any, weights: Any) -> Training:
        training = self._train(pipeline, X, y, weights)
        self.result_ = training.result()
        if not self.result_.converged:
            warnings.warn(
                f"the training ended with {self.result_.stop_reason}: "
                f"{self.result_.certificate.summary(training.classes)}",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.n_iter_ = self.result_.epochs
        self._keep(self.result_.fitted)
        return training

    def _train(self, pipeline: Pipeline, X: Any, y: Any, weights: Any) -> Training:
        names = getattr(self, "feature_names_in_", None)
        columns: Columns | None = self.columns_
        if columns is None and names is not None:
            columns = PlainColumns(names.tolist(), len(names))
        training = Training(
            *(pipeline, X, y),
            weights=weights,
            columns=columns,
            seed=self._seed(),
            how=Execution(threads=self._threads()),
        )
        for _ in training:
            pass
        return training

    def _scores(self, X: Any) -> Vector:
        check_is_fitted(self)
        if self.columns_ is None:
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
            return self.fitted_.problem_scores(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        frame = frame_of(X, plain=True)
        if frame is None:
            raise InvalidData("bad-shape", "expected rows of a table, as in fit")
        return self.fitted_.problem_scores(raw_values(frame, self.columns_))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """(n_outputs,) names of what the feature map takes, which are the columns of `coef_`: of a
        table such as `age`, `born: month`, `age: missing`, `sex: male`, else those of the features.
        `input_features` is ignored: the names are those of `fit`."""
        check_is_fitted(self)
        if self.columns_ is not None:
            return np.array(self.fitted_.encoder.output_names, dtype=object)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        return np.array(names, dtype=object)

    def _check(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[Any, Any, Any]:
        frame = frame_of(X, plain=bool(self.kinds)) if reset else None
        if frame is not None:
            validate_data(self, X, skip_check_array=True)
            y = _check_y(y, y_numeric=self._predicts_numbers)
            columns = learn_columns(frame, self.kinds or {})
            X = raw_values(frame, columns)
            self.columns_: tuple[Column, ...] | None = columns
            check_consistent_length(X, y)
            check_array(np.asarray(X), ensure_all_finite="allow-nan")
        else:
            X, y = self._check_numbers(X, y, reset)
            self.columns_ = None
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return X, y, sample_weight

    def _check_numbers(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        checked: tuple[Any, Any] = validate_data(
            *(self, X, y),
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            y_numeric=self._predicts_numbers,
            ensure_min_samples=2 if self._predicts_numbers else 1,
            reset=reset,
        )
        return checked

    def _keep(self, fitted: FittedPipeline) -> None:
        """The model, and none of what an earlier `fit` learned beside it."""
        for name in ("coef_", "support_", "support_vectors_", "n_support_", "dual_coef_"):
            self.__dict__.pop(name, None)
        self.fitted_ = fitted
        self.__dict__.update(linear_attributes(fitted))

    def _in_form(self, X: Any) -> Any:
        """The rows as they are trained: small sparse ones as dense ones, unless the caller chose
        the solver."""
        small = is_sparse(X) and X.shape[0] * X.shape[1] <= SMALL
        return X.toarray() if small and self.solver is None else X

    def _solver(self, X: Any) -> Any:
        """The solver asked for, or a fast one for these rows."""
        named, kernel = self.solver, self.kernel
        if kernel is not None:
            kernel = as_object("kernel", kernel)
        linear = isinstance(kernel, LinearKernel | None)
        if named is None:
            named = ("auto" if is_sparse(X) else "newton") if linear else "smo"
        solver = as_object("solver", named)
        options: dict[str, Any] = {"dtype": X.dtype.name} if isinstance(named, str) else {}
        if self.C is not None or self.regularization is not None:
            options |= {"C": self.C, "lambda_": self.regularization}
        if self.loss is not None:
            options["loss"] = self.loss
        if hasattr(solver, "kernel"):
            options |= {} if kernel is None else {"kernel": kernel}
        elif not linear:
            raise InvalidHyperparameter(
                "solver", named, f"smo or None with the kernel {kernel.name}"
            )
        return replace(solver, **options)

    def _pipeline(self, X: Any, **settings: Any) -> Pipeline:
        stopping = Stopping(duality_gap=self.duality_gap, max_epochs=self.max_epochs)
        settings |= {
            "solver": self._solver(X),
            "features": as_object("features", self.features),
            "encoding": Encoding() if self.encoding is None else self.encoding,
            "scaling": self.scaling,
            "stopping": stopping,
        }
        pipeline = Pipeline(**settings)
        if self._predicts_numbers:
            pipeline = pipeline.for_numbers()
        if pipeline.predicts_numbers != self._predicts_numbers:
            losses = [one for one in get_args(LossName) if one not in NUMERIC_LOSSES]
            expected = " or ".join(NUMERIC_LOSSES if self._predicts_numbers else losses)
            raise InvalidHyperparameter("loss", pipeline.solver.loss, expected)
        return pipeline

    def _threads(self) -> int:
        return 1

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


class SVMClassifier(ClassifierMixin, SVMEstimator):  # type: ignore[misc]  # untyped
    """Support vector classifier with a certificate, for `clone`, `GridSearchCV` and pipelines.

    Parameters
    ----------
    solver
        a solver such as `svm.Newton(C=1.0)`, or the name of one in `svm.SOLVERS`, or `auto`,
        which chooses one for the data. Its hyperparameters are also `solver__C` and so on.
        None: `smo` with a kernel, `auto` for sparse rows, else `newton`; sparse rows of at most a
        million values, zeros included, are trained as dense ones.
    C
        weight of the sum of the losses against ½‖w‖², in place of the solver's own; 1 if neither
        is given.
    regularization
        weight λ of ½‖w‖² against the mean loss, in place of C.
    kernel
        a kernel such as `svm.GaussianKernel(gamma=0.5)`, or its name, also `rbf` and `poly`, for
        the solvers that take one; also `kernel__gamma` and so on.
    scaling
        `none`, `standardize`, `min-max` or `max-abs`.
    features
        a feature map such as `svm.Nystroem(n_components=500)`, or its name.
    loss
        `hinge`, the default, or `squared-hinge`, in place of the solver's own.
    multiclass
        `one-vs-one` or `one-vs-rest`.
    class_weight
        `balanced`, or a weight for some classes, 1 for the others. It multiplies the
        losses of the class in every pair. `balanced` gives both sides of each binary problem
        the same total weight; SVC balances all classes at once.
    duality_gap, max_epochs
        when to stop.
    calibration
        `sigmoid`, or `isotonic` from some 1,000 rows on, for `predict_proba`: learned from
        the scores of five further trainings, each without a fifth of the rows.
    random_state
        seed of everything random; None draws one.
    n_jobs
        pairs of classes trained at once; -1 for as many as there are processors, -2 for one
        less, and so on.
    encoding
        a `svm.Encoding`: how missing cells, rare levels and unseen ones are encoded.
    kinds
        what columns are, by name: `number`, `boolean`, `date`, `category` or `text` (sentences,
        whose words become features). The others follow from their types, and texts from their
        cells. Columns of an array are called `0`, `1`, and so on.

    Attributes
    ----------
    classes_
        (n_classes,) sorted labels.
    columns_
        kinds and levels of the columns, if the rows are a table: a frame of pandas, polars or
        Arrow, or an array, that has more than finite numbers. None of plain numbers.
    n_features_in_, feature_names_in_
        number of features in `fit`, and their names if it has any.
    n_iter_
        epochs of the pair that needed most.
    result_
        the `svm.TrainingResult`: certificate, stop reason, epochs, warnings. Not after
        `partial_fit`.
    fitted_
        the model, a `svm.FittedPipeline`.
    coef_, intercept_
        of linear models without a feature map: (n_problems, n_features) and
        (n_problems,), for rows as they are given. A positive score ⟨coef_, x⟩ + intercept_ is for
        the second class of a pair, in the order (0, 1), (0, 2), …; SVC has the opposite sign for
        more than two classes. With one-vs-rest problem k is for class k. Models with a kernel or a
        feature map have `intercept_` alone.
    support_, support_vectors_, n_support_, dual_coef_
        of solvers with dual coefficients: the
        rows that have one, as they are given, their number in each class, and (n_problems,
        n_support) yᵢ αᵢ/(λn), with the hinge at most C times the row's weight.

    Equal votes are decided by the larger summed score, then by the lower class; SVC takes the
    lower class at once.
    """

    _predicts_numbers = False

    def __init__(
        self,
        solver: Any = None,
        *,
        C: float | None = None,
        regularization: float | None = None,
        kernel: Any = None,
        scaling: str = "none",
        features: Any = "identity",
        loss: str | None = None,
        multiclass: str = "one-vs-one",
        class_weight: Any = None,
        duality_gap: float | None = 1e-3,
        max_epochs: int | None = 1000,
        calibration: CalibrationName | None = None,
        random_state: Any = 0,
        n_jobs: int = 1,
        encoding: Encoding | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        super().__init__(
            *(solver, C, regularization, kernel, scaling, features, loss),
            *(duality_gap, max_epochs, random_state, encoding, kinds),
        )
        self.multiclass = multiclass
        self.class_weight = class_weight
        self.calibration = calibration
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X (n_samples, n_features), dense or sparse or a table with texts, dates and
        missing cells, and labels y (n_samples,).

        A row of `sample_weight` 2 counts as two equal rows; scaling and calibration count each row
        once. Warns (`ConvergenceWarning`) if neither the duality gap nor the solver's own rule was
        reached.
        """
        X, y, weights = self._check(X, y, sample_weight)
        rows = self._in_form(X)
        pipeline = self._pipeline_for(rows, y)
        training = self._fit(pipeline, rows, y, weights)
        self.__dict__.pop("_online", None)
        codes: Array = np.searchsorted(training.classes, y)
        if len(self.result_.warm_start.rows):
            self.__dict__.update(support_attributes(self.result_.warm_start, X, codes))
        if self.calibration is not None:
            self.fitted_ = self._calibrate(pipeline, rows, y, codes, weights)
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One update for each row, in the order given, continuing from the last call or
        from `fit`.

        The first call, if it is not after `fit`, needs `regularization` or the solver's λ, as a
        stream has no number of rows for C, and all `classes` that will come; scaling and features
        are learned from its rows. There is no certificate: it would need all rows.
        """
        online = self._online_training()
        if frame_of(X, plain=False) is not None or getattr(self, "columns_", None) is not None:
            raise InvalidData("bad-shape", "partial_fit takes finite numbers, not a table")
        X, y, weights = self._check(X, y, sample_weight, reset=online is None)
        if online is None:
            if classes is None:
                raise ValueError("classes must be given in the first call of partial_fit")
            online = OnlineTraining.begin(
                self._pipeline_for(X, y), np.unique(classes), X, self._seed()
            )
            self.n_iter_ = 0
        elif classes is not None and not np.array_equal(np.unique(classes), online.model.classes):
            raise ValueError("classes differ from those of the first call of partial_fit")
        online.update(X, y, np.ones(X.shape[0]) if weights is None else weights)
        self._online = online
        self.n_iter_ += 1
        self._keep(online.fitted())
        return self

    def decision_function(self, X: Any) -> Vector:
        """Two classes: (n_samples,), positive for `classes_[1]`; more: (n_samples, n_classes)."""
        scores = self._scores(X)
        return self.fitted_.decision_from_scores(scores)

    def predict(self, X: Any) -> Array:
        """Labels (n_samples,)."""
        decision = self.decision_function(X)
        return self.fitted_.labels_from_decision(decision)

    @available_if(_calibrates)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Vector:
        """(n_samples, n_classes), with `calibration`. The label is that of the largest score: near
        a tie another class may have the largest probability."""
        scores = self._scores(X)
        return self.fitted_.probabilities_from_scores(scores)

    @available_if(_calibrates)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Vector:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            logarithms: Vector = np.log(self.predict_proba(X))
        return logarithms

    def _online_training(self) -> OnlineTraining | None:
        """That of the last call, or one that continues the last `fit`."""
        if self.class_weight is not None:
            raise InvalidHyperparameter(
                "class_weight", self.class_weight, "None for partial_fit; use sample_weight"
            )
        online: OnlineTraining | None = self.__dict__.get("_online")
        if online is not None or "result_" not in self.__dict__:
            return online
        return OnlineTraining.continued(self.result_.warm_start)

    def _check(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[Any, Any, Any]:
        checked = super()._check(X, y, sample_weight, reset)
        check_classification_targets(checked[1])
        return checked

    def _keep(self, fitted: FittedPipeline) -> None:
        super()._keep(fitted)
        self.classes_: Array = fitted.classes

    def _calibrate(
        self, pipeline: Pipeline, X: Any, y: Any, codes: Array, weights: Any
    ) -> FittedPipeline:
        assert self.calibration is not None
        folds = min(FOLDS, int(np.bincount(codes).min()))
        if folds < 2:
            raise InvalidData("class-too-small", "calibration needs two rows of every class")
        splits = StratifiedKFold(folds, shuffle=True, random_state=self._seed()).split(X, codes)
        scores = np.empty((X.shape[0], len(self.fitted_.intercepts)))
        for train, others in splits:
            some = None if weights is None else weights[train]
            fold = self._train(pipeline, X[train], y[train], some).result().fitted
            scores[others] = fold.problem_scores(X[others])
        return self.fitted_.calibrated(self.calibration, scores, codes)

    def _pipeline_for(self, X: Any, labels: Array) -> Pipeline:
        weights = self.class_weight
        if isinstance(weights, dict):
            classes = {label: label_name(label) for label in np.unique(labels).tolist()}
            weights = {
                classes.get(label, str(label)): float(weight) for label, weight in weights.items()
            }
        return self._pipeline(X, multiclass=self.multiclass, class_weight=weights)

    def _threads(self) -> int:
        if self.n_jobs == 0:
            raise InvalidHyperparameter("n_jobs", 0, "a number of pairs, or -1 for all processors")
        if self.n_jobs > 0:
            return self.n_jobs
        return max(1, (os.cpu_count() or 1) + 1 + self.n_jobs)


class SVMRegressor(RegressorMixin, SVMEstimator):  # type: ignore[misc]  # untyped
    """Support vector regression with a certificate: a numeric target in any unit.

    Parameters
    ----------
    solver, C, regularization, kernel, scaling, features, duality_gap, max_epochs, random_state, \
encoding, kinds
        as of `SVMClassifier`; no default depends on the unit of the target, which is centered and
        scaled inside.
    loss
        `epsilon-insensitive`, the default, or `squared-epsilon-insensitive`, which weighs large
        errors more.
    epsilon
        errors below it cost nothing; in the unit of the target. None: half the robust spread of
        the errors of a first fit.
    target_scale
        `logarithmic` trains on the logarithm of the target, for positive and skewed ones.

    Attributes
    ----------
    n_features_in_, feature_names_in_, columns_, n_iter_, result_, fitted_
        as of `SVMClassifier`; `fitted_.target.epsilon` is ε.
    coef_, intercept_
        of linear models without a feature map: (n_features,), and a number, for rows as they are
        given and the target, or its logarithm, in its unit. Others have `intercept_` alone.
    support_, support_vectors_, n_support_, dual_coef_
        of solvers with dual coefficients: the rows that have one, as they are given, their number,
        and (1, n_support) the signed coefficient of each in the unit of the target.
    """

    _predicts_numbers = True

    def __init__(
        self,
        solver: Any = None,
        *,
        C: float | None = None,
        regularization: float | None = None,
        kernel: Any = None,
        scaling: str = "none",
        features: Any = "identity",
        loss: str | None = None,
        epsilon: float | None = None,
        target_scale: str = "linear",
        duality_gap: float | None = 1e-3,
        max_epochs: int | None = 1000,
        random_state: Any = 0,
        encoding: Encoding | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        super().__init__(
            *(solver, C, regularization, kernel, scaling, features, loss),
            *(duality_gap, max_epochs, random_state, encoding, kinds),
        )
        self.epsilon = epsilon
        self.target_scale = target_scale

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X (n_samples, n_features), dense or sparse or a table with texts, dates and
        missing cells, and targets y (n_samples,).

        A row of `sample_weight` 2 counts as two equal rows; `scaling` counts each row once. Warns
        (`ConvergenceWarning`) if neither the duality gap nor the solver's own rule was reached.
        """
        X, y, weights = self._check(X, y, sample_weight)
        rows = self._in_form(X)
        self._fit(self._pipeline(rows, target_scale=self.target_scale), rows, y, weights)
        if len(self.result_.warm_start.rows):
            self.__dict__.update(support_attributes(self.result_.warm_start, X))
        return self

    def predict(self, X: Any) -> Vector:
        """Targets (n_samples,)."""
        scores = self._scores(X)
        return self.fitted_.values_from_scores(scores)

    def _solver(self, X: Any) -> Any:
        solver = super()._solver(X)
        return solver if self.epsilon is None else replace(solver, epsilon=self.epsilon)


def as_object(parameter: str, value: Any) -> Any:
    """The solver, kernel or feature map that a name means, with its defaults; objects as given."""
    kinds = NAMED[parameter]
    if parameter == "solver" and value is None:
        value = "newton"
    if isinstance(value, str) and (name := OTHER_NAMES.get(value, value)) in kinds:
        return kinds[name]()
    if isinstance(value, tuple(kinds.values())):
        return value
    expected = f"an object, or one of {', '.join(kinds)}"
    raise InvalidHyperparameter(parameter, value, expected, did_you_mean(str(value), kinds))


def list_nested(parameter: str, value: Any) -> dict[str, Any]:
    """The parameters of an object or name, as `solver__C`; none of a value that is neither, which
    `fit` refuses."""
    try:
        made = as_object(parameter, value)
    except InvalidHyperparameter:
        return {}
    return {f"{parameter}__{name}": getattr(made, name) for name in _names(made)}


def change(parameter: str, value: Any, changes: dict[str, Any]) -> Any:
    """The object with some parameters changed."""
    made = as_object(parameter, value)
    if unknown := sorted(changes.keys() - _names(made)):
        names = _names(made)
        expected = f"one of the parameters {', '.join(names)}"
        meant = did_you_mean(unknown[0], [name.rstrip("_") for name in names])
        raise InvalidHyperparameter(parameter, unknown[0], expected, meant)
    return replace(made, **changes)


def _names(made: Checked) -> list[str]:
    return [field.name for field in fields(made) if field.name != "name"]
