"""Training on a stream: an update for each row that arrives, without a certificate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from svm.data.matrices import Array, Indices, Matrix, Vector
from svm.errors import InvalidData, InvalidHyperparameter
from svm.model.multiclass import BinarySplit, codes_of, rows_and_sides, splits_of
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.problem.problem import Problem
from svm.solvers.protocol import LearnsOnline
from svm.training.preparation import row_weights
from svm.training.warm_start import WarmStart
from svm.transforms.features import fit_features
from svm.transforms.scaling import fit_scaling


@dataclass
class OnlineTraining:
    """One update for each row, in the order given; the state of every pair of classes.

    Scaling and feature map are learned from the first rows, and kept.
    """

    solver: Any
    """A solver that `LearnsOnline`."""
    model: FittedPipeline
    """Its classes, scaling and feature map; the coefficients are not up to date."""
    regularization: Vector
    """(n_problems,) λ of each pair."""
    states: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        pipeline: Pipeline,
        classes: Array,
        X: Matrix,
        seed: int,
    ) -> OnlineTraining:
        """No updates yet. X (n_samples, n_features) are the first rows.

        Raises InvalidHyperparameter for a solver without λ: a stream has no n that C refers to.
        """
        solver, multiclass = pipeline.solver, pipeline.multiclass
        assert isinstance(solver, LearnsOnline)
        if solver.lambda_ is None:
            raise InvalidHyperparameter(
                "regularization", None, "λ > 0 in place of C, as a stream has no number of rows"
            )
        scaling = fit_scaling(pipeline.scaling, X)
        features = fit_features(pipeline.features, scaling.transform(X), seed)
        none = np.empty(0)
        model = FittedPipeline(
            classes=classes,
            scaling=scaling,
            features=features,
            coefficients=none,
            intercepts=none,
            multiclass=multiclass,
        )
        weights = np.full(len(splits_of(multiclass, len(classes))), solver.lambda_)
        return cls(solver, model, weights)

    @classmethod
    def continued(cls, earlier: WarmStart) -> OnlineTraining:
        """From the end of a training by such a solver, with its λ."""
        solver, fitted = earlier.pipeline.solver, earlier.fitted
        assert isinstance(solver, LearnsOnline)
        online = cls(solver, fitted, earlier.regularization)
        for k in range(len(earlier.regularization)):
            problem = online._empty_problem(k)
            inherited = earlier.of_problem(k, problem)
            online.states[k] = solver.start(problem, inherited)
        return online

    def update(self, X: Matrix, labels: Array, weights: Vector) -> None:
        """Make one update for each row X (n_samples, n_features) in every pair that it belongs to.

        A weight (n_samples,) multiplies the row's loss; rows of weight 0 are left out.
        Raises InvalidData (`bad-labels`, `bad-weights`): no label may be another than the classes.
        """
        codes = codes_of(self.model.classes, labels)
        if (codes < 0).any():
            unknown = labels[codes < 0][0]
            raise InvalidData("bad-labels", f"{unknown!r} is not one of the classes given first")
        codes[row_weights(weights, len(labels)) == 0.0] = -1
        mapped = self.model.features.transform(self.model.scaling.transform(X))
        for k, split in enumerate(self._splits):
            problem = self._problem(k, split, mapped, codes, weights)
            state = self.states.get(k) or self.solver.start(problem)
            self.states[k] = self.solver.learn(problem, state)

    @property
    def _splits(self) -> list[BinarySplit]:
        return splits_of(self.model.multiclass, len(self.model.classes))

    def _problem(
        self, k: int, split: BinarySplit, X: Matrix, codes: Indices, weights: Vector
    ) -> Problem:
        [(rows, y)] = rows_and_sides([split], codes)
        return Problem(
            X=X,
            some_rows=rows,
            y=y,
            unequal_weights=weights if rows is None else weights[rows],
            regularization=float(self.regularization[k]),
            intercept=self.solver.intercept,
            pair=k,
        )

    def _empty_problem(self, k: int) -> Problem:
        X = np.empty((0, self.model.features.n_outputs), dtype=self.solver.dtype)
        return self._problem(k, self._splits[k], X, np.empty(0, dtype=np.intp), np.empty(0))

    def fitted(self) -> FittedPipeline:
        """The model so far."""
        classifiers = [
            self.solver.classifier(self._empty_problem(k), self.states[k])
            for k in range(len(self._splits))
        ]
        return replace(
            self.model,
            coefficients=np.array([classifier.coefficients for classifier in classifiers]),
            intercepts=np.array([classifier.intercept for classifier in classifiers]),
        )
