"""Training as an iteration that can be watched, stopped, checkpointed and resumed.

    training = Training(Pipeline(solver=Newton(C=1.0)), X, labels, seed=0)
    for progress in training:
        print(progress.epoch, progress.relative_gap)
    model = training.result().fitted

The result has the same bits however the work is sliced, interrupted, resumed or spread over
threads, and with any number of processors.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from svm.data.columns import Columns
from svm.data.executors import as_function, executor_of, one_blas_thread
from svm.data.matrices import Array, Vector
from svm.data.stored_rows import StoredRows, stored_values
from svm.errors import CheckpointMismatch, InvalidHyperparameter
from svm.model.pipeline import Pipeline
from svm.problem.problem import Problem
from svm.solvers.protocol import HasDualCoefficients
from svm.stopping import StopReason
from svm.training import curve
from svm.training.binary_problems import Spread, problems, solver_for, spread_over
from svm.training.binary_training import BinaryTraining
from svm.training.checkpoints import Arrays, fingerprint, platform
from svm.training.curve import Progress
from svm.training.kernel_bound import bound_of
from svm.training.preparation import Prepared, prepare, preprocessing_key
from svm.training.results import TrainingResult, result_of
from svm.training.round_robin import RoundRobin, train_together
from svm.training.warm_start import WarmStart, check_warm_start

TOOK_OVER = "newton took over from {}, whose gap fell too slowly, in {} of {} pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a training is computed. No bit of its result depends on it."""

    interrupted: Callable[[], None] | None = None
    """Called about every 0.05 s of work, from any thread; it stops the iteration by raising
    `Interrupted`, and with `StoredRows` the preparation too."""
    threads: int | Callable[[], int] = 1
    """How many pairs run at once, or how many share the passes of a single one over the data
    (`svm.data.shards`). A function gives it before each pass, or each slice of a pair; pairs of
    few values (`SEVERAL_FROM`) then run one after the other."""
    digest: str | None = None
    """Identifies X and labels in checkpoints, equal for equal ones. Without it, the first
    checkpoint reads all of them to compute one."""
    owns_rows: bool = False
    """Whether a matrix X may be overwritten."""
    prepared: Prepared | None = None
    """The data of another training on the same rows; X and labels are not read again."""
    spread: Spread | None = None
    """Gives the processes that compute the passes of a single problem, if there are any; it is
    asked if the solver does nothing else with the rows."""


SEVERAL_FROM = 1 << 22
"""Stored values of the rows from which the pairs of a training are worth threads, not only whole
processes: with fewer, Python takes as long as the compiled loops."""


class Training:
    """All pairs of one multiclass training, side by side.

    `pipeline` is the one given, with the chosen solver in place of `auto`.
    """

    @one_blas_thread
    def __init__(
        self,
        pipeline: Pipeline,
        X: Any,
        labels: Any,
        *,
        seed: int,
        columns: Columns | None = None,
        weights: Any = None,
        validation: tuple[Any, Any] | None = None,
        warm_start: WarmStart | None = None,
        checkpoint: Mapping[str, Array] | None = None,
        bounds_kernel: bool = True,
        trace: curve.Trace | None = None,
        how: Execution = Execution(),
    ) -> None:
        """Prepare the data; no training yet.

        X is (n_samples, n_features), dense or sparse, or `StoredRows` if the solver streams: the
        bits are the same. Labels are (n_samples,), of at least two classes.
        `columns`: what the columns of X are. Unless they are `PlainColumns`, X has the raw values
        of a table (`svm.data.columns`), and the encoder is learned from these rows.

        `weights`: (n_samples,) ≥ 0, how much each row counts; the same as repeated rows, except
        that encoder, scaling, feature map and kernel are learned from each row once. Rows of weight
        0 are left out.

        `validation`: another (X, labels), on which errors are reported, and patience is measured.
        `warm_start`: begin where another training ended (`svm.training.warm_start`).
        `checkpoint`: continue the training that it was taken from; all other arguments must be
        the same. If it has only some pairs (`lend`), only those are trained.
        `seed`: 0 … 2⁶³ - 1.
        `bounds_kernel`: whether a model on Nyström features is also certified with the kernel
        itself, at the end.
        `trace`: more points of the learning curve, in `Progress.points`.
        `how` it is computed, which changes no bit.

        Raises InvalidData, InvalidHyperparameter for the seed and the trace, and CheckpointMismatch
        if data, hyperparameters or seed differ from those of the checkpoint. Another type of
        processor or other libraries only give a warning: the bits may differ then.
        """
        if not 0 <= seed < 2**63:
            raise InvalidHyperparameter("seed", seed, "0 … 2⁶³ - 1")
        threads = how.threads
        self.seed, self._digest = seed, how.digest
        self._elapsed_before = 0.0
        self._started: float | None = None
        self._interruption = Interruption(how.interrupted)
        self._stopping = pipeline.stopping.resolve()
        if warm_start is not None and not isinstance(pipeline.solver, HasDualCoefficients):
            warm_start = warm_start.with_rows(np.full(warm_start.rows.max(initial=-1) + 1, -1))
        # In memory the preparation is short; from files it reads them three times.
        poll = self._interruption if isinstance(X, StoredRows) else (lambda: None)
        executor, prepared = executor_of(how.threads), how.prepared
        if prepared is None:
            given = pipeline, X, labels, seed, warm_start, poll, columns, weights
            prepared = prepare(*given, executor, owns_rows=how.owns_rows)
        elif preprocessing_key(prepared.steps.pipeline) != preprocessing_key(pipeline):
            raise ValueError("the prepared data belongs to a pipeline with other preprocessing")
        elif warm_start is not None:
            check_warm_start(pipeline, warm_start.pipeline)
        if warm_start is not None and prepared.kept is not None:
            warm_start = warm_start.among(prepared.kept)
        self._warm_start, self.prepared = warm_start, prepared
        self.warnings = list(self.prepared.warnings)
        binary = problems(self.prepared, pipeline, seed, self._interruption, executor)
        solver, self._successor, reasons = solver_for(pipeline, binary, warm=warm_start is not None)
        if self._stopping.patience is not None:  # the best state is one of this solver
            self._successor = None
        self.pipeline = replace(pipeline, solver=solver)
        self.notes = reasons
        binary = spread_over(binary, solver, self.prepared, how.spread)
        several = len(binary) > 1 and stored_values(self.prepared.X) >= SEVERAL_FROM
        self.in_threads = several if callable(threads) else threads > 1
        """Whether pairs may run at once."""
        self._threads = (lambda: 1) if not self.in_threads else as_function(threads)
        self._pairs = [
            BinaryTraining.begin(
                solver,
                problem,
                self._stopping,
                None if warm_start is None else warm_start.of_problem(k, problem),
                self._successor,
            )
            for k, problem in enumerate(binary)
        ]
        self._validation: curve.ValidationSet | None = None
        if validation is not None:
            self._validation = curve.ValidationSet(prepared, *validation, self.problems, poll)
        if self._stopping.patience is not None and validation is None:
            expected = "a validation set"
            raise InvalidHyperparameter("stopping.patience", self._stopping.patience, expected)
        self._watched: list[curve.Watched] = []
        if self._stopping.patience is not None:
            self._watched = [curve.Watched(curve.Watch(), pair.state) for pair in self._pairs]
        self._tracer: curve.Tracer | None = None
        if trace is not None:
            trace.check(solver)
            self._tracer = curve.Tracer(trace, len(self._pairs))
        self._points: list[tuple[curve.Evaluation, ...]] = [()] * len(self._pairs)
        self._kernel_bounds: Vector | None = None
        if bounds_kernel and prepared.unmapped is not None and pipeline.kernel is None:
            self._kernel_bounds = np.full(len(self._pairs), np.nan)
        self._queue = RoundRobin(())
        self._lent: set[int] = set()
        if checkpoint is not None:
            self._restore(checkpoint)
        self._tracker = curve.ProgressTracker(
            self._pairs, self._stopping, self.elapsed_s, self._lent
        )

    @property
    def classes(self) -> Array:
        """(n_classes,) sorted labels."""
        return self.prepared.classes

    @property
    def problems(self) -> list[Problem]:
        """The binary problems, in the order of `prepared.splits`."""
        return [pair.problem for pair in self._pairs]

    @property
    def mean_costs(self) -> tuple[float, float] | None:
        """(primal, dual) of all pairs together, each at its latest evaluation; None before the
        first ones. Trainings of the same problems can be compared by it."""
        return self._tracker.mean_costs

    @property
    def elapsed_s(self) -> float:
        """Seconds spent in training, all attempts together."""
        running = 0.0 if self._started is None else time.monotonic() - self._started
        return self._elapsed_before + running

    def __iter__(self) -> Iterator[Progress]:
        """Train to the end; see `Progress` for when an item is yielded.

        Raises Interrupted and Diverged. The loop may be left early: `checkpoint` and `result` then
        describe that moment, and a new iteration continues from there.
        """
        self._started = time.monotonic()
        try:
            with one_blas_thread:
                for k in [k for k, some in enumerate(self._points) if some]:
                    yield self._report(k)  # an interruption came before their report
                yield from self._together()
                self._queue = RoundRobin(k for k in self.own if not self._is_finished(k))
                for k in self._queue.run(self._slice, self._is_over, self._threads):
                    yield self._report(k)
                if not self.unfinished:
                    self._bound_kernel()
        finally:
            self._elapsed_before, self._started = self.elapsed_s, None

    @property
    def unfinished(self) -> list[int]:
        """The numbers of the pairs that are not finished."""
        return [k for k in range(len(self._pairs)) if not self._is_finished(k)]

    @property
    def own(self) -> list[int]:
        """The numbers of the pairs that are trained here."""
        return [k for k in range(len(self._pairs)) if k not in self._lent]

    @property
    def waiting(self) -> list[int]:
        """The numbers of the unfinished pairs that no thread trains now."""
        return [k for k in self.unfinished if k not in self._queue.running]

    def lend(self, pairs: Collection[int]) -> Arrays:
        """Leave these pairs to another training: the iteration passes over them until `take_back`.
        Returns the checkpoint with which that training begins.

        May be called between two items of the iteration, about pairs that are waiting.
        """
        self._lent.update(pairs)
        self._tracker.leave_out(self._lent)
        return self.checkpoint(pairs)

    def take_back(self, pairs: Collection[int], checkpoint: Mapping[str, Array]) -> None:
        """Continue these pairs here, those that the other training's checkpoint has from there.
        If some are not finished, iterate again.

        Raises CheckpointMismatch, and then changes nothing.
        """
        if checkpoint:
            if str(checkpoint.get("fingerprint")) != self._fingerprint:
                raise CheckpointMismatch("the checkpoint belongs to another training")
            self._restore_pairs(checkpoint)
        self._lent.difference_update(pairs)
        self._tracker.leave_out(self._lent)
        for k in pairs:
            self._tracker.update(k, self._pairs[k], self.elapsed_s)

    def checkpoint(self, only: Collection[int] | None = None) -> Arrays:
        """Everything needed to continue, as plain arrays; an unfinished epoch is left out.

        `only` these pairs; None is all. May be called between two items of the iteration, while
        other threads train pairs.
        """
        pairs = list(self._pairs)
        arrays: Arrays = {
            "fingerprint": np.asarray(self._fingerprint),
            "platform": np.asarray(platform()),
            "elapsed_s": np.asarray(self.elapsed_s),
        }
        if self._kernel_bounds is not None:
            arrays["kernel_bounds"] = self._kernel_bounds.copy()
        if self._tracer is not None:  # those that no report has had yet
            points = [asdict(point) for points in self._points for point in points]
            arrays["points"] = np.asarray(json.dumps(points))
        arrays["pairs"] = np.arange(len(pairs)) if only is None else np.array(sorted(only))
        begun = [k for k in arrays["pairs"].tolist() if pairs[k].progress.begun]
        arrays["begun"] = np.array(begun, dtype=np.int64)
        for k in begun:
            if self._stopping.patience is not None:
                arrays |= self._watched[k].to_arrays(f"{k}.")
            arrays |= pairs[k].to_arrays(f"{k}.")
        return arrays

    @one_blas_thread
    def result(self) -> TrainingResult:
        """The model so far; pairs that have not finished are canceled."""
        with self._interruption.suspended():
            canceled = StopReason.CANCELED
            pairs = [p if p.progress.finished else p.stop(canceled) for p in self._pairs]
            pipeline, notes = self.pipeline, self.notes
            switched = sum(pair.progress.switched for pair in pairs)
            if switched and self._successor is not None:
                notes += (TOOK_OVER.format(pipeline.solver.name, switched, len(pairs)),)
                pipeline = replace(pipeline, solver=self._successor)
            if self._tracer is not None and self._tracer.is_thinned(pairs):
                notes += (curve.THINNED,)
            bounds = self._kernel_bounds
            known = None if bounds is None or np.isnan(bounds).any() else bounds
            return result_of(pipeline, self.prepared, pairs, tuple(self.warnings), notes, known)

    def _restore(self, checkpoint: Mapping[str, Array]) -> None:
        if str(checkpoint.get("fingerprint")) != self._fingerprint:
            raise CheckpointMismatch("the checkpoint belongs to other data, settings or seed")
        if not {"elapsed_s", "pairs", "begun"} <= checkpoint.keys():
            raise CheckpointMismatch("the checkpoint is incomplete")
        if str(checkpoint.get("platform")) != platform():
            self.warnings.append(
                "resumed on another type of processor or with other library versions: "
                "the model may differ in its last bits from an undisturbed training"
            )
        self._elapsed_before = float(checkpoint["elapsed_s"])
        if self._kernel_bounds is not None:
            self._kernel_bounds = np.array(checkpoint.get("kernel_bounds", self._kernel_bounds))
        self._lent = set(range(len(self._pairs))).difference(checkpoint["pairs"].tolist())
        self._restore_pairs(checkpoint)

    def _restore_pairs(self, checkpoint: Mapping[str, Array]) -> None:
        pairs = checkpoint["begun"].tolist()
        for point in json.loads(str(checkpoint.get("points", "[]"))):
            if point["pair"] in pairs:
                self._points[point["pair"]] += (curve.Evaluation(**point),)
        for k in pairs:
            if self._stopping.patience is not None:
                self._watched[k] = curve.Watched.restored(self._pairs[k], checkpoint, f"{k}.")
            self._pairs[k] = self._pairs[k].restored(checkpoint, f"{k}.")

    @cached_property
    def _fingerprint(self) -> str:
        """A digest of everything the states depend on: settings, seed, data, labels."""
        timeless = replace(self._stopping, time_budget_s=None)  # it may change on resuming
        pipeline = replace(self.pipeline, stopping=timeless)
        return fingerprint(pipeline, self.prepared, self.seed, self._warm_start, self._digest)

    def _out_of_time(self) -> bool:
        budget = self._stopping.time_budget_s
        return budget is not None and self.elapsed_s > budget

    def _slice(self, k: int) -> float:
        """Advance pair k to its next evaluation, or for SLICE_S if epochs are short. Returns the
        seconds that it took."""
        start = time.monotonic()
        while True:
            self._interruption()
            before = self._pairs[k]
            pair = before.step(self._out_of_time())
            if self._tracer is not None:
                # In this order: a checkpoint has the points of all states that it has.
                measured = self._tracer.points(before, pair, self._validation, self.elapsed_s)
                self._points[k] += tuple(measured)
            pair = self._pairs[k] = self._unless_patience_ends(k, pair)
            evaluated = pair.progress.evaluated_at == pair.progress.advances
            now = time.monotonic()
            if evaluated or pair.progress.finished or now > start + curve.SLICE_S:
                return now - start

    def _unless_patience_ends(self, k: int, pair: BinaryTraining) -> BinaryTraining:
        if self._stopping.patience is None or pair.progress.stop_reason:
            return pair
        if pair.state.epoch > self._watched[k].watch.epoch:
            assert self._validation is not None
            error = self._validation.error(pair, pair.state)
            self._watched[k] = self._watched[k].after(pair, error)
        return self._watched[k].end(pair, self._stopping.patience)

    def _bound_kernel(self) -> None:
        """The bounds with the kernel itself that are not known yet."""
        bounds = np.empty(0) if self._kernel_bounds is None else self._kernel_bounds
        for k in np.flatnonzero(np.isnan(bounds)):
            if not self._out_of_time():
                bounds[k] = bound_of(self.prepared, self._pairs[k])

    def _is_finished(self, k: int) -> bool:
        return self._pairs[k].progress.finished

    def _is_over(self, k: int) -> bool:
        return k in self._lent or self._is_finished(k)

    def _together(self) -> Iterator[Progress]:
        """The pairs that can be solved many at once: one report for those of each call."""
        for solved in train_together(self._pairs, self.own) if self._tracer is None else ():
            for k in solved.keys() - self._lent:
                self._pairs[k] = solved[k]
                self._tracker.update(k, solved[k], self.elapsed_s)
            if solved:
                yield self._report(max(solved))
            self._interruption()
            if self._out_of_time():
                return

    def _report(self, k: int) -> Progress:
        pair = self._pairs[k]
        self._tracker.update(k, pair, self.elapsed_s)
        evaluation, now, held_out = None, pair.progress, self._validation
        if now.evaluated_at == now.advances:
            evaluation = curve.Evaluation.of(
                *(pair, now.primal, now.dual),
                epoch=pair.state.epoch,
                updates=pair.state.updates,
                train_error=now.train_error,
                validation_error=None if held_out is None else held_out.error(pair, pair.state),
                elapsed_s=self.elapsed_s,
            )
        points, self._points[k] = self._points[k], ()
        return self._tracker.report(k, self._pairs, evaluation, points)


class Interruption:
    """Asks the caller whether to stop; `ask` raises `Interrupted` if so.

    Problems refer to this rather than to the training, which refers to them: in a cycle, the data
    of a finished training would stay in memory until the garbage collector runs.
    """

    def __init__(self, ask: Callable[[], None] | None) -> None:
        self._ask = ask

    def __call__(self) -> None:
        if self._ask is not None:
            self._ask()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Do not ask in this block."""
        ask, self._ask = self._ask, None
        try:
            yield
        finally:
            self._ask = ask
