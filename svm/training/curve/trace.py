"""The cost of a training at every epoch or update, as its caller asked."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from svm.errors import InvalidHyperparameter
from svm.hyperparameters import Checked, PositiveInt
from svm.problem.objectives import error_of, evaluate
from svm.solvers import AnyChoice
from svm.training.binary_training import BinaryTraining
from svm.training.curve.progress import Evaluation
from svm.training.curve.validation import ValidationSet

DENSE_POINTS = 2000
"""Points of all binary problems together that are as dense as was asked for."""

THINNED = (
    f"the trace is less dense than was asked for after its first {DENSE_POINTS:,} points: the "
    "distance doubles each time the count of epochs or updates doubles"
)


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
                primal, scores = evaluate(problem, pair.solver.classifier(problem, state))
            if not math.isfinite(primal):  # the training will report it
                continue
            yield Evaluation(
                pair=problem.pair,
                epoch=epoch,
                updates=updates,
                primal=primal,
                dual=before.progress.dual,
                gap=primal - before.progress.dual,
                train_error=error_of(problem, scores),
                validation_error=None if validation is None else validation.error(pair, state),
                solver_objective=pair.solver.stated(problem, primal),
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

    def thinned(self, pairs: list[BinaryTraining]) -> bool:
        """Whether the points of any pair became less dense than was asked for."""
        limit = self._dense * self._trace.every
        if self._trace.unit == "epoch":
            return any(pair.state.epoch > limit for pair in pairs)
        return any(pair.state.updates > limit for pair in pairs)


def _state_at(before: BinaryTraining, count: int) -> Any:
    """The state after `count` updates, of which some are in the epoch that follows `before`."""
    part = replace(before.problem, max_updates=count, cost_change=None)
    return before.solver.advance(part, before.state)
