"""The trainings of one job, one after the other: the model's, then one for every fold.

The model comes first: the caller watches its curve, divergence shows before any fold, and a job
that is canceled with `keep_model` has the model of all rows to keep.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from service.jobs.core.attempts import Attempt, Command
from service.jobs.training.forecast import Forecast
from service.jobs.training.summary import progress_of
from service.settings import Settings
from service.storage.arrays import Arrays, below, pack, under
from svm.data.matrices import Vector
from svm.errors import CheckpointMismatch, Interrupted
from svm.training import Training
from svm.training.curve.progress import Evaluation, Progress
from svm.training.results import TrainingResult

SHORTEST_S = 1e-3
"""The time for a training if the budget is spent."""

Begin = Callable[[int, float, Arrays | None], Training]
"""Begins training `number` (0 is the model's) with a time budget in seconds, or resumes it from a
checkpoint. Raises CheckpointMismatch."""
Measure = Callable[[int, TrainingResult], tuple[dict[str, Any], Vector | None]]
"""The metrics of fold `number`, 1 …, as JSON; and the scores of its rows, if they are kept."""


def threads_of(settings: Settings) -> int:
    """That a training may use, if all workers of this machine train."""
    return max(1, len(os.sched_getaffinity(0)) // max(1, settings.workers))


class TrainingSequence:
    """Runs the trainings, and can be resumed at any point."""

    model: TrainingResult
    """Once `run` has returned."""
    folds: list[dict[str, Any]]
    """Metrics of the folds that are done."""
    scores: list[Vector]
    """Of the rows of these folds, if they are kept."""

    def __init__(
        self,
        attempt: Attempt,
        count: int,
        begin: Begin,
        measure: Measure,
        budget_s: float,
        saved: Arrays | None,
    ) -> None:
        """`count` trainings in `budget_s` seconds. `saved` is the last checkpoint.

        The model's training begins here. Raises CheckpointMismatch if `saved` is not of this job.
        """
        saved = saved or {}
        self._attempt = attempt
        self._count = count
        self._begin = begin
        self._measure = measure
        self._budget_s = budget_s
        self._has_model = attempt.has_checkpoint
        self._has_finished = False
        """The model's training."""
        self._finished: Mapping[str, Any] = {}
        """Its checkpoint, for those of the folds."""
        self.folds, self.scores = [], []
        self._spent_s = 0.0
        model = below("model", saved)
        self._training: Training | None = begin(0, budget_s / count, model or None)
        if "folds" in saved:
            self._finish_model(self._training)
            self.folds = json.loads(str(saved["folds"]))
            kept = below("scores", saved)
            self.scores = [kept[str(k)] for k in range(len(kept))]
            self._spent_s = float(saved["spent_s"])
            self._training = None
        self._fold_saved = below("fold", saved) or None

    def run(self) -> bool:
        """Returns False at the end, True if canceled with `keep_model`.

        Raises what a training raises, and Interrupted after the checkpoint was saved.
        """
        attempt = self._attempt
        attempt.may_end = True
        try:
            attempt.check()
            while self._done < self._count:
                self._train()
            return False
        except Interrupted:
            if attempt.command is Command.SAVE_AND_RELEASE:
                attempt.save(self._packed())
            if attempt.command is not Command.KEEP_AND_END or not self._has_model:
                raise
            if self._done == 0:
                assert self._training is not None
                self._finish_model(self._training)
            return True
        finally:
            attempt.may_end = False

    @property
    def _done(self) -> int:
        return len(self.folds) + self._has_finished

    def _train(self) -> None:
        number = self._done
        if self._training is None:
            # Equal shares of the rest, so that each fold measures what such a budget gives.
            share = (self._budget_s - self._spent_s) / (self._count - number)
            saved, self._fold_saved = self._fold_saved, None
            self._training = self._begun(number, max(share, SHORTEST_S), saved)
        training = self._training
        self._forecast = Forecast(training.pipeline.stopping)
        for progress in training:
            self._has_model = True
            self._show(number, progress, training)
            if self._attempt.checkpoint_is_due:
                self._attempt.save(self._packed())
        self._spent_s += training.elapsed_s
        if number == 0:
            self._finish_model(training)
        else:
            measured, scores = self._measure(number, training.result())
            self.folds.append(measured)
            if scores is not None:
                self.scores.append(scores)
        self._training = None

    def _begun(self, number: int, budget_s: float, saved: Arrays | None) -> Training:
        try:
            return self._begin(number, budget_s, saved)
        except CheckpointMismatch:  # repeats one fold and changes nothing else
            return self._begin(number, budget_s, None)

    def _finish_model(self, training: Training) -> None:
        self.model = training.result()
        if self._count > 1:
            self._finished = under("model", training.checkpoint())
        self._has_finished = True

    def _packed(self) -> bytes:
        if not self._has_finished:
            assert self._training is not None
            return pack(under("model", self._training.checkpoint()))
        current = {} if self._training is None else self._training.checkpoint()
        return pack(
            {
                **self._finished,
                **under("fold", current),
                **under("scores", {str(k): scores for k, scores in enumerate(self.scores)}),
                "folds": np.asarray(json.dumps(self.folds)),
                "spent_s": np.asarray(self._spent_s),
            }
        )

    def _show(self, number: int, progress: Progress, training: Training) -> None:
        attempt = self._attempt
        fraction = (number + progress.fraction) / self._count
        shown: dict[str, Any] = dict(attempt.progress)
        if number == 0:
            shown = progress_of(progress)
        # Without the work of lost workers since their checkpoints, and without loading data.
        elapsed_s = self._spent_s + training.elapsed_s
        shown["fraction"] = fraction
        shown["fold"] = number or None
        shown["eta_s"] = self._left_s(number, progress, training, elapsed_s)
        before_s = attempt.elapsed_s - training.elapsed_s
        attempt.show(shown, _trace(progress, before_s, training) if number == 0 else [])

    def _left_s(
        self, number: int, progress: Progress, training: Training, elapsed_s: float
    ) -> float | None:
        """For all trainings, if each takes as long as this one; at most the rest of the budget."""
        own = training.elapsed_s
        left = self._forecast.after(progress, own)
        if left is None:
            return None
        left += (self._count - number - 1) * (own + left)
        return max(0.0, min(left, self._budget_s - elapsed_s))


def _trace(progress: Progress, before_s: float, training: Training) -> list[dict[str, Any]]:
    """Rows of `job_trace`; an evaluation replaces a point of the same update. The job took
    `before_s` seconds besides this training."""
    evaluation = progress.evaluation
    points = [*progress.points, *([] if evaluation is None else [evaluation])]
    classes, split = training.classes.tolist(), training.prepared.splits[progress.pair]
    names = [classes[i] for i in split.classes]
    return [
        {**_values_of(point), "classes": names, "elapsed_s": before_s + point.elapsed_s}
        for point in points
    ]


def _values_of(point: Evaluation) -> dict[str, Any]:
    # `asdict` would copy each value.
    return {field.name: getattr(point, field.name) for field in fields(point)}
