"""The trainings of one chain of a comparison, one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from service.jobs.comparisons import results
from service.jobs.comparisons.entries import (
    Chain,
    ChainStep,
    chains_of,
    entries_of,
    part_of,
    size_of,
)
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.submission import problem_of, refusals_of
from service.jobs.context import RunContext
from service.jobs.core.attempts import Work
from service.jobs.core.leases import error_of
from service.jobs.training.admission import rows_stay_in_files
from service.jobs.training.rows import LabeledRows, Split
from service.jobs.training.summary import fold_of, result_of
from service.jobs.training.training_sequence import SHORTEST_S, begin_training, threads_of
from service.storage.arrays import Arrays
from svm.data.matrices import Indices
from svm.errors import CheckpointMismatch, Diverged, InvalidData
from svm.training.curve import Progress
from svm.training.preparation import Prepared
from svm.training.results import TrainingResult
from svm.training.training import Execution, Training

LONG_TRAININGS = 8
"""One of many trainings may take at most one part of this many of the remaining time."""
OUT_OF_MEMORY: results.Error = {
    "code": "out-of-memory",
    "detail": "a worker's memory is too small for this entry",
    "hint": "give workers more memory, or train it with a solver that streams",
}


class ChainRun:
    """Trains chains of one comparison on this worker, one at a time.

    Prepared data and kernel rows stay for the next chain. Everything else that it needs to resume
    is in the state.
    """

    splits: list[Split]
    """Rows: the first split trains the models, the others the folds."""
    chains: list[Chain]
    """All chains of the comparison, in order."""

    def __init__(
        self,
        context: RunContext,
        work: Work,
        show: Callable[[ChainStep, Progress, Training], None],
    ) -> None:
        """`show` is called at each progress. Raises what the stores raise."""
        self.body = body = ComparisonCreate.from_spec(work.job.spec)
        assert body.seed is not None
        self.entries = entries = entries_of(body)
        self.dataset = dataset = context.datasets.get(work.job.dataset_id)
        self._work = work
        self._settings = settings = context.settings
        self._seed = body.seed
        self._threads = threads_of(settings, work)
        self._datasets = context.datasets
        self._show = show
        refusals = refusals_of(entries, dataset, settings.limits)
        errors = [problem_of(each) for each in refusals]
        begin = partial(results.ComparisonState.begun, entries, errors)
        (self.state, self._saved), self.warnings = context.resume(work.job, begin)
        memory = settings.limits.worker_memory_bytes
        in_files = [
            refusal is None and rows_stay_in_files(entry, dataset, memory)
            for entry, refusal in zip(entries, refusals, strict=True)
        ]
        self._in_files = in_files
        wanted = {in_files[k] for k, refusal in enumerate(refusals) if refusal is None}
        self._rows = {some: self._open(some) for some in wanted or {True}}
        some = next(iter(self._rows.values()))
        self.splits = some.splits(body.validation, body.seed)
        self.chains = chains_of(
            entries, len(self.splits), in_files, body.warm_starts and not body.sizes
        )
        self._prepared: tuple[Any, Prepared] | None = None
        self._training: Training | None = None
        self._narrowed: tuple[tuple[bool, int | None], LabeledRows] | None = None
        self._warm: set[type] = set()

    def trained_rows(self) -> int:
        """How many validation rows are equal to a row that the same training learned from; with
        folds over all of them."""
        return next(iter(self._rows.values())).seen(self.splits)

    def packed(self) -> bytes:
        """The checkpoint."""
        return self.state.packed(self._training)

    def begin(self, number: int, saved: Arrays) -> None:
        """Make a chain the current one, from its checkpoint if there is one."""
        state = self.state
        state.chain = number
        if saved:
            with suppress(CheckpointMismatch):  # of another release: only time is lost
                part, self._saved = results.ComparisonState.unpacked(saved, self.entries)
                state.resume(part, self.chains[number], self.body.rank_by)
        if self.body.sizes is not None and self.step() is not None:
            self._warm_up(self.chains[number].steps[0])

    def _warm_up(self, step: ChainStep) -> None:
        """Load the compiled loops of a solver by one epoch, so that the time of its first entry is
        that of the training."""
        pipeline = self.entries[step.entry].pipeline()
        if type(pipeline.solver) in self._warm:
            return
        self._warm.add(type(pipeline.solver))
        once = replace(pipeline.stopping, max_epochs=1, max_updates=None, patience=None)
        with suppress(InvalidData, Diverged, MemoryError):  # the training meets them again
            rows, chosen = self._rows_of(step), self._training_rows(step)
            how = Execution(interrupted=self._work.check, threads=self._threads)
            given = rows, chosen, None, replace(pipeline, stopping=once), once.time_budget_s, how
            for _ in begin_training(*given, seed=self._seed):
                pass

    def step(self) -> ChainStep | None:
        """The training that comes next; None if the current chain is done."""
        state = self.state
        assert state.chain is not None
        steps = self.chains[state.chain].steps
        return steps[state.position] if state.position < len(steps) else None

    def take(self, step: ChainStep) -> None:
        """Do one training of the current chain. Raises Interrupted."""
        state = self.state
        spent_s = 0.0
        if state.results[step.entry].error is None:
            try:
                result = self._train(step)
                self._measure(step, result)
            except (InvalidData, Diverged, MemoryError) as error:
                known = OUT_OF_MEMORY if isinstance(error, MemoryError) else error_of(error)
                state.fail(step.entry, known)
                self._prepared = None
            spent_s = self._training.elapsed_s if self._training is not None else 0.0
        self._training = None
        state.passed(spent_s)
        following = self.step()
        if following is None or following.starts_from is None:
            state.latest = None  # no longer needed, and it may be large

    def _open(self, in_files: bool) -> LabeledRows:
        some = self._datasets.open if in_files else self._datasets.load
        data, classes = some(self.dataset), self.body.classes
        return LabeledRows(data, self.dataset, classes, self._work.check)

    def _rows_of(self, step: ChainStep) -> LabeledRows:
        """All rows, with the columns that the entry sees."""
        in_files, (_, columns) = self._in_files[step.entry], size_of(self.entries[step.entry])
        rows = self._rows[in_files]
        if columns is None:
            return rows
        if self._narrowed is None or self._narrowed[0] != (in_files, columns):
            self._narrowed = None  # free its memory before the next ones are made
            self._narrowed = (in_files, columns), rows.narrowed(columns)
        return self._narrowed[1]

    def _training_rows(self, step: ChainStep) -> Indices:
        """The numbers of the rows that this step trains on."""
        training, (count, _) = self.splits[step.split].training, size_of(self.entries[step.entry])
        if count is None:
            return training
        return part_of(training, self._rows_of(step).codes(training), count, self._seed)

    def _train(self, step: ChainStep) -> TrainingResult:
        state = self.state
        training = self._training = self._begin(step)
        began = time.process_time() - state.cpu_s
        for progress in training:
            state.cpu_s = time.process_time() - began
            _draw(state, step, training)
            self._show(step, progress, training)
        _draw(state, step, training)  # other threads may have continued since
        return training.result()

    def _begin(self, step: ChainStep) -> Training:
        """The training of this step, at its checkpoint if there is one."""
        pipeline, start = self.entries[step.entry].pipeline(), _start(self.state, step)
        if self._prepared is not None and self._prepared[0] != step.data:
            self._prepared = None  # free its memory before the next one is prepared
        rows, split = self._rows_of(step), self.splits[step.split]
        how = Execution(
            interrupted=self._work.check,
            threads=self._threads,
            digest=f"{split.digest} {size_of(self.entries[step.entry])}",
            prepared=None if self._prepared is None else self._prepared[1],
        )
        watched = None if pipeline.stopping.patience is None else split.validation
        given = rows, self._training_rows(step), None, pipeline, self._budget_s(step), how
        begin = partial(
            begin_training,
            *given,
            seed=self._seed,
            validation=None if watched is None else rows.of(watched),
            warm_start=None if start is None else start.warm_start,
        )
        saved, self._saved = self._saved, {}
        try:
            training = begin(checkpoint=saved or None)
        except CheckpointMismatch:  # repeats one training and changes nothing else
            self.state.cpu_s, self.state.curve = 0.0, []
            training = begin()
        self._prepared = step.data, training.prepared
        return training

    def _budget_s(self, step: ChainStep) -> float:
        """Its share of the entry's own budget, and at most an eighth of the time left for the job:
        an equal share for each of many would stop the few that take long."""
        own = self.entries[step.entry].stopping.time_budget_s or math.inf
        left = self._settings.limits.job_s - self.state.spent_s
        share = left / max(1, min(self.state.left, LONG_TRAININGS))
        return max(min(own / len(self.splits), share), SHORTEST_S)

    def _measure(self, step: ChainStep, result: TrainingResult) -> None:
        """Record the result of a finished training. Nothing is changed before all of it is known:
        it may be interrupted."""
        assert self._training is not None
        state, split, rows = self.state, self.splits[step.split], self._rows_of(step)
        counts = weighted = fold = None
        if split.validation is not None:
            confusion = rows.confusion(result.fitted, split.validation)
            counts = confusion.counts.tolist()
            weighted = None if confusion.weighted is None else confusion.weighted.tolist()
            if step.split > 0:
                fold = fold_of(result, {"accuracy": confusion.metrics()["accuracy"]})
        measured = results.SplitResult(
            elapsed_s=self._training.elapsed_s,
            cpu_s=state.cpu_s,
            confusion=counts,
            weighted=weighted,
            fold=fold,
        )
        before = state.results[step.entry]
        now = replace(before, splits={**before.splits, step.split: measured})
        best = None
        if step.split == 0:
            train = rows.confusion(result.fitted, self._training_rows(step)).metrics()
            entry, start = self.entries[step.entry], _start(state, step)
            now = replace(
                now,
                model=results.model_result(result, train),
                curve=state.curve,
                objective=results.objective_of(entry, result),
                regularization=float(result.warm_start.regularization[0]),
                warm_start_from=None if start is None else start.entry,
            )
            if self.body.model_name is not None:
                best = self._model(step.entry, now, result, train)
        state.results[step.entry] = now
        state.latest = results.Model(step.entry, result.warm_start, {})
        if best is not None:
            state.keep_if_best(best, self.body.rank_by)

    def _model(
        self,
        entry: int,
        entry_result: results.EntryResult,
        result: TrainingResult,
        train: dict[str, Any],
    ) -> results.Model:
        metrics = {"train": train, "validation": results.validation_metrics(entry_result)}
        record = result_of(result, metrics)
        spec = self.entries[entry].model_copy(update={"set_alias": self.body.set_alias})
        spec_of_record = spec.with_solver(result.warm_start.pipeline.solver)
        return results.Model(entry, result.warm_start, {"spec": spec_of_record, "result": record})


def _start(state: results.ComparisonState, step: ChainStep) -> results.Model | None:
    return state.latest if step.starts_from is not None else None


def _draw(state: results.ComparisonState, step: ChainStep, training: Training) -> None:
    costs = training.mean_costs
    if step.split == 0 and costs is not None:
        results.add_point(state.curve, training.elapsed_s, *costs)
