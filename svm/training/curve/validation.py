"""The error of the models on the way, on rows that they were not trained on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svm.model.pipeline import Pipeline
from svm.problem import Problem
from svm.problem.objectives import error_of
from svm.training.assembly import scores_on
from svm.training.binary_problems import held_out
from svm.training.binary_training import BinaryTraining
from svm.training.preparation import Prepared


class ValidationSet:
    """Other rows, prepared as the training rows were."""

    def __init__(
        self,
        prepared: Prepared,
        pipeline: Pipeline,
        X: Any,
        labels: Any,
        problems: list[Problem],
        interrupted: Callable[[], None],
    ) -> None:
        """Raises InvalidData."""
        self._watched = held_out(prepared, pipeline, X, labels, problems, interrupted)

    def error(self, pair: BinaryTraining, state: Any) -> float | None:
        """Share of the pair's rows on the wrong side of the classifier in this state of its solver;
        None if it has no rows."""
        problem, watched = pair.problem, self._watched[pair.problem.pair]
        if watched.n_samples == 0:
            return None
        scores = scores_on(problem, pair.solver.classifier(problem, state), watched)
        return error_of(watched, scores)
