"""What is measured of a training on the way: progress, validation errors, a trace, patience."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from svm.data.matrices import Array, Vector, is_sparse
from svm.errors import InvalidHyperparameter
from svm.hyperparameters import Checked, PositiveInt
from svm.kernel.kernels import dense_rows, inner_products
from svm.problem.objectives import error_of, evaluate
from svm.problem.problem import Classifier, LinearClassifier, Problem
from svm.solvers import AnyChoice
from svm.stopping import Stopping, StopReason
from svm.training.binary_problems import validation_problems
from svm.training.binary_training import BinaryTraining
from svm.training.checkpoints import Arrays, flatten, restore
from svm.training.preparation import Prepared

SLICE_S = 0.02
"""Shortest time for which one pair is advanced, unless it is evaluated before."""
BLOCK_ROWS = 1024
"""Validation rows of which kernel values are in memory at once."""
DENSE_POINTS = 2000
"""Points of all binary problems together that are as dense as was asked for."""
THINNED = (
    f"the trace is less dense than was asked for after its first {DENSE_POINTS:,} points: the "
    "distance doubles each time the count of epochs or updates doubles"
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One point of the curve of a pair: its model on the way, measured."""

    pair: int
    epoch: int
    updates: int
    primal: float
    dual: float
    gap: float
    train_error: float
    """Share of the pair's training rows on the wrong side."""
    validation_error: float | None
    solver_objective: float
    """The primal value in the constants of the solver's own objective."""
    elapsed_s: float
    """Seconds of training so far."""

    @classmethod
    def of(cls, pair: BinaryTraining, primal: float, dual: float, **measured: Any) -> Evaluation:
        """An evaluation with what follows from primal value and bound; all else is `measured`."""
        return cls(
            pair=pair.problem.pair,
            primal=primal,
            dual=dual,
            gap=primal - dual,
            solver_objective=pair.solver.stated(pair.problem, primal),
            **measured,
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of the training: one report for every evaluation of a pair, and between evaluations
    one every `SLICE_S` seconds."""

    pair: int
    epoch: int
    """Epochs of that pair."""
    updates: int
    """Parameter updates of all pairs."""
    fraction: float
    """Estimated share of the whole training that is done, 0 … 1."""
    primal: float | None
    """Primal, dual and relative gap of the pair with the largest gap, once all are known."""
    dual: float | None
    relative_gap: float | None
    evaluation: Evaluation | None
    """None if this epoch was not evaluated."""
    points: tuple[Evaluation, ...] = ()
    """Of the trace that was asked for, since the pair's last report; the first one first."""


class ProgressTracker:
    """Keeps a few numbers of each pair, so that reports are cheap for many pairs."""

    def __init__(
        self,
        pairs: Sequence[BinaryTraining],
        stopping: Stopping,
        elapsed_s: float,
        left_out: Collection[int],
    ) -> None:
        self._stopping = stopping
        self._updates = np.zeros(len(pairs), dtype=np.int64)
        self._costs = np.zeros((len(pairs), 2))
        self._gaps = np.zeros(len(pairs))
        self._fractions = np.zeros(len(pairs))
        self._own = np.ones(len(pairs), dtype=bool)
        self.leave_out(left_out)
        for k, pair in enumerate(pairs):
            self.update(k, pair, elapsed_s)

    @property
    def mean_costs(self) -> tuple[float, float] | None:
        """(primal, dual) of all pairs together; None before the first evaluation of each."""
        primal, dual = self._costs.mean(axis=0).tolist()
        return None if math.isinf(primal) else (primal, dual)

    def leave_out(self, pairs: Collection[int]) -> None:
        """Count the fractions of all other pairs only."""
        self._own[:] = True
        self._own[list(pairs)] = False

    def update(self, k: int, pair: BinaryTraining, elapsed_s: float) -> None:
        """Record pair k, `elapsed_s` seconds after the start of the training."""
        now = pair.progress
        self._updates[k] = pair.state.updates
        self._costs[k] = now.primal, now.dual
        self._gaps[k] = math.inf if math.isinf(now.primal) else now.relative_gap
        # The gap is not monotone, but the reported fraction must not fall.
        self._fractions[k] = max(self._fractions[k], self._fraction(pair, elapsed_s))

    def report(
        self,
        k: int,
        pairs: Sequence[BinaryTraining],
        evaluation: Evaluation | None,
        points: tuple[Evaluation, ...],
    ) -> Progress:
        """The report after an advance of pair k."""
        widest = int(self._gaps.argmax())
        worst, known = pairs[widest].progress, bool(np.isfinite(self._gaps[widest]))
        return Progress(
            pair=k,
            epoch=pairs[k].state.epoch,
            updates=int(self._updates.sum()),
            fraction=float(self._fractions[self._own].mean()),
            primal=worst.primal if known else None,
            dual=worst.dual if known else None,
            relative_gap=worst.relative_gap if known else None,
            evaluation=evaluation,
            points=points,
        )

    def _fraction(self, pair: BinaryTraining, elapsed_s: float) -> float:
        now, stopping = pair.progress, self._stopping
        if now.finished:
            return 1.0
        if now.stop_reason:
            return 0.99
        shares = [0.0]
        if stopping.max_epochs is not None:
            shares.append(pair.state.epoch / stopping.max_epochs)
        if stopping.max_updates is not None:
            shares.append(pair.state.updates / stopping.max_updates)
        if stopping.time_budget_s is not None:
            shares.append(elapsed_s / stopping.time_budget_s)
        if stopping.duality_gap is not None and 0 < now.relative_gap < 1:
            shares.append(math.log(now.relative_gap) / math.log(min(0.5, stopping.duality_gap)))
        return min(0.99, max(shares))


class ValidationSet:
    """Other rows, prepared as the training rows were."""

    def __init__(
        self,
        prepared: Prepared,
        X: Any,
        labels: Any,
        problems: list[Problem],
        interrupted: Callable[[], None],
    ) -> None:
        """Raises InvalidData."""
        self._watched = validation_problems(prepared, X, labels, problems, interrupted)

    def error(self, pair: BinaryTraining, state: Any) -> float | None:
        """Share of the pair's rows on the wrong side of the classifier in this state of its solver;
        None if it has no rows."""
        problem, watched = pair.problem, self._watched[pair.problem.pair]
        if watched.n_samples == 0:
            return None
        scores = _scores_on(problem, pair.solver.classifier(problem, state), watched)
        return error_of(watched, scores)


def _scores_on(problem: Problem, classifier: Classifier, watched: Problem) -> Vector:
    """The classifier's scores on the rows of `watched`, (n_samples,)."""
    if isinstance(classifier, LinearClassifier):
        return watched.scores(classifier.coefficients, classifier.intercept)
    assert problem.kernel is not None
    rows = problem.rows[classifier.support]
    X, others = problem.matrix, watched.matrix
    vectors = X[rows] if is_sparse(X) else dense_rows(X, rows)
    norms = problem.squared_norms[classifier.support]
    out = np.empty(watched.n_samples)
    for start in range(0, watched.n_samples, BLOCK_ROWS):
        watched.interrupted()
        part = slice(start, start + BLOCK_ROWS)
        products = inner_products(others[watched.rows[part]], vectors)
        values = problem.kernel.of_products(products, watched.squared_norms[part], norms)
        out[part] = values @ classifier.coefficients + classifier.intercept
    return out


@dataclass(frozen=True, kw_only=True)
class Trace(Checked):
    """How often the cost is computed for the learning curve, from before the first update on.

    Every point costs a pass over the rows, or up to two within an epoch. The first 2,000 points are
    as dense as was asked for (of several binary problems, all together); then the distance doubles
    each time the count of epochs or updates doubles. The model does not depend on it.
    """

    every: PositiveInt = 1
    """Epochs or updates from one point to the next."""
    unit: Literal["epoch", "update"] = "epoch"
    """`update` is for `pegasos`, `kernel-pegasos`, `subgradient` and `gradient-descent`; the others
    know their weights after each epoch."""

    def check(self, solver: AnyChoice) -> None:
        """Raises InvalidHyperparameter if the solver has no weights after every update."""
        if self.unit == "update" and not solver.traces_updates:
            raise InvalidHyperparameter("trace.unit", self.unit, f"`epoch` for {solver.name}")


def counts(every: int, dense: int, after: int, until: int) -> Iterator[int]:
    """The multiples of `every` in `after` + 1 … `until` that are points: the first `dense`, then
    every second one of the next `dense`, every fourth of the next 2 `dense`, and so on."""
    number = after // every + 1
    while number * every <= until:
        step = 1 << ((number - 1) // dense).bit_length()
        if number % step == 0:
            yield number * every
        number += step - number % step


class Tracer:
    """Computes the points of a trace. Its methods depend on nothing but the states given, so a
    training that is interrupted and resumed has the same points."""

    def __init__(self, trace: Trace, n_problems: int) -> None:
        self._trace = trace
        self._dense = max(1, DENSE_POINTS // n_problems)

    def points(
        self,
        before: BinaryTraining,
        after: BinaryTraining,
        validation: ValidationSet | None,
        elapsed_s: float,
    ) -> Iterator[Evaluation]:
        """The points of one step of a pair; the first step has one before its first update, too.

        The step ended `elapsed_s` seconds after the start of the training.
        """
        started = time.monotonic()
        for pair, state, epoch, updates in self._due(before, after):
            problem = pair.problem
            with np.errstate(over="ignore", invalid="ignore"):
                primal, error, _ = evaluate(problem, pair.solver.classifier(problem, state))
            if not math.isfinite(primal):  # the training will report it
                continue
            yield Evaluation.of(
                *(pair, primal, before.progress.dual),
                epoch=epoch,
                updates=updates,
                train_error=error,
                validation_error=None if validation is None else validation.error(pair, state),
                elapsed_s=elapsed_s + time.monotonic() - started,
            )

    def _due(
        self, before: BinaryTraining, after: BinaryTraining
    ) -> Iterator[tuple[BinaryTraining, Any, int, int]]:
        """(training, state of its solver, epoch, updates) of each point."""
        every, old, new = self._trace.every, before.state, after.state
        if before.progress.advances == 0 and after.progress.advances > 0:
            yield before, old, old.epoch, old.updates
        if self._trace.unit == "epoch":
            if any(counts(every, self._dense, old.epoch, new.epoch)):
                yield after, new, new.epoch, new.updates
            return
        for count in counts(every, self._dense, old.updates, new.updates):
            if count == new.updates:
                yield after, new, new.epoch, count
            else:
                yield after, _state_at(before, count), old.epoch, count

    def is_thinned(self, pairs: list[BinaryTraining]) -> bool:
        """Whether the points of any pair became less dense than was asked for."""
        limit = self._dense * self._trace.every
        if self._trace.unit == "epoch":
            return any(pair.state.epoch > limit for pair in pairs)
        return any(pair.state.updates > limit for pair in pairs)


def _state_at(before: BinaryTraining, count: int) -> Any:
    """The state after `count` updates, of which some are in the epoch that follows `before`."""
    part = replace(before.problem, max_updates=count, cost_change=None)
    return before.solver.advance(part, before.state)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What is remembered of a pair; part of a checkpoint."""

    epoch: int = 0
    """The last one that was looked at."""
    lowest: float = math.inf
    """Error of all epochs so far."""
    waited: int = 0
    """Epochs since then."""


@dataclass(frozen=True)
class Watched:
    """A pair whose validation error is watched, at one moment."""

    watch: Watch
    best: Any
    """The state of the solver at the lowest error."""

    @classmethod
    def restored(
        cls, pair: BinaryTraining, checkpoint: Mapping[str, Array], prefix: str
    ) -> Watched:
        """From the arrays of `to_arrays`. Raises CheckpointMismatch."""
        return cls(
            restore(Watch(), checkpoint, f"{prefix}watch."),
            restore(pair.state, checkpoint, f"{prefix}best."),
        )

    def to_arrays(self, prefix: str) -> Arrays:
        """For a checkpoint."""
        return flatten(self.watch, f"{prefix}watch.") | flatten(self.best, f"{prefix}best.")

    def after(self, pair: BinaryTraining, error: float | None) -> Watched:
        """With the validation error of the pair, which has finished another epoch."""
        epoch = pair.state.epoch
        if error is None or error < self.watch.lowest:
            lowest = math.inf if error is None else error
            return Watched(Watch(epoch=epoch, lowest=lowest), pair.state)
        return Watched(replace(self.watch, epoch=epoch, waited=self.watch.waited + 1), self.best)

    def end(self, pair: BinaryTraining, patience: int) -> BinaryTraining:
        """The pair, or its end at the lowest error if it has waited long enough."""
        if self.watch.waited < patience or pair.progress.stop_reason:
            return pair
        return pair.end_at(self.best, StopReason.PATIENCE)
