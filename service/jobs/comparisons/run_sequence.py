"""A comparison on one worker, which lends others the chains that it has not begun."""

from __future__ import annotations

from collections.abc import Sequence

from service.datasets.dataset import Dataset
from service.jobs.comparisons.chain_run import ChainRun
from service.jobs.comparisons.checkpoint import ComparisonState
from service.jobs.comparisons.order import Step
from service.jobs.comparisons.results import Error
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt, Command
from service.jobs.core.lifecycle import MAX_ATTEMPTS_WITHOUT_PROGRESS
from service.jobs.parts.lending import Lending
from service.jobs.training.forecast import Forecast
from service.jobs.training.schemas import JobCreate
from service.jobs.training.summary import progress_of
from service.storage.arrays import Arrays
from svm.errors import CheckpointMismatch, Interrupted
from svm.training.curve import Progress
from svm.training.training import Training

ATTEMPTS_FOR_AN_ENTRY = MAX_ATTEMPTS_WITHOUT_PROGRESS - 1
WORKER_LOST: Error = {
    "code": "worker-lost",
    "detail": f"{ATTEMPTS_FOR_AN_ENTRY} workers were lost while they trained this entry",
    "hint": "the events of the job say what is known about them",
}


class ComparisonSequence:
    """Runs the trainings, and can be resumed at any point."""

    def __init__(
        self,
        context: RunContext,
        attempt: Attempt,
        body: ComparisonCreate,
        entries: Sequence[JobCreate],
        dataset: Dataset,
        refused: Sequence[bool],
        state: ComparisonState,
        saved: Arrays,
    ) -> None:
        """`saved` is the checkpoint of the unfinished training."""
        self.state = state
        self._attempt = attempt
        self._body = body
        self._entries = entries
        self._limit_s = context.settings.limits.job_s
        self._work = ChainRun(context, attempt, body, entries, dataset, refused, self._show, saved)
        self.splits = self._work.splits
        self.trained_rows = self._work.trained_rows
        self._chains = self._work.chains
        self._lending = Lending(context.offers, attempt)
        self._trainings = sum(len(chain.steps) for chain in self._chains)
        self._forecast: tuple[Training, Forecast] | None = None
        if not state.done and state.chain is None:
            state.left = self._trainings

    def run(self) -> bool:
        """Returns False at the end, True if canceled with a request to keep the results so far.

        Raises Interrupted after the checkpoint was saved.
        """
        attempt = self._attempt
        attempt.may_end = True
        if attempt.job.attempts_without_progress >= ATTEMPTS_FOR_AN_ENTRY:
            self._give_up()
        try:
            while len(self.state.done) < len(self._chains):
                attempt.check()
                self._proceed()
            return False
        except Interrupted:
            if attempt.command is Command.SAVE_AND_RELEASE:
                self._save()
            if attempt.command is not Command.KEEP_AND_END:
                raise
            return True
        finally:
            attempt.may_end = False

    def _proceed(self) -> None:
        """Do one training, or a part of the work between two."""
        state = self.state
        if state.chain is None:
            self._absorb()
            self._choose()
        elif (step := self._work.step(state)) is not None:
            self._work.take(state, step)
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
                    self.state.absorb(part, self._chains[number], self._body.rank_by)
                    self.state.done.append(number)

    def _choose(self) -> None:
        """Begin the next chain that is not lent, or claim one that no one does, or wait."""
        state, lending = self.state, self._lending
        ready = self._ready()
        for number in ready:
            if number not in lending:
                return self._work.begin(state, number, {})
        if (claimed := lending.claim(ready)) is not None:
            return self._work.begin(state, *claimed)
        if len(state.done) < len(self._chains):
            lending.wait()
            self._attempt.show({**self._attempt.progress, **self._overall(0.0)}, [])

    def _ready(self) -> list[int]:
        """The chains that can begin, in order."""
        done = set(self.state.done)
        return [
            number
            for number, chain in enumerate(self._chains)
            if number not in done and done.issuperset(chain.needs)
        ]

    def _lend(self) -> None:
        state, lending = self.state, self._lending
        lending.look()
        if lending.is_due:
            own = {state.chain, *state.done}
            new = [n for n in self._ready() if n not in own and n not in lending]
            if new:
                lending.offer({number: state.part(number).packed(None) for number in new})

    def _give_up(self) -> None:
        """Fail the entry at which the last workers were lost."""
        if self.state.chain is None:
            self._absorb()
            self._choose()
        step = None if self.state.chain is None else self._work.step(self.state)
        if step is not None:
            self.state.fail(step.entry, WORKER_LOST)
            self._attempt.show(self._attempt.progress, [])
            self._save()

    def _save(self) -> None:
        self._attempt.save(self._work.packed(self.state))

    def _show(self, step: Step, progress: Progress, training: Training) -> None:
        shown = {
            **self._overall(progress.fraction),
            "entry": step.entry + 1,
            "fold": step.split or None,
            **progress_of(progress),
            "eta_s": self._left_s(progress, training),
        }
        self._attempt.show(shown, [])
        if self._attempt.checkpoint_is_due:
            self._save()
        self._lend()

    def _overall(self, current: float) -> dict[str, float | int]:
        """How much of all trainings is done, and how many parts other workers have or can take."""
        lent = self._lending.fractions
        of_others = sum(len(self._chains[n].steps) * done for n, done in lent.items())
        done = self._trainings - self.state.left + of_others + current
        return {"fraction": min(1.0, done / self._trainings), "parts": len(lent)}

    def _left_s(self, progress: Progress, training: Training) -> float | None:
        """If each of the rest takes the mean time; at most the rest of the budget."""
        if self._forecast is None or self._forecast[0] is not training:
            self._forecast = training, Forecast(training.pipeline.stopping)
        own = training.elapsed_s
        left = self._forecast[1].after(progress, own)
        if left is None:
            return None
        spent_s, done = self.state.spent_s + own, self._trainings - self.state.left + 1
        left += (self.state.left - 1) * (spent_s + left) / done
        return max(0.0, min(left, self._limit_s - spent_s))
