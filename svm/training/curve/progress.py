"""Progress reports of a training while it runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from svm.stopping import Stopping
from svm.training.binary_training import BinaryTraining

SLICE_S = 0.02
"""Shortest time for which one pair is advanced, unless it is evaluated before."""


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


def evaluation_of(
    k: int, pair: BinaryTraining, validation_error: float | None, elapsed_s: float
) -> Evaluation:
    """The latest evaluation of pair k."""
    now = pair.progress
    return Evaluation(
        pair=k,
        epoch=pair.state.epoch,
        updates=pair.state.updates,
        primal=now.primal,
        dual=now.dual,
        gap=now.primal - now.dual,
        train_error=now.train_error,
        validation_error=validation_error,
        solver_objective=pair.solver.stated(pair.problem, now.primal),
        elapsed_s=elapsed_s,
    )
