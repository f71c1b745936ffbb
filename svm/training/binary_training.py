"""One binary training as a step function: solver, evaluation, certifier, stopping."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from svm.data.matrices import Array, Mask, Vector
from svm.errors import Diverged
from svm.problem.certificate import relative_gap
from svm.problem.objectives import evaluate, inside, scores_of
from svm.problem.problem import LinearClassifier, Problem
from svm.solvers import certifier_of
from svm.solvers.auto import is_to_be_replaced
from svm.solvers.protocol import HasScores, Inheritance, Solver, UpdatesSums
from svm.solvers.smoothing.smoothed_hinge import row_work
from svm.solvers.working_sets import SMOState
from svm.stopping import DEFAULT_DUALITY_GAP, Stopping, StopReason, smoothed_change
from svm.training.checkpoints import Arrays, flatten, restore

CERTIFIED_GAP = 5e-4
"""A gap at which no better bound is needed."""
ROUGH_BOUND = 0.01
"""The bound is at least this close to the optimum, however bad the model is."""
CERTIFIER_STEPS = 200
"""Most steps of the certifier for one pair."""
CERTIFIER_SHARE = 0.3
"""Most work of the certifier, relative to that of the training so far …"""
CERTIFIER_WORK = float(1 << 25)
"""… and this much, some 10 ms, more …"""
LAST_CERTIFIER_WORK = float(1 << 27)
"""… or at the end this, some 40 ms: a short training of a small problem has a good bound, too."""
CERTIFIER_STEPS_AT_ONCE = 8
"""Most of them in one step of the training: a checkpoint can be taken between them."""

SMALLEST_GROWTH = 1.03
"""Of the count of updates between two evaluations, when the end seems near."""


@dataclass(frozen=True, kw_only=True)
class PairProgress:
    """The progress of one binary training; part of a checkpoint, like the solver's state."""

    advances: int = 0
    next_evaluation: int = 1
    """Count of updates at the next one: 0 until a warm start has been evaluated."""
    evaluated_at: int = 0
    """Count of advances at the latest evaluation."""
    evaluated_updates: int = 0
    """Count of updates at the latest evaluation."""
    primal: float = math.inf
    """At the latest evaluation."""
    best_primal: float = math.inf
    """The lowest of all evaluations."""
    train_error: float = 1.0
    """Share of training rows on the wrong side, at the latest evaluation."""
    dual: float = 0.0
    """The best lower bound so far. It is a bound of the problem, whichever solver computed it."""
    certifier_steps: int = 0
    """Advances of the certifier."""
    cost: float = math.inf
    """Primal at the last epoch, for the cost-change rule."""
    change: float = 0.0
    """Smoothed cost change in percent."""
    stop_reason: StopReason | Literal[""] = ""
    switched: bool = False
    """The successor has taken over: the state is one of its states."""
    finished: bool = False
    """The solver has stopped, and so has the certifier."""

    @property
    def begun(self) -> bool:
        """Whether there was a step."""
        return self.advances > 0 or not math.isinf(self.primal)

    @property
    def relative_gap(self) -> float:
        if math.isinf(self.primal):
            return 1.0
        return relative_gap(self.primal, self.dual)

    @property
    def best_gap(self) -> float:
        """The gap of the best primal value: it falls, even if that of the latest model rises at
        times."""
        return 1.0 if math.isinf(self.best_primal) else relative_gap(self.best_primal, self.dual)


@dataclass(frozen=True)
class BinaryTraining:
    """The training of one pair at one moment. `step` returns the next one and changes nothing.

    The certifier is a solver of the same problem (`certifier_of`). It starts only if the solver's
    own dual point leaves a gap, and continues while a better bound would close the gap.
    """

    solver: Solver
    problem: Problem
    stopping: Stopping
    state: Any
    certifier: Any
    """The state of `certifier_of(problem)`; of a solver that needs none its own."""
    progress: PairProgress = PairProgress()
    inside: Mask | None = None
    """(n_samples,) rows on or inside the margin after the solver has stopped, unless it knows its
    cost and error without the scores; not in checkpoints."""
    successor: Solver | None = None
    """Takes over from a solver that is slow or stalls; None if the solver was asked for."""

    @classmethod
    def begin(
        cls,
        solver: Solver,
        problem: Problem,
        stopping: Stopping,
        inherited: Inheritance | None = None,
        successor: Solver | None = None,
    ) -> BinaryTraining:
        state, certifier = solver.start(problem, inherited), certifier_of(problem)
        if inherited is None:
            start = certifier.start(problem) if solver.needs_certifier else state
            return cls(solver, problem, stopping, state, start, successor=successor)
        start = certifier.start(problem, None if solver.certifies else inherited)
        _, bound = certifier.enclosure(problem, start)
        progress = PairProgress(next_evaluation=0, dual=bound)
        return cls(solver, problem, stopping, state, start, progress)

    def step(self, out_of_time: bool) -> BinaryTraining:
        """One advance of the solver; after it has stopped, some steps of the certifier."""
        # A model that leaves float64 is reported as a divergence; a bound that does is not used.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.progress.stop_reason:
                training = self._certify(out_of_time)
            elif self.progress.next_evaluation == 0:
                training = self._evaluate_first(out_of_time)
            else:
                training = self._advance(out_of_time)
        if not training.progress.finished:
            return training
        return replace(training, state=training.state.at_end())

    def _advance(self, out_of_time: bool) -> BinaryTraining:
        state = self.solver.advance(self.problem, self.state)
        self._require_finite(state)
        now = replace(self.progress, advances=self.progress.advances + 1)
        epochs, updates = self.stopping.max_epochs, self.stopping.max_updates
        at_limit = epochs is not None and state.epoch >= epochs
        at_limit = at_limit or (updates is not None and state.updates >= updates)
        each_epoch = self._tests_each_epoch
        due = state.updates >= now.next_evaluation
        training = replace(self, state=state, progress=now)
        if not (due or each_epoch or at_limit or state.stopped or out_of_time):
            return training
        return training._evaluate(at_limit, out_of_time)

    def stop(self, reason: StopReason) -> BinaryTraining:
        """This training, ended here: evaluated, but not certified any further."""
        training = self._evaluate(False, True)
        now = replace(training.progress, stop_reason=reason, finished=True)
        return replace(training, progress=now)

    def end_at(self, state: Any, reason: StopReason) -> BinaryTraining:
        """This training, ended at an earlier state of the solver: evaluated, and certified as at
        any end."""
        training = replace(self, state=state)._evaluate(True, False)
        now = training.progress
        proven = now.stop_reason is StopReason.GAP_REACHED
        return replace(
            training, progress=replace(now, stop_reason=now.stop_reason if proven else reason)
        )

    def _evaluate_first(self, out_of_time: bool) -> BinaryTraining:
        """A warm start, evaluated before the first update.

        The bound is improved first: only a good bound shows whether the model is good.
        """
        training = self._evaluate(False, out_of_time)
        if training.progress.stop_reason or training.certifier is self.certifier:
            return training
        return replace(training, progress=replace(training.progress, next_evaluation=0))

    def scores(self) -> Vector:
        """The scores of all rows by the classifier so far."""
        known = self._known_scores()
        if known is not None:
            return known
        return scores_of(self.problem, self.solver.classifier(self.problem, self.state))

    def evaluate(self) -> tuple[float, float, Vector]:
        """(Primal value, error, scores of all rows) of the classifier so far."""
        classifier = self.solver.classifier(self.problem, self.state)
        return evaluate(self.problem, classifier, self._known_scores())

    def _known_scores(self) -> Vector | None:
        solver = self.solver
        return solver.scores(self.problem, self.state) if isinstance(solver, HasScores) else None

    def _evaluate(
        self, at_limit: bool, out_of_time: bool, *, renewed: bool = False
    ) -> BinaryTraining:
        now, stopping = self.progress, self.stopping
        scores = None
        if isinstance(self.solver, UpdatesSums):
            value, error = self.solver.evaluation(self.problem, self.state)
        else:
            with np.errstate(over="ignore"):  # reported as a divergence
                value, error, scores = self.evaluate()
        if not math.isfinite(value):
            raise Diverged(
                "the objective is no longer a finite number", self.solver.advice(self.problem)
            )
        bound = max(now.dual, self.solver.bound(self.problem, self.state))
        before, now = (
            now,
            replace(
                now,
                evaluated_at=now.advances,
                evaluated_updates=self.state.updates,
                primal=value,
                best_primal=min(value, now.best_primal),
                train_error=error,
                dual=bound,
            ),
        )
        training = replace(self, progress=now)
        target = stopping.duality_gap
        if not self.solver.certifies and not out_of_time:
            training = training._tighten(CERTIFIED_GAP if target is None else target)
            now = training.progress
        now = replace(now, next_evaluation=self._next_evaluation(before, now))
        reason: StopReason | Literal[""] = ""
        rule = stopping.cost_change
        if rule is not None and self._tests_each_epoch:
            if not math.isinf(now.cost):
                change = smoothed_change(now.cost, value, now.change, rule.smoothing or 0.0)
                now = replace(now, change=change)
                reason = StopReason.CONVERGED if change < rule.epsilon else ""
            now = replace(now, cost=value)
        if target is not None and now.relative_gap <= target:
            reason = StopReason.GAP_REACHED
        elif self.state.stopped and not self._may_switch:
            reason = self._reason_of_stop(now)
        elif not reason and at_limit:
            updates = stopping.max_updates
            used_up = updates is not None and self.state.updates >= updates
            reason = StopReason.MAX_UPDATES if used_up else StopReason.MAX_EPOCHS
        elif not reason and out_of_time:
            reason = StopReason.TIME_BUDGET
        # A gap that was reached needs no better bound.
        finished = bool(reason) and (
            reason is StopReason.GAP_REACHED or not self.solver.needs_certifier
        )
        if reason and not renewed and isinstance(self.solver, UpdatesSums):
            return self._renew()._evaluate(at_limit, out_of_time, renewed=True)
        training = replace(training, progress=replace(now, stop_reason=reason, finished=finished))
        if reason and scores is not None and self.problem.cluster is None:
            return replace(training, inside=inside(self.problem, scores))
        return training.switch() if not reason and training._is_slow(before) else training

    def _renew(self) -> BinaryTraining:
        """This training without the rounding of updated sums: primal value and bound at the end
        are sums over all rows."""
        assert isinstance(self.solver, UpdatesSums)
        own = self.solver.bound(self.problem, self.state)
        others = self.progress.dual if self.progress.dual > own else 0.0
        state = self.solver.renew(self.problem, self.state)
        return replace(self, state=state, progress=replace(self.progress, dual=others))

    def _is_slow(self, before: PairProgress) -> bool:
        """Whether the successor would reach the gap sooner, judged by the fall of the best gap
        since the evaluation `before`."""
        target = self.stopping.duality_gap
        if not self._may_switch or target is None:
            return False
        left = self._updates_left(before, self.progress, target)
        return is_to_be_replaced(self.solver, self.problem, self.state, left)

    @property
    def _may_switch(self) -> bool:
        asked = self.stopping.duality_gap is not None
        return asked and self.successor is not None and not self.progress.switched

    def to_arrays(self, prefix: str) -> Arrays:
        """For a checkpoint. Without the start of the certifier: its weights take as much as those
        of the solver."""
        arrays = flatten(self.state, f"{prefix}state.")
        if self.progress.certifier_steps:
            arrays |= flatten(self.certifier, f"{prefix}certifier.")
        return arrays | flatten(self.progress, f"{prefix}progress.")

    def restored(self, checkpoint: Mapping[str, Array], prefix: str) -> BinaryTraining:
        """This training at an earlier or later time. Raises CheckpointMismatch."""
        progress = restore(self.progress, checkpoint, f"{prefix}progress.")
        pair = self.switch() if progress.switched and not self.progress.switched else self
        certifier = pair.certifier
        if progress.certifier_steps:
            certifier = restore(certifier, checkpoint, f"{prefix}certifier.")
        state = restore(pair.state, checkpoint, f"{prefix}state.")
        return replace(pair, state=state, certifier=certifier, progress=progress)

    def switch(self) -> BinaryTraining:
        """This training, continued by the successor from the weights so far; from zero if
        `smo` got nowhere, as its weights are useless then."""
        assert self.successor is not None
        model, inherited = self.solver.classifier(self.problem, self.state), None
        if isinstance(model, LinearClassifier) and not isinstance(self.state, SMOState):
            inherited = Inheritance(
                w=model.coefficients,
                intercept=model.intercept,
                regularization=self.problem.regularization,
            )
        state = replace(
            self.successor.start(self.problem, inherited),
            epoch=self.state.epoch,
            updates=self.state.updates,
        )
        now = replace(self.progress, switched=True, next_evaluation=state.updates + 1)
        return replace(self, solver=self.successor, state=state, progress=now)

    def _next_evaluation(self, before: PairProgress, now: PairProgress) -> int:
        """The count of updates at which to evaluate again.

        By then the count has grown by the solver's factor; by less if the best gap, falling as it
        did since the evaluation `before`, would be small enough sooner.
        """
        updates, target = now.evaluated_updates, self.stopping.duality_gap
        due = updates * self.solver.evaluation_growth
        if target is not None:
            expected = updates + self._updates_left(before, now, target)
            due = min(due, max(expected, updates * SMALLEST_GROWTH))
        return max(updates + 1, math.ceil(due))

    @staticmethod
    def _updates_left(before: PairProgress, now: PairProgress, target: float) -> float:
        """Until the best gap is the target, if its logarithm falls as it did since `before`."""
        if not 0.0 < now.best_gap < before.best_gap:
            return math.inf
        fallen = math.log(before.best_gap / now.best_gap)
        left = max(0.0, math.log(now.best_gap / target) / fallen)
        return left * (now.evaluated_updates - before.evaluated_updates)

    @property
    def _tests_each_epoch(self) -> bool:
        return self.stopping.cost_change is not None and not self.solver.tests_every_update

    def _reason_of_stop(self, now: PairProgress) -> StopReason:
        """Why a solver stopped by itself: it has converged only if that was asked for or proven."""
        stopping = self.stopping
        asked = stopping.cost_change is not None and self.solver.tests_every_update
        proven = stopping.duality_gap is None and now.relative_gap <= DEFAULT_DUALITY_GAP
        return StopReason.CONVERGED if asked or proven else StopReason.STALLED

    def _certify(self, out_of_time: bool) -> BinaryTraining:
        """Some steps toward the final certificate; `finished` when it is good enough."""
        target = self.stopping.duality_gap
        training = self if out_of_time else self._tighten(min(CERTIFIED_GAP, target or 1.0))
        now = training.progress
        done = training.certifier is self.certifier
        reason = now.stop_reason
        if target is not None and now.relative_gap <= target:
            reason = StopReason.GAP_REACHED
        elif reason == StopReason.STALLED:
            reason = self._reason_of_stop(now)
        return replace(training, progress=replace(now, finished=done, stop_reason=reason))

    def _tighten(self, target: float) -> BinaryTraining:
        """Some steps of the certifier, while a better bound would close the gap."""
        certifier, state, now = certifier_of(self.problem), self.certifier, self.progress
        known = now.dual
        for _ in range(CERTIFIER_STEPS_AT_ONCE):
            primal, bound = certifier.enclosure(self.problem, state)
            now = replace(now, dual=max(known, bound))
            gap, own_gap = now.primal - now.dual, primal - now.dual
            good = own_gap <= ROUGH_BOUND * primal and (
                own_gap <= 0.1 * gap or own_gap <= CERTIFIED_GAP * primal
            )
            exhausted = (
                now.certifier_steps >= CERTIFIER_STEPS
                or state.stopped
                or not self._affords(state, primal)
            )
            if gap <= target * now.primal or good or exhausted:
                break
            state = certifier.advance(self.problem.unlimited, state)
            now = replace(now, certifier_steps=now.certifier_steps + 1)
        if state is not self.certifier:
            if isinstance(certifier, UpdatesSums):
                state = certifier.renew(self.problem, state)
            _, bound = certifier.enclosure(self.problem, state)
            now = replace(now, dual=max(known, bound))
        return replace(self, certifier=state, progress=now)

    def _affords(self, certifier: Any, lowest: float) -> bool:
        """Whether another step of the certifier, whose best model has the primal value `lowest`,
        is worth its work.

        At the end of a training it is if the gap that was asked for may be proven.
        """
        now, target, problem = self.progress, self.stopping.duality_gap, self.problem
        if now.stop_reason and target is not None and relative_gap(now.primal, lowest) <= target:
            return True
        own = 2.0 * row_work(problem) * self.solver.visits(problem, self.state)
        most = CERTIFIER_SHARE * own
        most += LAST_CERTIFIER_WORK if now.stop_reason else CERTIFIER_WORK
        return certifier_of(problem).work_after(problem, certifier) <= most

    def _require_finite(self, state: Any) -> None:
        classifier = self.solver.classifier(self.problem, state)
        if not (np.isfinite(classifier.intercept) and np.isfinite(classifier.coefficients).all()):
            raise Diverged(
                "a weight is no longer a finite number", self.solver.advice(self.problem)
            )
