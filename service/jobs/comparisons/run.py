"""The kind of job that trains several models on one dataset, and ranks them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from service.jobs.comparisons.chain_run import ChainRun
from service.jobs.comparisons.entries import ChainStep
from service.jobs.comparisons.results import SCORES, ComparisonState, EntryResult, Error, report
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.job import MAX_ATTEMPTS_WITHOUT_PROGRESS, State
from service.jobs.core.leases import Outcome
from service.jobs.parts.leases import PartWork
from service.jobs.parts.lending import Lending
from service.jobs.training import summary
from service.jobs.training.rows import rare_classes
from service.storage.database import new_id
from service.storage.disk import file_errors_reported
from svm.errors import CheckpointMismatch
from svm.model.metrics import explain_unpredicted
from svm.training.curve import Progress
from svm.training.training import Training


def run(context: RunContext, attempt: Attempt) -> None:
    """Train all entries, and end the job.

    Raises what the stores raise, Interrupted after the checkpoint was saved, and LeaseLost.
    """
    attempt.check()
    with file_errors_reported():  # rows that stay in files are written again
        sequence = ComparisonSequence(context, attempt)
        canceled = sequence.run()
    work, state, warnings = sequence.work, sequence.state, sequence.work.warnings
    body, entries, dataset = work.body, work.entries, work.dataset
    results = report(entries, state.results, body.rank_by)
    best = results["entries"][0] if results["entries"][0]["rank"] else None
    seen = None
    if best is not None and (confusion := state.results[best["number"] - 1].confusion) is not None:
        seen = work.trained_rows()
        total = int(confusion.counts.sum())
        warnings = (*warnings, *summary.warn_of_trained_rows(seen, total, "validation rows"))
    attempt.show(summary.final_progress(attempt, canceled, best))
    final = State.CANCELED if canceled else State.SUCCEEDED if best else State.FAILED
    outcome = Outcome(
        state=final,
        stop_reason="canceled" if canceled else "finished" if best else "error",
        result=None if best is None else _headline(best) | {"trained_rows": seen},
        warnings=(*rare_classes(body.validation, dataset.only(body.classes)), *warnings),
        error=_all_failed(state.results) if final is State.FAILED else None,
        results=context.blobs.write(f"comparisons/{new_id('results')}", orjson.dumps(results)),
    )
    if state.best is None:
        return attempt.finish(outcome)
    metrics = state.best.record["result"]["metrics"]
    metrics["validation"]["trained_rows"] = seen
    spec = state.best.record["spec"]
    classes = state.best.warm_start.fitted.classes.tolist()
    said = explain_unpredicted(metrics, classes, spec["class_weight"])
    outcome = replace(outcome, warnings=(*outcome.warnings, *said))
    summary.finish_with_model(
        context,
        attempt,
        outcome,
        state.best.warm_start.fitted,
        state.best.warm_start,
        dataset=dataset,
        rows=work.splits[0].training,
        spec=spec,
        result=state.best.record["result"],
        n_support_vectors=best and best["n_support_vectors"],
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


def _headline(best: dict[str, Any]) -> dict[str, Any]:
    """The fields of lists."""
    scores = {name: best["validation"][name] for name in SCORES}
    return {
        "best": best["number"],
        "score": best["score"],
        "metrics": {"train": best["train"], "validation": scores},
        "epochs": best["epochs"],
        "updates": best["updates"],
    }


def _all_failed(results: Sequence[EntryResult]) -> Error:
    first = next(each.error for each in results if each.error is not None)
    detail = f"none of the {len(results)} entries could be trained; the first: {first['detail']}"
    return {**first, "detail": detail}


ATTEMPTS_FOR_AN_ENTRY = MAX_ATTEMPTS_WITHOUT_PROGRESS - 1
WORKER_LOST: Error = {
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
        self._rank_by = self.work.body.rank_by
        self._lending = Lending(context.offers, attempt)
        self._trainings = sum(len(chain.steps) for chain in self._chains)
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
        for number, result in self._lending.results():
            if number not in self.state.done:
                try:
                    part, _ = ComparisonState.unpacked(result, self._entries)
                except CheckpointMismatch:  # of another release
                    self._lending.reclaim(number)
                else:
                    self.state.absorb(part, self._chains[number], self._rank_by)
                    self.state.done.append(number)

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
            lambda n: self.state.part(n).packed(None),
        )

    def _overall(self, current: float) -> dict[str, float | int]:
        """How much of all trainings is done, and how many parts other workers have or can take."""
        lent = self._lending.fractions
        of_others = sum(len(self._chains[n].steps) * done for n, done in lent.items())
        done = self._trainings - self.state.left + of_others + current
        return {"fraction": min(1.0, done / self._trainings), "parts": len(lent)}
