"""The trainings of a comparison, one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from service.datasets.dataset import Dataset
from service.jobs.comparisons.checkpoint import ComparisonState, Model
from service.jobs.comparisons.curve import add_point
from service.jobs.comparisons.order import Step, steps_of
from service.jobs.comparisons.results import (
    EntryResult,
    Error,
    model_result,
    objective_of,
    validation_metrics,
)
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.sizes import part_of, size_of
from service.jobs.core.attempts import Attempt, Command
from service.jobs.core.kind import RunContext
from service.jobs.core.lifecycle import MAX_ATTEMPTS_WITHOUT_PROGRESS
from service.jobs.training.forecast import Forecast
from service.jobs.training.memory_plan import rows_stay_in_files
from service.jobs.training.rows import LabeledRows, Split
from service.jobs.training.schemas import JobCreate
from service.jobs.training.summary import fold_of, progress_of, result_of
from service.jobs.training.training_sequence import SHORTEST_S, threads_of
from service.storage.arrays import Arrays
from svm.data.matrices import Indices
from svm.errors import CheckpointMismatch, Diverged, Interrupted, InvalidData
from svm.training import Training
from svm.training.curve.progress import Progress
from svm.training.preparation import Prepared
from svm.training.results import TrainingResult

LONG_TRAININGS = 8
"""One of many trainings may take at most one part of this many of the remaining time."""
OUT_OF_MEMORY: Error = {
    "code": "out-of-memory",
    "detail": "a worker's memory is too small for this entry",
    "hint": "give workers more memory, or train it with a solver that streams",
}
ATTEMPTS_FOR_AN_ENTRY = MAX_ATTEMPTS_WITHOUT_PROGRESS - 1
WORKER_LOST: Error = {
    "code": "worker-lost",
    "detail": f"{ATTEMPTS_FOR_AN_ENTRY} workers were lost while they trained this entry",
    "hint": "the events of the job say what is known about them",
}


class ComparisonSequence:
    """Runs the trainings, and can be resumed at any point."""

    state: ComparisonState
    splits: list[Split]
    """Of the rows: the first trains the models, the others the folds."""

    def __init__(
        self,
        context: RunContext,
        attempt: Attempt,
        body: ComparisonCreate,
        entries: Sequence[JobCreate],
        dataset: Dataset,
        state: ComparisonState,
        saved: Arrays,
    ) -> None:
        """`saved` is the checkpoint of the unfinished training."""
        assert body.seed is not None
        self.state = state
        self._attempt = attempt
        self._settings = settings = context.settings
        self._body = body
        self._entries = entries
        self._seed = body.seed
        self._threads = threads_of(settings)
        self._dataset = dataset
        self._datasets = context.datasets
        memory = settings.limits.worker_memory_bytes
        in_files = [
            result.error is None and rows_stay_in_files(entry, dataset, memory)
            for entry, result in zip(entries, state.results, strict=True)
        ]
        self._in_files = in_files
        wanted = {in_files[k] for k, result in enumerate(state.results) if not result.error}
        self._rows = {some: self._opened(some) for some in wanted or {True}}
        some = next(iter(self._rows.values()))
        self.splits = some.splits(body.validation, body.seed)
        self._steps = steps_of(
            entries, len(self.splits), in_files, body.warm_starts and not body.sizes
        )
        self._prepared: tuple[Any, Prepared] | None = None
        self._training: Training | None = None
        self._saved = saved
        self._narrowed: tuple[tuple[bool, int | None], LabeledRows] | None = None

    def run(self) -> bool:
        """Returns False at the end, True if canceled with a request to keep the results so far.

        Raises Interrupted after the checkpoint was saved.
        """
        attempt = self._attempt
        attempt.may_end = True
        if attempt.job.attempts_without_progress >= ATTEMPTS_FOR_AN_ENTRY:
            self._give_up()
        try:
            while self.state.position < len(self._steps):
                attempt.check()
                self._take(self._steps[self.state.position])
                # If an entry kills its worker, other entries must not be given up for it.
                if attempt.checkpoint_is_due or attempt.job.attempts_without_progress:
                    self._save()
            return False
        except Interrupted:
            if attempt.command is Command.SAVE_AND_RELEASE:
                self._save()
            if attempt.command is not Command.KEEP_AND_END:
                raise
            return True
        finally:
            attempt.may_end = False

    def _opened(self, in_files: bool) -> LabeledRows:
        some = self._datasets.open if in_files else self._datasets.load
        data, classes = some(self._dataset), self._body.classes
        return LabeledRows(data, self._dataset, classes, self._attempt.check)

    def _rows_of(self, step: Step) -> LabeledRows:
        """All rows, with the columns that the entry sees."""
        in_files, (_, columns) = self._in_files[step.entry], size_of(self._entries[step.entry])
        rows = self._rows[in_files]
        if columns is None:
            return rows
        if self._narrowed is None or self._narrowed[0] != (in_files, columns):
            self._narrowed = None  # free its memory before the next ones are made
            self._narrowed = (in_files, columns), rows.narrowed(columns)
        return self._narrowed[1]

    def _training_rows(self, step: Step) -> Indices:
        """The numbers of the rows that this step trains on."""
        training, (count, _) = self.splits[step.split].training, size_of(self._entries[step.entry])
        if count is None:
            return training
        return part_of(training, self._rows_of(step).codes(training), count, self._seed)

    def _give_up(self) -> None:
        """Fail the entry at which the last workers were lost."""
        if self.state.position < len(self._steps):
            self.state.fail(self._steps[self.state.position].entry, WORKER_LOST)
            self._attempt.show(self._attempt.progress, [])
            self._save()

    def _save(self) -> None:
        self._attempt.save(self.state.packed(self._training))

    def _take(self, step: Step) -> None:
        state, spent_s = self.state, 0.0
        if state.results[step.entry].error is None:
            try:
                result = self._trained(step)
                self._measure(step, result)
            except (InvalidData, Diverged, MemoryError) as error:
                state.fail(step.entry, _error_of(error))
                self._prepared = None
            spent_s = self._training.elapsed_s if self._training is not None else 0.0
        self._training = None
        state.passed(spent_s)
        following = self._steps[state.position : state.position + 1]
        if not any(step.starts_from is not None for step in following):
            state.latest = None  # no longer needed, and it may be large

    def _trained(self, step: Step) -> TrainingResult:
        state = self.state
        training = self._training = self._begun(step)
        self._forecast = Forecast(training.pipeline.stopping)
        began = time.process_time() - state.cpu_s
        for progress in training:
            state.cpu_s = time.process_time() - began
            self._draw(step, training)
            self._show(step, progress, training)
            if self._attempt.checkpoint_is_due:
                self._save()
        self._draw(step, training)  # other threads may have continued since
        return training.result()

    def _draw(self, step: Step, training: Training) -> None:
        costs = training.mean_costs
        if step.split == 0 and costs is not None:
            add_point(self.state.curve, training.elapsed_s, *costs)

    def _begun(self, step: Step) -> Training:
        """The training of this step, at its checkpoint if there is one."""
        pipeline, start = self._entries[step.entry].pipeline(), self._start(step)
        stopping = replace(pipeline.stopping, time_budget_s=self._budget_s(step))
        options: dict[str, Any] = {
            "seed": self._seed,
            "warm_start": None if start is None else start.warm_start,
            "interrupted": self._attempt.check,
            "digest": f"{self.splits[step.split].digest} {size_of(self._entries[step.entry])}",
            "threads": self._threads,
        }
        if self._prepared is not None and self._prepared[0] == step.data:
            X, labels = None, None
            options["prepared"] = self._prepared[1]
        else:
            self._prepared = None  # free its memory before the next one is prepared
            rows, training_rows = self._rows_of(step), self._training_rows(step)
            X, labels = rows.of(training_rows)
            options |= rows.described(training_rows)
        if pipeline.stopping.patience is not None:
            watched = self.splits[step.split].validation
            assert watched is not None
            options["validation"] = self._rows_of(step).of(watched)
        arguments = replace(pipeline, stopping=stopping), X, labels
        saved, self._saved = self._saved, {}
        try:
            training = Training(*arguments, checkpoint=saved or None, **options)
        except CheckpointMismatch:  # repeats one training and changes nothing else
            self.state.cpu_s, self.state.curve = 0.0, []
            training = Training(*arguments, **options)
        self._prepared = step.data, training.prepared
        return training

    def _start(self, step: Step) -> Model | None:
        return self.state.latest if step.starts_from is not None else None

    def _budget_s(self, step: Step) -> float:
        """Its share of the entry's own budget, and at most an eighth of the time left for the job:
        an equal share for each of many would stop the few that take long."""
        own = self._entries[step.entry].stopping.time_budget_s or math.inf
        left = self._settings.limits.job_s - self.state.spent_s
        share = left / min(len(self._steps) - self.state.position, LONG_TRAININGS)
        return max(min(own / len(self.splits), share), SHORTEST_S)

    def _measure(self, step: Step, result: TrainingResult) -> None:
        """Record the result of a finished training. Nothing is changed before all of it is known:
        it may be interrupted."""
        assert self._training is not None
        state, split = self.state, self.splits[step.split]
        rows = self._rows_of(step)
        entry_result, start = state.results[step.entry], self._start(step)
        entry_result = replace(
            entry_result,
            elapsed_s=entry_result.elapsed_s + self._training.elapsed_s,
            cpu_s=entry_result.cpu_s + state.cpu_s,
        )
        if split.validation is not None:
            confusion = rows.confusion(result.fitted, split.validation)
            before = 0 if entry_result.confusion is None else np.array(entry_result.confusion)
            entry_result = replace(entry_result, confusion=(before + confusion.counts).tolist())
            if confusion.weighted is not None:
                weighted = 0 if entry_result.weighted is None else np.array(entry_result.weighted)
                weighted = (weighted + confusion.weighted).tolist()
                entry_result = replace(entry_result, weighted=weighted)
            if step.split > 0:
                accuracy = confusion.metrics()["accuracy"]
                fold = fold_of(result, {"accuracy": accuracy})
                entry_result = replace(entry_result, folds=[*entry_result.folds, fold])
        train: dict[str, Any] = {}
        if step.split == 0:
            train = rows.confusion(result.fitted, self._training_rows(step)).metrics()
            entry = self._entries[step.entry]
            entry_result = replace(
                entry_result,
                model=model_result(result, train),
                curve=state.curve,
                objective=objective_of(entry, result),
                regularization=float(result.warm_start.regularization[0]),
                warm_start_from=None if start is None else start.entry,
            )
            self._keep_if_best(step.entry, entry_result, result, train)
        state.results[step.entry] = entry_result
        state.latest = Model(step.entry, result.warm_start, {})

    def _keep_if_best(
        self, entry: int, entry_result: EntryResult, result: TrainingResult, train: dict[str, Any]
    ) -> None:
        state, rank_by = self.state, self._body.rank_by
        if self._body.model_name is None:
            return
        best = state.best
        if best is None or (*entry_result.sort_key(rank_by), entry) < (
            *state.results[best.entry].sort_key(rank_by),
            best.entry,
        ):
            metrics = {"train": train, "validation": validation_metrics(entry_result)}
            record = result_of(result, metrics)
            spec = self._entries[entry].model_copy(update={"set_alias": self._body.set_alias})
            record_spec = spec.with_solver(result.warm_start.pipeline.solver)
            state.best = Model(entry, result.warm_start, {"spec": record_spec, "result": record})

    def _show(self, step: Step, progress: Progress, training: Training) -> None:
        shown = {
            "fraction": (self.state.position + progress.fraction) / len(self._steps),
            "entry": step.entry + 1,
            "fold": step.split or None,
            **progress_of(progress),
            "eta_s": self._left_s(progress, training),
        }
        self._attempt.show(shown, [])

    def _left_s(self, progress: Progress, training: Training) -> float | None:
        """If each of the rest takes the mean time; at most the rest of the budget."""
        own = training.elapsed_s
        left = self._forecast.after(progress, own)
        if left is None:
            return None
        spent_s, done = self.state.spent_s + own, self.state.position + 1
        left += (len(self._steps) - done) * (spent_s + left) / done
        return max(0.0, min(left, self._settings.limits.job_s - spent_s))


def _error_of(error: InvalidData | Diverged | MemoryError) -> Error:
    match error:
        case InvalidData():
            return {"code": error.code, "detail": error.message, "hint": None}
        case Diverged():
            return {"code": "diverged", "detail": error.message, "hint": error.suggestion}
        case _:
            return OUT_OF_MEMORY
