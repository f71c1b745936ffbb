"""The order in which one worker does the trainings of a job.

The model comes first: the caller watches its curve, divergence shows before any fold, and a job
that is canceled with `keep_model` has the model of all rows to keep. A long job lends others its
folds, or without folds groups of the pairs of its model.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np

from service.common.malloc import return_free_memory
from service.common.phases import COMPARING, FIRST_MODEL, FOLDS, TRAINING
from service.jobs.core.attempts import Attempt
from service.jobs.parts.lending import Lending
from service.jobs.training import summary
from service.jobs.training.trainings import JobTrainings
from service.storage.arrays import Arrays, below, under
from svm.data.matrices import Vector
from svm.errors import CheckpointMismatch, Interrupted
from svm.training.curve import Evaluation, Progress
from svm.training.results import TrainingResult
from svm.training.training import Training

SHORTEST_S = 1e-3
"""The time for a training if the budget is spent."""
GROUPS, CHOSEN_GROUPS = range(1_000_000, 1_000_008), range(1_100_000, 1_100_008)
"""Numbers of the parts that are groups of pairs; of a training that a search has chosen. Folds have
their own numbers."""
SEARCH = range(2_000_000, 3_000_000)
"""Numbers of the parts that are tasks of a search."""


class TrainingSequence:
    """Runs the trainings, and can be resumed at any point."""

    model: TrainingResult
    """Once `run` has returned."""
    scores: dict[int, Vector]
    """By fold: of its rows, if they are kept."""

    def __init__(
        self, attempt: Attempt, trainings: JobTrainings, lending: Lending, saved: Arrays
    ) -> None:
        """`saved` is the last checkpoint; empty if there is none.

        The model's training begins here. Raises CheckpointMismatch if `saved` is not of this job.
        """
        self._attempt = attempt
        self._trainings = trainings
        self._lending = lending
        self._count = count = len(trainings.splits)
        self._has_model = attempt.has_checkpoint
        self._has_finished = False
        """The model's training."""
        self._shown = 0.0
        """How much of all trainings was done when that was last shown."""
        self.is_chosen = True
        """Whether the model is what the search has chosen, if there was one."""
        self._kept: Arrays = {}
        """The checkpoint of the training that `model` is of: the one that `auto` does before it
        compares, until that of what it has chosen has ended."""
        self._folds: dict[int, dict[str, Any]] = {}
        self.scores = {}
        self._current = 0
        """The number of the training, 0 for the model's; -1 between two folds."""
        self._spent_s = 0.0
        self._forecasts = summary.Forecasts()
        self._compared: dict[str, Any] = {}
        """What the search has shown, once it has ended."""
        searched, has_folds = below("search", saved), "folds" in saved
        if has_folds:
            trainings.compare(searched)
        begun = trainings.begin(0, trainings.budget_s / count, below("model", saved) or None)
        self._training: Training | None = begun
        if has_folds or searched:
            self._keep_model()
            trainings.compare(searched)
        if has_folds:
            if "current" not in saved:
                raise CheckpointMismatch("the checkpoint is of another release")
            self._folds = {int(k): fold for k, fold in json.loads(str(saved["folds"])).items()}
            self.scores = {int(k): scores for k, scores in below("scores", saved).items()}
            self._spent_s = float(saved["spent_s"])
            self._current, self._has_finished = int(saved["current"]), True
        self._chosen_saved = below("chosen", saved)
        self._fold_saved = below("fold", saved)

    @property
    def folds(self) -> dict[int, dict[str, Any]]:
        """Metrics of the folds that are done, by number, in order."""
        return {k: self._folds[k] for k in sorted(self._folds)}

    def run(self) -> bool:
        """Returns False at the end, True if canceled with `keep_model`.

        Raises what a training raises, and Interrupted after the checkpoint was saved.
        """
        canceled = self._attempt.carry_through(self._train, self._packed)
        if canceled and self._kept and not self._has_finished:
            self.is_chosen = False
        elif canceled and not self._has_finished:
            if not self._has_model:
                raise Interrupted(self._attempt.command.name)
            assert self._training is not None
            lent = self._lent(self._training)
            for number, content in self._lending.latest():
                if number in lent:
                    self._take_back(self._training, number, content)
            self._keep_model()
        return canceled

    def _train(self) -> None:
        self._attempt.check()
        self._train_model()
        while len(self._folds) < self._count - 1:
            self._attempt.begin(FOLDS)
            self._attempt.check()
            self._absorb_folds()
            if self._current < 0:
                self._choose_fold()
            else:
                self._train_fold(self._current)

    def _train_model(self) -> None:
        """Train a model on all rows; then search, and train that which `auto` has chosen. The rows
        of one training leave the memory before those of the next one are prepared."""
        if self._has_finished:
            return
        if not self._kept:
            searches = self._trainings.search is not None
            self._attempt.begin(FIRST_MODEL if searches else TRAINING)
            self._train_pairs()
            self._keep_model()
        self._search()
        if self._trainings.pipeline != self._trainings.spec.pipeline():
            if not self._chosen_saved:
                self._attempt.begin_trace()
            saved, self._chosen_saved = self._chosen_saved, {}
            self._attempt.begin(TRAINING)
            self._training = self._begun(0, saved or None)
            self._train_pairs()
            self._keep_model()
        self._has_finished, self._current = True, -1

    def _search(self) -> None:
        trainings, lending, begun = self._trainings, self._lending, self._attempt.elapsed_s
        before = 0.0 if trainings.search is None else trainings.search.fraction
        while tasks := trainings.compare({}):
            search = trainings.search
            assert search is not None
            self._attempt.begin(COMPARING)
            self._attempt.check()
            numbers = {SEARCH.start + k: task for k, task in enumerate(search.tasks())}
            for number, result in lending.results(numbers):
                search.take(numbers[number], result["losses"])
            left = [number for number, task in numbers.items() if task in tasks]
            left = [number for number in left if numbers[number].key not in search.results]
            if not left:
                continue
            if (chosen := lending.choose(left)) is not None:
                task = numbers[chosen[0]]
                search.take(task, search.compute(task))
                left.remove(chosen[0])
                if self._attempt.checkpoint_is_due:
                    self._attempt.save(self._packed())
                lending.lend(left, lambda _: trainings.compared)
            done, left_s = search.fraction, None
            if done > before:  # and then as long as the first training took
                spent_s = self._attempt.elapsed_s - begun
                left_s = spent_s * (1.0 - done) / (done - before) + self._spent_s
            compared = {"eta_s": left_s, "search": summary.search_so_far(search)}
            self._attempt.show(self._attempt.progress | compared | self._overall(done))
        self._spent_s += self._attempt.elapsed_s - begun
        if trainings.outcome is not None:
            self._compared = {"search": summary.search_of(trainings.outcome)}

    def _train_pairs(self) -> None:
        training = self._training
        assert training is not None
        for number in self._lending.numbers:  # of an earlier attempt
            if number in self._groups:
                training.lend(_group(training, number))
        while True:
            for progress in training:
                self._has_model = True
                self._show(0, progress, training)
                if self._attempt.checkpoint_is_due:
                    self._attempt.save(self._packed())
                self._lend(training)
            if not training.unfinished:
                break
            self._attempt.check()
            if not set(training.own).intersection(training.unfinished):
                self._await_pairs(training)

    @property
    def _groups(self) -> range:
        """The parts of the current training of the model: numbers are never used again."""
        return GROUPS if self._trainings.outcome is None else CHOSEN_GROUPS

    def _lent(self, training: Training) -> list[int]:
        """The groups that are not trained here."""
        own = set(training.own)
        return [n for n in self._groups if not own.issuperset(_group(training, n))]

    def _await_pairs(self, training: Training) -> None:
        """Take back pairs that other workers have finished or left, or wait for them."""
        lending = self._lending
        lent = self._lent(training)
        done = False
        for number, result in lending.results(lent):
            self._take_back(training, number, result)
            done = True
        for number in lent:
            if number not in lending:  # the result was damaged, or the reply to a claim was lost
                self._take_back(training, number, {})
                done = True
        if done:
            return
        if (claimed := lending.claim(lent)) is not None:
            self._take_back(training, *claimed)
        else:
            lending.wait()
            self._attempt.show(self._attempt.progress | self._overall(1.0))

    def _take_back(self, training: Training, number: int, content: Arrays) -> None:
        pairs = _group(training, number)
        try:
            training.take_back(pairs, below("training", content))
        except CheckpointMismatch:  # of another release
            training.take_back(pairs, {})

    @property
    def _open_folds(self) -> list[int]:
        return [number for number in range(1, self._count) if number not in self._folds]

    def _absorb_folds(self) -> None:
        for number, result in self._lending.results(self._open_folds):
            self._folds[number] = json.loads(str(result["fold"]))
            self._spent_s += float(result["elapsed_s"])
            if "scores" in result:
                self.scores[number] = result["scores"]

    def _choose_fold(self) -> None:
        """Begin the next fold that is not lent, or claim one that no one does, or wait."""
        if not (left := self._open_folds):
            return
        if (chosen := self._lending.choose(left)) is not None:
            self._current, content = chosen
            self._fold_saved = below("training", content)
        else:
            self._attempt.show(self._attempt.progress | self._overall(0.0))

    def _train_fold(self, number: int) -> None:
        if self._training is None:
            saved, self._fold_saved = self._fold_saved, {}
            self._training = self._begun(number, saved or None)
        training = self._training
        for progress in training:
            self._show(number, progress, training)
            if self._attempt.checkpoint_is_due:
                self._attempt.save(self._packed())
            self._lend(training)
        measured, scores = self._trainings.measure(number, training.result())
        self._spent_s += training.elapsed_s
        self._folds[number] = measured
        if scores is not None:
            self.scores[number] = scores
        self._training, self._current = None, -1

    @property
    def _share_s(self) -> float:
        """Equal shares of the rest, so that each fold measures what such a budget gives."""
        left = self._trainings.budget_s - self._spent_s
        done = len(self._folds) + self._has_finished
        return max(left / (self._count - done), SHORTEST_S)

    def _begun(self, number: int, saved: Arrays | None) -> Training:
        try:
            return self._trainings.begin(number, self._share_s, saved)
        except CheckpointMismatch:  # repeats one fold and changes nothing else
            return self._trainings.begin(number, self._share_s, None)

    def _keep_model(self) -> None:
        """Once the training of a model has ended."""
        training, self._training = self._training, None
        assert training is not None
        return_free_memory()  # of states: the coefficients are a large array
        self.model = training.result()
        self._spent_s += training.elapsed_s
        if self._count > 1 or self._trainings.search is not None:
            self._kept = under("model", training.checkpoint())

    def _lend(self, training: Training) -> None:
        lending = self._lending
        own = {"budget_s": np.asarray(self._share_s), **self._trainings.compared}
        if self._count > 1:
            if self._trainings.is_settled:  # before that, folds of another model would be trained
                left = (number for number in self._open_folds if number != self._current)
                lending.lend(left, lambda _: own)
            return None
        lending.look()
        lends = any(number in self._groups for number in lending.numbers)
        if not lending.is_due or lends:
            return
        if training.in_threads and not lending.reaches_machines:
            return
        parts = {}
        for number in self._groups[1:]:  # the first group stays
            pairs = set(_group(training, number)).intersection(training.waiting)
            if pairs:
                parts[number] = own | under("training", training.lend(pairs))
        if parts and not lending.offer(parts):
            for number in parts:
                training.take_back(_group(training, number), {})

    def _packed(self) -> Arrays:
        current = {} if self._training is None else self._training.checkpoint()
        if not self._has_finished:
            name = "chosen" if self._kept else "model"
            return {**self._kept, **under(name, current), **self._trainings.compared}
        return {
            **self._kept,
            **self._trainings.compared,
            **under("fold", current),
            **under("scores", {str(k): scores for k, scores in self.scores.items()}),
            "folds": np.asarray(json.dumps(self._folds)),
            "spent_s": np.asarray(self._spent_s),
            "current": np.asarray(self._current),
        }

    def _show(self, number: int, progress: Progress, training: Training) -> None:
        attempt = self._attempt
        shown: dict[str, Any] = dict(attempt.progress)
        if number == 0:
            shown = summary.progress_of(progress) | self._compared
        # Without the work of lost workers since their checkpoints, and without loading data.
        elapsed_s = self._spent_s + training.elapsed_s
        shown |= self._overall(progress.fraction)
        shown["fold"] = number or None
        # If each of the others takes as long as this one.
        others = self._count - len(self._folds) - self._has_finished - 1
        shown["eta_s"] = self._forecasts.left_s(
            progress,
            training,
            others=lambda left: others * (training.elapsed_s + left),
            most_s=self._trainings.budget_s - elapsed_s,
        )
        if self._trainings.search is not None and not self._kept:
            shown["eta_s"] = None  # what is compared next is not known
        before_s = attempt.elapsed_s - training.elapsed_s
        attempt.show(shown, trace_rows(progress, before_s, training) if number == 0 else [])

    def _overall(self, current: float) -> dict[str, Any]:
        """How much of all trainings is done, and how many parts other workers have or can take."""
        lent, training = self._lending.fractions, self._training
        if not self._has_finished:
            if training is not None:
                of_pairs = {n: len(_group(training, n)) * f for n, f in lent.items()}
                others = sum(done for n, done in of_pairs.items() if n in self._groups)
                current = (len(training.own) * current + others) / len(training.problems)
            if self._trainings.search is not None:  # the usual model, the search, what it chooses
                stage = 1 if training is None else 2 * bool(self._kept)
                current = (stage + min(1.0, current)) / 3
        folds = sum(done for n, done in lent.items() if n < GROUPS.start)
        done = (len(self._folds) + self._has_finished + current + folds) / self._count
        self._shown = max(self._shown, min(1.0, done))  # a search may add trainings
        return {"fraction": self._shown, "parts": len(lent)}


def _group(training: Training, number: int) -> list[int]:
    """The pairs of a part, by number."""
    first = number % CHOSEN_GROUPS.start % GROUPS.start
    return list(range(first, len(training.problems), len(GROUPS)))


def trace_rows(progress: Progress, before_s: float, training: Training) -> list[dict[str, Any]]:
    """Rows of `job_trace`; an evaluation replaces a point of the same update. The job took
    `before_s` seconds besides this training."""
    evaluation = progress.evaluation
    points = [*progress.points, *([] if evaluation is None else [evaluation])]
    classes = training.classes.tolist()
    names = [classes[i] for i in training.prepared.problem_classes[progress.pair]]
    return [
        {**_values_of(point), "classes": names, "elapsed_s": before_s + point.elapsed_s}
        for point in points
    ]


def _values_of(point: Evaluation) -> dict[str, Any]:
    # `asdict` would copy each value.
    return {field.name: getattr(point, field.name) for field in fields(point)}
