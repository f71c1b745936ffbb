"""The kind of job that trains several models on one dataset, and ranks them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from service.common.phases import MEASURING, SAVING, TRAINING
from service.jobs.comparisons import results
from service.jobs.comparisons.entries import (
    Chain,
    ChainStep,
    chains_of,
    data_of,
    entries_of,
    part_of,
    size_of,
)
from service.jobs.comparisons.measuring import ValidationRows
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.submission import problem_of, refusals_of
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt, Work
from service.jobs.core.job import MAX_ATTEMPTS_WITHOUT_PROGRESS, State
from service.jobs.core.leases import Outcome, error_of
from service.jobs.parts.leases import PartWork
from service.jobs.parts.lending import Lending
from service.jobs.training import separation, summary
from service.jobs.training.admission import labeled_as, rows_stay_in_files
from service.jobs.training.auditing import audit_of
from service.jobs.training.rows import LabeledRows, Split, unscaled_columns
from service.jobs.training.training_sequence import SHORTEST_S
from service.jobs.training.trainings import begin_training, threads_of
from service.storage.arrays import Arrays
from service.storage.database import new_id
from service.storage.disk import file_errors_reported
from svm.data.matrices import Indices
from svm.errors import CheckpointMismatch, Diverged, InvalidData
from svm.model.measures import Baseline, Measures
from svm.training.curve import Progress
from svm.training.preparation import Prepared
from svm.training.results import TrainingResult
from svm.training.training import Execution, Training


def run(context: RunContext, attempt: Attempt) -> None:
    """Train all entries, and end the job.

    Raises what the stores raise, Interrupted after the checkpoint was saved, and LeaseLost.
    """
    attempt.check()
    with file_errors_reported():  # rows that stay in files are written again
        sequence = ComparisonSequence(context, attempt)
        attempt.begin(TRAINING)
        canceled = sequence.run()
    attempt.begin(MEASURING)
    work, state, warnings = sequence.work, sequence.state, sequence.work.warnings
    body, entries, dataset = work.body, work.entries, work.dataset
    reported = results.report(entries, state.results, body.ranking, work.behind)
    best = reported["entries"][0] if reported["entries"][0]["rank"] else None
    made: Any = best if state.best is None else state.best.record["result"]
    shown: dict[str, Any] | None = None
    if best is not None:
        warnings += unscaled_columns(best["spec"]["scaling"], dataset)
        seen = work.rows.seen(work.splits)
        metrics = {"validation": {**(state.results[best["number"] - 1].validation or {}), **seen}}
        if state.best is not None:
            made["metrics"]["validation"] |= seen
            metrics = made["metrics"]
        audit = audit_of(dataset, body, body.validation, metrics, work.rows.classes)
        shown = {**results.headline(best, made), **seen, "audit": audit, "notes": []}
        apart = separation.facts_of(work.rows, work.splits, dataset)
        told: list[dict[str, Any]] = [shown] if state.best is None else [shown, made]
        for each in told:
            each["audit"] = audit
            each["metrics"]["validation"] |= {"split": apart} if apart else {}
            each["notes"] += apart.get("said", ())
    attempt.begin(SAVING)
    attempt.show(summary.final_progress(attempt, canceled, made))
    final = State.CANCELED if canceled else State.SUCCEEDED if best else State.FAILED
    outcome = Outcome(
        state=final,
        stop_reason="canceled" if canceled else "finished" if best else "error",
        result=shown,
        warnings=(*separation.unmeasured(work.rows, work.splits, body.validation), *warnings),
        error=results.all_failed(state.results) if final is State.FAILED else None,
        results=context.blobs.write(f"comparisons/{new_id('results')}", orjson.dumps(reported)),
    )
    if state.best is None:
        return attempt.finish(outcome)
    spec, result, n_support_vectors = state.best.record.values()
    summary.finish_with_model(
        context,
        attempt,
        outcome,
        state.best.warm_start.fitted,
        state.best.warm_start,
        dataset=dataset,
        rows=work.splits[0].training,
        spec=spec,
        result=result,
        n_support_vectors=n_support_vectors,
    )


def help(context: RunContext, part: PartWork) -> None:
    """Train one chain of another worker's comparison, and deliver it. Raises as `run`."""
    part.check()

    def show(step: ChainStep, progress: Progress, training: Training) -> None:
        steps = len(work.chains[part.number].steps)
        part.show({"fraction": (work.state.position + progress.fraction) / steps})
        if part.checkpoint_is_due:
            part.save(work.packed())

    with file_errors_reported():
        work = ChainRun(context, part, show)
        work.state.chain = part.number
        with part.saving(work.packed):
            while (step := work.step()) is not None:
                part.check()
                work.take(step)
    part.deliver(work.packed())


ATTEMPTS_FOR_AN_ENTRY = MAX_ATTEMPTS_WITHOUT_PROGRESS - 1
WORKER_LOST: results.Error = {
    "code": "worker-lost",
    "detail": f"{ATTEMPTS_FOR_AN_ENTRY} workers were lost while they trained this entry",
    "hint": "the events of the job say what is known about them",
}


class ComparisonSequence:
    """Runs the trainings, and can be resumed at any point."""

    def __init__(self, context: RunContext, attempt: Attempt) -> None:
        self._attempt = attempt
        self._limit_s = context.settings.limits.job_s
        self.work = ChainRun(context, attempt, self._show)
        self.state = state = self.work.state
        self._entries, self._chains = self.work.entries, self.work.chains
        self._rank_by = self.work.body.ranking
        self._lending = Lending(context.offers, attempt)
        self._trainings = sum(chain.trainings for chain in self._chains)
        self._forecasts = summary.Forecasts()
        if not state.done and state.chain is None:
            state.left = self._trainings

    def run(self) -> bool:
        """Returns False at the end, True if canceled with a request to keep the results so far.

        Raises Interrupted after the checkpoint was saved.
        """
        if self._attempt.job.attempts_without_progress >= ATTEMPTS_FOR_AN_ENTRY:
            self._give_up()
        return self._attempt.carry_through(self._train, self.work.packed)

    def _train(self) -> None:
        while len(self.state.done) < len(self._chains):
            self._attempt.check()
            self._proceed()

    def _proceed(self) -> None:
        """Do one training, or a part of the work between two."""
        state = self.state
        if state.chain is None:
            self._absorb()
            self._choose()
        elif (step := self.work.step()) is not None:
            self.work.take(step)
        else:
            state.ended()
        # If an entry kills its worker, other entries must not be given up for it.
        if self._attempt.checkpoint_is_due or self._attempt.job.attempts_without_progress:
            self._save()

    def _absorb(self) -> None:
        is_open = set(range(len(self._chains))).difference(self.state.done)
        for number, result in self._lending.results(is_open):
            try:
                part, _ = results.ComparisonState.unpacked(result, self._entries)
            except CheckpointMismatch:  # of another release
                self._lending.reclaim(number)
            else:
                self.state.absorb(part, self._chains[number], self._rank_by)
                self.state.done.append(number)
                self.work.sum_up(self._chains[number])

    def _choose(self) -> None:
        """Begin the next chain that is not lent, or claim one that no one does, or wait."""
        if len(self.state.done) == len(self._chains):
            return
        if (chosen := self._lending.choose(list(self._ready()))) is not None:
            self.work.begin(*chosen)
        else:
            self._attempt.show(self._attempt.progress | self._overall(0.0))

    def _ready(self) -> Iterator[int]:
        """The chains that can begin, in order."""
        done = set(self.state.done)
        for number, chain in enumerate(self._chains):
            if number not in done and done.issuperset(chain.needs):
                yield number

    def _give_up(self) -> None:
        """Fail the entry at which the last workers were lost."""
        if self.state.chain is None:
            self._absorb()
            self._choose()
        step = None if self.state.chain is None else self.work.step()
        if step is not None:
            self.state.fail(step.entry, WORKER_LOST)
            self._attempt.show(self._attempt.progress)
            self._save()

    def _save(self) -> None:
        self._attempt.save(self.work.packed())

    def _show(self, step: ChainStep, progress: Progress, training: Training) -> None:
        spent_s = self.state.spent_s + training.elapsed_s
        begun = self._trainings - self.state.left + 1
        shown = {
            **self._overall(progress.fraction),
            "entry": step.entry + 1,
            "fold": step.split or None,
            **summary.progress_of(progress),
            # If each of the rest takes the mean time.
            "eta_s": self._forecasts.left_s(
                progress,
                training,
                others=lambda left: (self.state.left - 1) * (spent_s + left) / begun,
                most_s=self._limit_s - spent_s,
            ),
        }
        self._attempt.show(shown)
        if self._attempt.checkpoint_is_due:
            self._save()
        self._lending.lend(
            (n for n in self._ready() if n != self.state.chain),
            lambda n: self.state.part(n, self._chains[n]).packed(None),
        )

    def _overall(self, current: float) -> dict[str, float | int]:
        """How much of all trainings is done, and how many parts other workers have or can take."""
        lent = self._lending.fractions
        of_others = sum(len(self._chains[n].steps) * done for n, done in lent.items())
        done = self._trainings - self.state.left + of_others + current
        return {"fraction": min(1.0, done / self._trainings), "parts": len(lent)}


LONG_TRAININGS = 8
"""One of many trainings may take at most one part of this many of the remaining time."""


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
        self._by = body.ranking
        self.entries = entries = entries_of(body)
        found = context.datasets.get(work.job.dataset_id)
        limits = context.settings.limits
        self.dataset = dataset = labeled_as(self.body.target_kind, found, limits.classes)
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
        self.splits = splits = self.rows.splits(body.validation, body.seed, body.leave_out_trained)
        numeric = entries[0].pipeline().predicts_numbers
        self._validation = ValidationRows(splits, numeric=numeric)
        self.chains = chains_of(body, entries, len(self.splits), in_files)
        self._shown = 0 if len(splits) == 1 or body.refit == "all" else 1
        """The split of the trainings that entries show."""
        self._prepared: tuple[Any, Prepared] | None = None
        self._training: Training | None = None
        self._narrowed: tuple[tuple[bool, int | None], LabeledRows] | None = None
        self._warm: set[type] = set()

    @property
    def rows(self) -> LabeledRows:
        """All rows of the dataset, with their classes."""
        return next(iter(self._rows.values()))

    def behind(self, best: int) -> dict[int, Any]:
        """By entry, as `ValidationRows.behind`."""
        return self._validation.behind(self.state, self.rows, best, self._by)

    def packed(self) -> Arrays:
        """The checkpoint."""
        return self.state.packed(self._training)

    def begin(self, number: int, saved: Arrays) -> None:
        """Make a chain the current one, from its checkpoint if there is one."""
        state = self.state
        state.chain = number
        if saved:
            with suppress(CheckpointMismatch):  # of another release: only time is lost
                part, self._saved = results.ComparisonState.unpacked(saved, self.entries)
                state.resume(part, self.chains[number], self._by)
                self.sum_up(self.chains[number])
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
        if steps := self.chains[state.chain].steps:
            return steps[state.position] if state.position < len(steps) else None
        if state.best is not None or not (ranked := results.ranking(state.results, self._by)):
            return None
        best = ranked[0]
        return ChainStep(best, 0, data_of(self.entries[best], self._in_files[best], 0), None)

    def take(self, step: ChainStep) -> None:
        """Do one training of the current chain. Raises Interrupted."""
        state = self.state
        spent_s = 0.0
        if state.results[step.entry].error is None:
            try:
                result = self._train(step)
                self._measure(step, result)
            except (InvalidData, Diverged, MemoryError) as error:
                known = results.OUT_OF_MEMORY if isinstance(error, MemoryError) else error_of(error)
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
        return LabeledRows(data, self.dataset, classes, self._work.check, self._threads)

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
            self._draw(step, training)
            self._show(step, progress, training)
        self._draw(step, training)  # other threads may have continued since
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
        state, rows = self.state, self._rows_of(step)
        chosen, fitted = self._training_rows(step), result.fitted
        baseline = rows.baseline(chosen)
        measures: Measures | None = None
        measured = fold = None
        if self._validation.of_split[step.split] is not None:
            given = rows, fitted, baseline
            measures = self._validation.measure(state, step.entry, step.split, *given)
            metrics, name = measures.metrics(), measures.SCORES[0]
            measured = results.kept_of(metrics)
            if step.split > 0:
                fold = summary.fold_of(result, {name: metrics[name]})
        done = results.SplitResult(
            elapsed_s=self._training.elapsed_s, cpu_s=state.cpu_s, measured=measured, fold=fold
        )
        before = state.results[step.entry]
        now = replace(before, splits={**before.splits, step.split: done})
        train: dict[str, Any] = {}
        if step.split in (0, self._shown):
            train = rows.measures(fitted, chosen, baseline).metrics()
        if step.split == self._shown:
            start = _start(state, step)
            now = replace(
                now,
                model=results.model_result(result, train),
                validation=measures.metrics() if measures and not step.split else now.validation,
                curve=state.curve,
                objective=results.objective_of(self.entries[step.entry], result),
                regularization=float(result.warm_start.regularization[0]),
                warm_start_from=None if start is None else start.entry,
            )
        state.results[step.entry] = now
        assert state.chain is not None
        self.sum_up(self.chains[state.chain])
        state.latest = results.Model(step.entry, result.warm_start, {})
        if step.split == 0 and self.body.model_name is not None:
            state.keep_if_best(self._model(step.entry, result, train, baseline), self._by)

    def sum_up(self, chain: Chain) -> None:
        """The metrics of all folds together, of the entries of which a chain had the last one."""
        state = self.state
        for k in {step.entry for step in chain.steps}:
            result = state.results[k]
            if result.validation is None and len(result.folds) == len(self.splits) - 1 > 0:
                measures = self._validation.of_folds(state, self.rows, k)
                metrics = summary.metrics_of_folds(measures, result.folds)
                state.results[k] = replace(result, validation=metrics)

    def _model(
        self, number: int, result: TrainingResult, train: dict[str, Any], baseline: Baseline | None
    ) -> results.Model:
        """The model of an entry as it is kept."""
        state, entry, fitted = self.state, self.entries[number], result.fitted
        now = state.results[number]
        validation = now.validation
        if now.folds and fitted.target is not None:
            given = self._validation.predicted(state, number)
            measures = self._rows[self._in_files[number]].measures_of(fitted, *given, baseline)
            validation = summary.metrics_of_folds(measures, now.folds)
        notes = () if fitted.target is None else (results.NO_INTERVALS,)
        named = entry.model_copy(update={"set_alias": self.body.set_alias})
        subsets = {"train": train, "validation": validation}
        record = {
            "spec": named.trained_by(result.warm_start.pipeline),
            "result": summary.result_of(result, subsets, notes),
            "n_support_vectors": result.n_support_vectors,
        }
        return results.Model(number, result.warm_start, record)

    def _draw(self, step: ChainStep, training: Training) -> None:
        costs = training.mean_costs
        if step.split == self._shown and costs is not None:
            results.add_point(self.state.curve, training.elapsed_s, *costs)


def _start(state: results.ComparisonState, step: ChainStep) -> results.Model | None:
    return state.latest if step.starts_from is not None else None
