"""The trainings of one job on one worker: the model's, then those of the folds, or those without a
group of classes, which are called folds, too.

The model comes first: the caller watches its curve, divergence shows before any fold, and a job
that is canceled with `keep_model` has the model of all rows to keep. A long job lends others its
folds, or without folds groups of the pairs of its model.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from service.common.malloc import return_free_memory
from service.datasets.dataset import Dataset
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt, Work
from service.jobs.parts.lending import Lending
from service.jobs.spread.dask_passes import choose_spread
from service.jobs.training import summary
from service.jobs.training.admission import labeled_as, load_start, rows_stay_in_files
from service.jobs.training.rows import (
    LabeledRows,
    count_seen,
    rare_classes,
    rows_of,
    unscaled_columns,
)
from service.jobs.training.schemas import JobCreate, ValidationDataset
from service.rows.spec import Label
from service.settings import Settings
from service.storage.arrays import Arrays, below, under
from svm.data.matrices import Indices, Vector
from svm.errors import CheckpointMismatch, Interrupted
from svm.model.measures import Confusion, Errors, Measures
from svm.model.multiclass import label_name
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.model.rejection import SHARES, Rejection
from svm.solvers.auto import Auto
from svm.training.candidates import FEWEST_ROWS
from svm.training.curve import Evaluation, Progress
from svm.training.preparation import Prepared
from svm.training.results import TrainingResult
from svm.training.search import Outcome, Search, Task
from svm.training.training import Execution, Training
from svm.training.warm_start import WarmStart


def threads_of(settings: Settings, work: Work) -> int | Callable[[], int]:
    """That a training may use: those of its worker, or with one for each, what others leave."""
    own = len(os.sched_getaffinity(0)) // max(1, settings.workers)
    return own if own > 1 else work.threads


def begin_training(
    data: LabeledRows,
    rows: Indices,
    like: FittedPipeline | None,
    pipeline: Pipeline,
    budget_s: float | None,
    how: Execution,
    **options: Any,
) -> Training:
    """Begin a training on some rows, as the model `like` takes them, with a time budget in seconds.
    Rows that are prepared already are not read. Raises CheckpointMismatch."""
    pipeline = replace(pipeline, stopping=replace(pipeline.stopping, time_budget_s=budget_s))
    given: tuple[Any, Any] = None, None
    if how.prepared is None:
        given, options = data.of(rows, like), options | data.described(rows, like)
    return Training(pipeline, *given, how=how, **options)


class JobTrainings:
    """Training 0 makes the model, the others measure folds, or leave out groups of classes."""

    def __init__(self, context: RunContext, work: Work) -> None:
        """Read the rows. Raises what the stores raise."""
        self.spec = spec = JobCreate.from_spec(work.job.spec)
        assert spec.seed is not None
        limits = context.settings.limits

        def labeled(dataset_id: str) -> Dataset:
            return labeled_as(spec.target_kind, context.datasets.get(dataset_id), limits.classes)

        self.dataset = dataset = labeled(work.job.dataset_id)
        other = None
        if isinstance(spec.validation, ValidationDataset):
            other = labeled(spec.validation.dataset_id)
        in_files = rows_stay_in_files(spec, dataset, limits.worker_memory_bytes, other)
        read = context.datasets.open if in_files else context.datasets.load
        self.rows = rows = LabeledRows(read(dataset), dataset, spec.classes)
        self.splits = rows.splits(spec.validation, spec.seed)
        first = self.splits[0]
        watched = None if first.validation is None else (rows, first.validation)
        if other is not None:
            measured = rows_of(read(other), other, dataset, spec)
            watched = measured, measured.everything
        self._watched = watched
        """Rows to measure the model on."""
        self._group_of: Indices = np.empty(0, np.int64)
        """Of each class, if groups of them are left out by the trainings after the first."""
        if spec.left_out_groups is not None:
            splits, self._group_of = rows.left_out(first, spec.left_out_groups, spec.seed)
            self.splits += splits
        start = load_start(spec, dataset, first.training, context.models, context.datasets)
        self._start: WarmStart | None = None if start is None else start[0]
        rare = rare_classes(spec.validation, dataset.only(spec.classes))
        unscaled = unscaled_columns(spec.scaling, dataset)
        self.warnings = (*rare, *unscaled, *(() if start is None else start[1]))
        self.budget_s = min(spec.stopping.time_budget_s or math.inf, limits.job_s)
        self.unseen: Errors | None = None
        """Once measured: on rows that played no part in the training of the model."""
        self.certain: Vector | None = None
        """The same of a model of classes: how certain it is of these rows."""
        self._settings = context.settings
        self._connection = context.connection
        self.work = work
        self.prepared: Prepared | None = None
        """Rows of the model's training, if another one of the same pairs follows."""
        self.pipeline = spec.pipeline()
        """What to train; another one once `auto` has chosen it."""
        self.search: Search | None = None
        self.outcome: Outcome | None = None
        """Of the search, once it has ended."""
        solver = self.pipeline.solver
        enough = len(first.training) >= FEWEST_ROWS
        if enough and spec.searches and isinstance(solver, Auto):
            self.search = Search(
                *(self.pipeline, *rows.of(first.training)),
                seed=spec.seed,
                tries_unscaled=spec.scaling is None,
                effort=solver.effort,
                interrupted=lambda: self.work.check(),
                **rows.described(first.training),
            )

    def compare(self, results: Arrays) -> list[Task]:
        """Continue the search of `auto` from these results. Returns the tasks that are open; at its
        end, and without a search, none."""
        if self.search is None:
            return []
        self.search.results |= results
        tasks = self.search.open_tasks()
        if not tasks and self.outcome is None:
            self.outcome = self.search.outcome()
            self.pipeline = self.outcome.pipeline
        return tasks

    @property
    def compared(self) -> Arrays:
        """The results of the search, for checkpoints."""
        return {} if self.search is None else under("search", self.search.results)

    def begin(self, number: int, budget_s: float, checkpoint: Arrays | None) -> Training:
        """Begin a training with a time budget in seconds, or continue it from a checkpoint.

        Raises CheckpointMismatch.
        """
        spec, split, pipeline = self.spec, self.splits[number], self.pipeline
        if number and isinstance(pipeline.class_weight, dict):
            others = set(map(label_name, self._classes_of_group(number)))
            weights = {k: v for k, v in pipeline.class_weight.items() if k not in others}
            pipeline = replace(pipeline, class_weight=weights)
        begun = self._start if number == 0 else None
        like = None if begun is None else begun.fitted
        watched = None if number else self._watched
        asked = spec.spread, self._connection, self.dataset, split.training
        how = Execution(
            interrupted=self.work.check,
            threads=threads_of(self._settings, self.work),
            digest=split.digest,
            prepared=None if number else self.prepared,
            spread=choose_spread(*asked, self._warn),
        )
        training = begin_training(
            *(self.rows, split.training, like, pipeline, budget_s, how),
            seed=spec.seed,
            validation=None if watched is None else watched[0].of(watched[1], like),
            warm_start=begun,
            checkpoint=checkpoint,
            bounds_kernel=number == 0,
            trace=spec.trace if number == 0 else None,
        )
        return_free_memory()  # preparing rows has freed as much as they take
        return training

    def _warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings += (message,)

    def measure(self, number: int, result: TrainingResult) -> tuple[dict[str, Any], Vector | None]:
        """The metrics of fold `number`, 1 …, as JSON; and the scores of its rows, if they are
        kept."""
        fitted, split = result.fitted, self.splits[number]
        if self._group_of.size:
            return summary.fold_of(result, self._recognized(number, fitted)), None
        assert split.validation is not None
        baseline = self.rows.baseline(split.training)
        metrics = self.rows.measures(fitted, split.validation, baseline).metrics()
        keeps = self.spec.calibration is not None or fitted.target is not None
        scores = self.rows.scores(fitted, split.validation) if keeps else None
        return summary.fold_of(result, metrics), scores

    def _classes_of_group(self, number: int) -> list[Label]:
        """Those that a training leaves out; none of folds."""
        groups = zip(self._group_of, self.rows.classes, strict=False)
        return [label for group, label in groups if group == number - 1]

    def _recognized(self, number: int, fitted: FittedPipeline) -> dict[str, Any]:
        """How many validation rows of the classes that were left out have their labels withheld, if
        a share of those of the others has."""
        assert self._watched is not None
        rows, some = self._watched
        certain = rows.certain_codes(fitted, some)[1]
        is_known = self._group_of[rows.codes(some)] != number - 1
        unknown = certain[~is_known]
        return {
            "classes": self._classes_of_group(number),
            "n_samples": len(unknown),
            "withheld": {
                f"{share:g}": int(np.count_nonzero(unknown < threshold))
                for share, threshold in Rejection.of(certain[is_known]).thresholds(SHARES)
            },
        }

    def metrics(
        self,
        fitted: FittedPipeline,
        folds: Mapping[int, Mapping[str, Any]],
        scores: Mapping[int, Vector],
    ) -> dict[str, Any]:
        """By part of the data. Of folds, by number, each row was predicted by the training that did
        not see it; `scores` as for `held_out`."""
        training = self.splits[0].training
        baseline = self.rows.baseline(training)
        measures: Measures
        metrics = {"train": self.rows.measures(fitted, training, baseline).metrics()}
        if self._watched is not None:
            rows, some = self._watched
            if fitted.target is None:
                codes, certain = rows.certain_codes(fitted, some)
                measures = rows.measures_of(fitted, some, codes, baseline)
            else:
                measures = rows.measures(fitted, some, baseline)
            if self.spec.stopping.patience is None:
                if isinstance(measures, Errors):
                    self.unseen = measures
                else:
                    self.certain = certain
            seen = count_seen(rows.hashes[some], self.rows.hashes[training])
            metrics["validation"] = {**measures.metrics(), "trained_rows": seen}
            self._warn_of(seen, measures)
        elif folds:
            each = list(folds.values())
            if fitted.target is None:
                measures = Confusion.total([Confusion.of_metrics(one) for one in each])
            else:
                some, given = self._of_folds(scores)
                predicted = fitted.values_from_scores(given)
                measures = self.rows.measures_of(fitted, some, predicted, baseline)
            seen = self.rows.seen([self.splits[k] for k in folds])
            metrics["validation"] = {
                **summary.metrics_of_folds(measures, each),
                "trained_rows": seen,
            }
            self._warn_of(seen, measures)
        return metrics

    def held_out(
        self, fitted: FittedPipeline, of_folds: Mapping[int, Vector]
    ) -> tuple[LabeledRows, Indices, Vector] | None:
        """Rows and their scores by a training that did not see them; None if a job with folds was
        canceled before any of them was done. `of_folds`: scores by number."""
        if self._watched is not None:
            rows, some = self._watched
            return rows, some, rows.scores(fitted, some)
        return (self.rows, *self._of_folds(of_folds)) if of_folds else None

    def _warn_of(self, seen: int, measures: Measures) -> None:
        said = summary.warn_of_trained_rows(seen, measures.n_samples, "validation rows")
        self.warnings = (*said, *self.warnings)

    def _of_folds(self, scores: Mapping[int, Vector]) -> tuple[Indices, Vector]:
        """The rows of the folds, and their scores."""
        numbers = sorted(scores)
        rows = [some for k in numbers if (some := self.splits[k].validation) is not None]
        return np.concatenate(rows), np.concatenate([scores[k] for k in numbers])


SHORTEST_S = 1e-3
"""The time for a training if the budget is spent."""
GROUPS = range(1_000_000, 1_000_008)
"""Numbers of the parts that are groups of pairs. Folds have their own numbers."""
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
        self._finished: Mapping[str, Any] = {}
        """Its checkpoint, for those of the folds."""
        self._folds: dict[int, dict[str, Any]] = {}
        self.scores = {}
        self._current = 0
        """The number of the training, 0 for the model's; -1 between two folds."""
        self._spent_s = 0.0
        self._forecasts = summary.Forecasts()
        trainings.compare(below("search", saved))
        model, budget_s = below("model", saved), trainings.budget_s / count
        self._training: Training | None
        try:
            self._training = trainings.begin(0, budget_s, model or None)
        except CheckpointMismatch:
            if trainings.outcome is None:
                raise
            # It ended after the search, before the training of what this has chosen.
            self._training = trainings.begin(0, budget_s, None)
            attempt.begin_trace()
        if "folds" in saved:
            if "current" not in saved:
                raise CheckpointMismatch("the checkpoint is of another release")
            self._finish_model(self._training)
            self._folds = {int(k): fold for k, fold in json.loads(str(saved["folds"])).items()}
            self.scores = {int(k): scores for k, scores in below("scores", saved).items()}
            self._spent_s = float(saved["spent_s"])
            self._current = int(saved["current"])
            self._training = None
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
        if canceled and not self._has_finished:
            if not self._has_model:
                raise Interrupted(self._attempt.command.name)
            assert self._training is not None
            lent = _lent(self._training)
            for number, content in self._lending.latest():
                if number in lent:
                    self._take_back(self._training, number, content)
            self._finish_model(self._training)
        return canceled

    def _train(self) -> None:
        self._attempt.check()
        self._train_model()
        while len(self._folds) < self._count - 1:
            self._attempt.check()
            self._absorb_folds()
            if self._current < 0:
                self._choose_fold()
            else:
                self._train_fold(self._current)

    def _train_model(self) -> None:
        """Train a model on all rows; then search, and train that which `auto` has chosen."""
        training = self._training
        if self._has_finished or training is None:
            return
        usual = self._trainings.pipeline
        self._train_pairs(training)
        self._spent_s += training.elapsed_s
        self._search()
        if self._trainings.pipeline != usual:
            self._attempt.begin_trace()
            self._training = training = self._trainings.begin(0, self._share_s, None)
            self._train_pairs(training)
            self._spent_s += training.elapsed_s
        self._finish_model(training)
        self._training = None

    def _search(self) -> None:
        trainings, lending = self._trainings, self._lending
        while tasks := trainings.compare({}):
            search = trainings.search
            assert search is not None
            self._attempt.check()
            numbers = {SEARCH.start + k: task for k, task in enumerate(search.tasks())}
            for number, result in lending.results():
                if number in numbers:
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
            shown = {"comparing": True, **self._overall(search.fraction)}
            self._attempt.show(self._attempt.progress | shown)

    def _train_pairs(self, training: Training) -> None:
        for number in self._lending.numbers:  # of an earlier attempt
            if number in GROUPS:
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

    def _await_pairs(self, training: Training) -> None:
        """Take back pairs that other workers have finished or left, or wait for them."""
        lending = self._lending
        lent = _lent(training)
        done = False
        for number, result in lending.results():
            if number in lent:
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

    def _absorb_folds(self) -> None:
        for number, result in self._lending.results():
            if number not in GROUPS and number not in self._folds:
                self._folds[number] = json.loads(str(result["fold"]))
                self._spent_s += float(result["elapsed_s"])
                if "scores" in result:
                    self.scores[number] = result["scores"]

    def _choose_fold(self) -> None:
        """Begin the next fold that is not lent, or claim one that no one does, or wait."""
        left = [number for number in range(1, self._count) if number not in self._folds]
        if not left:
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

    def _finish_model(self, training: Training) -> None:
        return_free_memory()  # of states: the coefficients are a large array
        self.model = training.result()
        if self._count > 1:
            self._finished = under("model", training.checkpoint())
        self._has_finished, self._current = True, -1

    def _lend(self, training: Training) -> None:
        lending = self._lending
        own = {"budget_s": np.asarray(self._share_s), **self._trainings.compared}
        if self._count > 1:
            taken = {self._current, *self._folds}
            left = (k for k in range(1, self._count) if k not in taken)
            return lending.lend(left, lambda _: own)
        lending.look()
        lends = any(number in GROUPS for number in lending.numbers)
        if not lending.is_due or lends:
            return
        if training.in_threads and not lending.reaches_machines:
            return
        parts = {}
        for number in GROUPS[1:]:  # the first group stays
            pairs = set(_group(training, number)).intersection(training.waiting)
            if pairs:
                parts[number] = own | under("training", training.lend(pairs))
        if parts and not lending.offer(parts):
            for number in parts:
                training.take_back(_group(training, number), {})

    def _packed(self) -> Arrays:
        if not self._has_finished:
            assert self._training is not None
            model = under("model", self._training.checkpoint())
            return {**model, **self._trainings.compared}
        current = {} if self._training is None else self._training.checkpoint()
        return {
            **self._finished,
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
            shown = summary.progress_of(progress)
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
        before_s = attempt.elapsed_s - training.elapsed_s
        attempt.show(shown, trace_rows(progress, before_s, training) if number == 0 else [])

    def _overall(self, current: float) -> dict[str, Any]:
        """How much of all trainings is done, and how many parts other workers have or can take."""
        lent = self._lending.fractions
        if self._count == 1:
            done = current
            if lent and self._training is not None:
                pairs = len(self._training.problems)
                own = len(self._training.own)
                others = sum(len(_group(self._training, n)) * f for n, f in lent.items())
                done = min(1.0, (own * current + others) / pairs)
        else:
            done = (
                len(self._folds) + self._has_finished + current + sum(lent.values())
            ) / self._count
        return {"fraction": min(1.0, done), "parts": len(lent)}


def _lent(training: Training) -> list[int]:
    """The groups that are not trained here."""
    return [n for n in GROUPS if not set(training.own).issuperset(_group(training, n))]


def _group(training: Training, number: int) -> list[int]:
    """The pairs of a part, by number."""
    return list(range(number - GROUPS.start, len(training.problems), len(GROUPS)))


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
