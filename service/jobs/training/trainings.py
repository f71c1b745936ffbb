"""What the trainings of one job are about: the model's, then those of the folds, or those without a
group of classes, which are called folds, too."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from service.common.malloc import return_free_memory
from service.datasets.dataset import Dataset
from service.datasets.rows_of_classes import only_new
from service.jobs.context import RunContext
from service.jobs.core.attempts import Work
from service.jobs.spread.dask_passes import choose_spread
from service.jobs.training import separation, summary
from service.jobs.training.admission import labeled_as, load_start, rows_stay_in_files
from service.jobs.training.auditing import trained_groups
from service.jobs.training.rows import (
    LabeledRows,
    count_seen,
    rows_of,
    unscaled_columns,
)
from service.jobs.training.schemas import Folds, JobCreate, ValidationDataset, ValidationSplit
from service.rows.spec import Label
from service.settings import Settings
from service.storage.arrays import Arrays, under
from svm.audit.findings import Finding
from svm.data.executors import as_function
from svm.data.matrices import Indices, Vector
from svm.errors import InvalidData
from svm.model.measures import Confusion, Errors, Measures
from svm.model.multiclass import label_name
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.model.rejection import SHARES, Rejection
from svm.training.candidates import FEWEST_ROWS
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
        how = replace(how, owns_rows=given[0] is not data.X)
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
        threads = as_function(threads_of(context.settings, work))
        data = read(dataset)
        self.rows = rows = LabeledRows(data, dataset, spec.classes, threads=threads)
        measured = rows.splits(spec.validation, spec.seed, spec.leave_out_trained)
        self.splits = measured
        first = self.splits[0]
        self._left_out = first.left_out
        watched = None if first.validation is None else (rows, first.validation)
        self.findings: list[Finding] = []
        """What the audit adds about the validation dataset."""
        if other is not None:
            others = rows_of(read(other), other, dataset, spec)
            some = others.everything
            if spec.leave_out_trained:
                some = only_new(some, others.hashes[some], rows.hashes[first.training])
                self._left_out = len(others.everything) - len(some)
            watched = others, some
            trained = dataset, rows.apart.of(first.training).groups
            new = other, others.apart.of(some).groups
            self.findings = trained_groups(context.datasets, trained, new, "validation rows")
        self._watched = watched
        """Rows to measure the model on."""
        self._group_of: Indices = np.empty(0, np.int64)
        """Of each class, if groups of them are left out by the trainings after the first."""
        if spec.left_out_groups is not None:
            splits, self._group_of = rows.left_out(first, spec.left_out_groups, spec.seed)
            self.splits = [*measured, *splits]
        start = load_start(spec, dataset, first.training, context.models, context.datasets)
        self._start: WarmStart | None = None if start is None else start[0]
        rare = separation.unmeasured(rows, measured, spec.validation)
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
        if spec.searches and len(first.training) >= FEWEST_ROWS:
            within = (
                spec.validation if isinstance(spec.validation, ValidationSplit | Folds) else None
            )
            with suppress(InvalidData):  # there are too few rows of positive weight
                self.search = Search(
                    *(self.pipeline, rows.X, rows.labels(first.training)),
                    seed=spec.seed,
                    rows=first.training,
                    apart=replace(rows.apart, gap=within.gap if within else 0.0),
                    tries_unscaled=spec.scaling is None,
                    effort=spec.solver.search_effort,
                    interrupted=lambda: self.work.check(),
                    **rows.described(first.training),
                )

    def compare(self, results: Arrays) -> list[Task]:
        """Continue the search of `auto` from these results. Returns the tasks that are open; at its
        end, and without a search, none."""
        if self.search is None or self.outcome is not None:
            return []
        self.search.results |= results
        tasks = self.search.open_tasks()
        if not tasks:
            self.outcome = self.search.outcome()
            self.pipeline = self.outcome.pipeline
        return tasks

    @property
    def is_settled(self) -> bool:
        """Whether it is known what to train."""
        return self.search is None or self.outcome is not None

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
            if self._left_out is not None:
                metrics["validation"]["left_out_rows"] = self._left_out
        elif folds:
            each = list(folds.values())
            if fitted.target is None:
                measures = Confusion.total([Confusion.of_metrics(one) for one in each])
            else:
                some, given = self._of_folds(scores)
                predicted = fitted.values_from_scores(given)
                measures = self.rows.measures_of(fitted, some, predicted, baseline)
            metrics["validation"] = {
                **summary.metrics_of_folds(measures, each),
                **self.rows.seen([self.splits[k] for k in folds]),
            }
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

    def _of_folds(self, scores: Mapping[int, Vector]) -> tuple[Indices, Vector]:
        """The rows of the folds, and their scores."""
        numbers = sorted(scores)
        rows = [some for k in numbers if (some := self.splits[k].validation) is not None]
        return np.concatenate(rows), np.concatenate([scores[k] for k in numbers])
