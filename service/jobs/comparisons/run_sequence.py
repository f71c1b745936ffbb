"""The trainings of a comparison, one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.jobs.comparisons.checkpoint import Model, Standing
from service.jobs.comparisons.curve import joined
from service.jobs.comparisons.order import Turn, turns_of
from service.jobs.comparisons.results import (
    Error,
    Found,
    objective_of,
    outcome_of,
    validation_metrics,
)
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.core.attempts import Attempt, Wish
from service.jobs.core.lifecycle import MAX_FRUITLESS_ATTEMPTS
from service.jobs.training.memory_plan import rows_stay_in_files
from service.jobs.training.rows import LabelledRows, Part
from service.jobs.training.schemas import JobCreate
from service.jobs.training.training_sequence import SHORTEST_S, threads_of
from service.settings import Settings
from service.storage.arrays import Arrays
from svm.errors import CheckpointMismatch, Diverged, Interrupted, InvalidData
from svm.model.metrics import classification_metrics
from svm.training import Training
from svm.training.preparation import Prepared
from svm.training.progress import Progress
from svm.training.results import TrainingResult

LONG_TRAININGS = 8
"""One of many trainings may take this part of the time that is left."""
OUT_OF_MEMORY: Error = {
    "code": "out-of-memory",
    "detail": "a worker's memory is too small for this entry",
    "hint": "give workers more memory, or train it with a solver that streams",
}
WORKER_LOST: Error = {
    "code": "worker-lost",
    "detail": f"{MAX_FRUITLESS_ATTEMPTS - 1} workers were lost while they trained this entry",
    "hint": "the events of the job tell what was seen of them",
}


class ComparisonCourse:
    """Goes through the trainings, and can be taken up at any point."""

    standing: Standing
    parts: list[Part]
    """Of the rows: the first makes the models, the others are those of folds."""

    def __init__(
        self,
        attempt: Attempt,
        body: ComparisonCreate,
        entries: Sequence[JobCreate],
        dataset: Dataset,
        datasets: DatasetStore,
        settings: Settings,
        standing: Standing,
        saved: Arrays,
    ) -> None:
        """`saved` is the checkpoint of the training that the standing is in the midst of."""
        assert body.seed is not None
        self.standing = standing
        self._attempt = attempt
        self._body = body
        self._entries = entries
        self._seed = body.seed
        self._longest_s = settings.limits.job_s
        self._threads = threads_of(settings)
        self._dataset = dataset
        self._datasets = datasets
        memory = settings.limits.worker_memory_bytes
        in_files = [
            found.error is None and rows_stay_in_files(entry, dataset, memory)
            for entry, found in zip(entries, standing.found, strict=True)
        ]
        self._in_files = in_files
        wanted = {in_files[k] for k, found in enumerate(standing.found) if not found.error}
        self._rows = {some: self._opened(some) for some in wanted or {True}}
        some = next(iter(self._rows.values()))
        self.parts = some.parts(body.validation, body.seed)
        self._turns = turns_of(entries, len(self.parts), in_files, body.warm_starts)
        self._prepared: tuple[Any, Prepared] | None = None
        self._training: Training | None = None
        self._saved = saved

    def run(self) -> bool:
        """To the end, or until canceled with the wish to keep what there is, which returns True.

        Raises Interrupted after the checkpoint was saved.
        """
        attempt = self._attempt
        attempt.may_end = True
        if attempt.job.fruitless_attempts >= MAX_FRUITLESS_ATTEMPTS - 1:
            self._give_up()
        try:
            while self.standing.position < len(self._turns):
                attempt.check()
                self._take(self._turns[self.standing.position])
                # Of an entry that costs the worker its life the others shall not be blamed.
                if attempt.checkpoint_is_due or attempt.job.fruitless_attempts:
                    self._save()
            return False
        except Interrupted:
            if attempt.wish is Wish.SAVE_AND_LEAVE:
                self._save()
            if attempt.wish is not Wish.KEEP_AND_END:
                raise
            return True
        finally:
            attempt.may_end = False

    def _opened(self, in_files: bool) -> LabelledRows:
        some = self._datasets.open if in_files else self._datasets.load
        return LabelledRows(some(self._dataset), self._dataset, self._attempt.check)

    def _give_up(self) -> None:
        """The entry at which the last workers were lost has had its chances."""
        if self.standing.position < len(self._turns):
            self.standing.fail(self._turns[self.standing.position].entry, WORKER_LOST)
            self._attempt.show(self._attempt.progress, [])
            self._save()

    def _save(self) -> None:
        self._attempt.save(self.standing.packed(self._training))

    def _take(self, turn: Turn) -> None:
        standing, spent_s = self.standing, 0.0
        if standing.found[turn.entry].error is None:
            try:
                result = self._trained(turn)
                self._measure(turn, result)
            except (InvalidData, Diverged, MemoryError) as error:
                standing.fail(turn.entry, _told(error))
                self._prepared = None
            spent_s = self._training.elapsed_s if self._training is not None else 0.0
        self._training = None
        standing.passed(spent_s)
        following = self._turns[standing.position : standing.position + 1]
        if not any(turn.begins_at is not None for turn in following):
            standing.latest = None  # no longer needed, and it may be large

    def _trained(self, turn: Turn) -> TrainingResult:
        standing = self.standing
        training = self._training = self._begun(turn)
        began = time.process_time() - standing.cpu_s
        for progress in training:
            standing.cpu_s = time.process_time() - began
            self._draw(turn, training)
            self._show(turn, progress, training)
            if self._attempt.checkpoint_is_due:
                self._save()
        self._draw(turn, training)  # pairs in other threads may have gone on since the last item
        return training.result()

    def _draw(self, turn: Turn, training: Training) -> None:
        costs = training.mean_costs
        if turn.part == 0 and costs is not None:
            joined(self.standing.curve, training.elapsed_s, *costs)

    def _begun(self, turn: Turn) -> Training:
        """The training of this turn, at its checkpoint if there is one."""
        pipeline, start = self._entries[turn.entry].pipeline(), self._start(turn)
        stopping = replace(pipeline.stopping, time_budget_s=self._budget_s(turn))
        options: dict[str, Any] = {
            "seed": self._seed,
            "warm_start": None if start is None else start.learnt,
            "interrupted": self._attempt.check,
            "digest": self.parts[turn.part].digest,
            "threads": self._threads,
        }
        if self._prepared is not None and self._prepared[0] == turn.data:
            X, labels = None, None
            options["prepared"] = self._prepared[1]
        else:
            self._prepared = None  # before the next one takes room
            X, labels = self._rows[self._in_files[turn.entry]].of(self.parts[turn.part].kept)
        arguments = replace(pipeline, stopping=stopping), X, labels
        saved, self._saved = self._saved, {}
        try:
            training = Training(*arguments, checkpoint=saved or None, **options)
        except CheckpointMismatch:  # costs one training's time and changes nothing else
            self.standing.cpu_s, self.standing.curve = 0.0, []
            training = Training(*arguments, **options)
        self._prepared = turn.data, training.prepared
        return training

    def _start(self, turn: Turn) -> Model | None:
        return self.standing.latest if turn.begins_at is not None else None

    def _budget_s(self, turn: Turn) -> float:
        """Its share of the entry's own budget, and at most an eighth of what is left of the longest
        run: an equal share for each of many would stop the few that take long."""
        own = self._entries[turn.entry].stopping.time_budget_s or math.inf
        left = self._longest_s - self.standing.spent_s
        share = left / min(len(self._turns) - self.standing.position, LONG_TRAININGS)
        return max(min(own / len(self.parts), share), SHORTEST_S)

    def _measure(self, turn: Turn, result: TrainingResult) -> None:
        """All that a finished training says of its entry. Nothing is changed before all is known:
        it may be interrupted."""
        assert self._training is not None
        standing, part = self.standing, self.parts[turn.part]
        rows = self._rows[self._in_files[turn.entry]]
        found, start = standing.found[turn.entry], self._start(turn)
        found = replace(
            found,
            elapsed_s=found.elapsed_s + self._training.elapsed_s,
            cpu_s=found.cpu_s + standing.cpu_s,
        )
        if part.held_back is not None:
            confusion = rows.confusion(result.fitted, part.held_back)
            before = 0 if found.confusion is None else np.array(found.confusion)
            found = replace(found, confusion=(before + confusion).tolist())
            if turn.part > 0:
                fold = {
                    "accuracy": classification_metrics(confusion)["accuracy"],
                    "stop_reason": result.stop_reason,
                    "epochs": result.epochs,
                    "relative_gap": result.certificate.worst.relative_gap,
                }
                found = replace(found, folds=[*found.folds, fold])
        train: dict[str, Any] = {}
        if turn.part == 0:
            train = classification_metrics(rows.confusion(result.fitted, part.kept))
            entry = self._entries[turn.entry]
            found = replace(
                found,
                outcome=outcome_of(result, train),
                curve=standing.curve,
                objective=objective_of(entry, result),
                regularization=float(result.warm_start.regularization[0]),
                warm_start_from=None if start is None else start.entry,
            )
            self._keep_if_best(turn.entry, found, result, train)
        standing.found[turn.entry] = found
        standing.latest = Model(turn.entry, result.warm_start, {})

    def _keep_if_best(
        self, entry: int, found: Found, result: TrainingResult, train: dict[str, Any]
    ) -> None:
        standing, rank_by = self.standing, self._body.rank_by
        if self._body.model_name is None:
            return
        best = standing.best
        if best is None or (*found.place(rank_by), entry) < (
            *standing.found[best.entry].place(rank_by),
            best.entry,
        ):
            said = {
                "metrics": {"train": train, "validation": validation_metrics(found)},
                "certificate": result.certificate.as_dict(result.fitted.classes),
                "stop_reason": result.stop_reason,
                "converged": result.converged,
                "epochs": result.epochs,
                "updates": result.updates,
            }
            spec = self._entries[entry].model_copy(update={"set_alias": self._body.set_alias})
            taken = spec.taken(result.warm_start.pipeline.solver)
            standing.best = Model(entry, result.warm_start, {"spec": taken, "result": said})

    def _show(self, turn: Turn, progress: Progress, training: Training) -> None:
        standing = self.standing
        fraction = (standing.position + progress.fraction) / len(self._turns)
        elapsed_s = standing.spent_s + training.elapsed_s
        shown = {
            "fraction": fraction,
            "entry": turn.entry + 1,
            "fold": turn.part or None,
            "epoch": progress.epoch,
            "updates": progress.updates,
            "primal": progress.primal,
            "dual": progress.dual,
            "relative_gap": progress.relative_gap,
            "eta_s": elapsed_s * (1 - fraction) / fraction if fraction > 0 else None,
        }
        self._attempt.show(shown, [])


def _told(error: InvalidData | Diverged | MemoryError) -> Error:
    match error:
        case InvalidData():
            return {"code": error.code, "detail": error.message, "hint": None}
        case Diverged():
            return {"code": "diverged", "detail": error.message, "hint": error.suggestion}
        case _:
            return OUT_OF_MEMORY
