"""The outputs of a model for some rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.predictions.explanations import explanations
from service.predictions.loaded_models import LoadedModel
from svm.data.matrices import Matrix
from svm.model.calibration import unlikely_labels


class Scored:
    """The rows of a batch, scored: what requests that came together share."""

    def __init__(self, model: LoadedModel, scores: NDArray[np.float64]) -> None:
        self.model = model
        self.scores = scores
        """Of every binary problem, (n_samples, n_problems)."""
        self.codes: list[int]
        """The class of each row, by its number."""
        if scores.size == 1:  # sooner than by arrays
            self.codes = [1 if scores.item() > 0.0 else 0]
        else:
            self.codes = model.fitted.codes_from_decision(self.decision).tolist()

    @cached_property
    def decision(self) -> NDArray[np.float64]:
        """(n_samples,) for two classes, else (n_samples, n_classes)."""
        return self.model.fitted.decision_from_scores(self.scores)

    @cached_property
    def probability(self) -> NDArray[np.float64]:
        """(n_samples, n_classes), of a calibrated model."""
        return self.model.fitted.probabilities_from_scores(self.scores)


class Answer(NamedTuple):
    """One request's part of a batch."""

    X: Matrix
    batch: Scored
    start: int
    stop: int

    @property
    def model(self) -> LoadedModel:
        return self.batch.model

    @property
    def codes(self) -> list[int]:
        """Of the label, by its place among the classes."""
        return self.batch.codes[self.start : self.stop]

    @property
    def scores(self) -> NDArray[np.float64]:
        return self.batch.scores[self.start : self.stop]

    @property
    def decision(self) -> NDArray[np.float64]:
        return self.batch.decision[self.start : self.stop]

    @property
    def probability(self) -> NDArray[np.float64]:
        return self.batch.probability[self.start : self.stop]

    @property
    def unlikely_labels(self) -> list[int]:
        """Of a calibrated model, the rows, from 1, whose label is not the class with the largest
        probability."""
        rows: list[int] = (unlikely_labels(self.probability, np.array(self.codes)) + 1).tolist()
        return rows

    @property
    def label(self) -> list[Any]:
        classes = self.model.classes
        return [classes[code] for code in self.codes]

    @property
    def explanation(self) -> list[Any]:
        return explanations(self.model, self.X, self.scores)

    def output(self, name: str) -> Any:
        """One of `schemas.OUTPUTS`: an array or a list with an entry a row."""
        return getattr(self, name)
