"""The protocol of parts as rules: what each process can do next.

A planted fault is a subclass that overrides one method.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from tests.service.protocol.parts.invariants import can_be_taken
from tests.service.protocol.parts.states import (
    FINAL,
    LEASE_TICKS,
    MAX_FAILURES,
    Believes,
    Helper,
    Job,
    JobState,
    Phase,
    Row,
    RowState,
    State,
    Worker,
)

FAULTS = frozenset(
    {"cancel", "pause", "kill", "expire", "reply lost", "no commit", "fail", "damage"}
)
"""Without any more of them, and without another attempt, a job can end from every state."""


class WorkerThen(Protocol):
    """The state with another worker in this place."""

    def __call__(self, after: Worker, base: State = ...) -> State: ...


class HelperThen(Protocol):
    """The same with a helper, and with another row of its part."""

    def __call__(self, after: Helper, row: Row | None = None) -> State: ...


class Step(NamedTuple):
    label: str
    after: State
    actor: Worker | Helper | None = None
    part: int = 0


class Rules:
    """The protocol as it must be; `units` is the progress of a finished part."""

    def __init__(self, units: int = 1, *, damages: bool = True) -> None:
        self.units = units
        self._damages = damages
        """A file can be damaged."""

    # What planted faults override

    def owns_job(self, state: State, worker: Worker) -> bool:
        """The fence of offers and claims."""
        return state.job.state == JobState.RUNNING and bool(worker.current)

    def owns(self, row: Row, helper: Helper) -> bool:
        """The fence of every write of a helper."""
        return row.state != RowState.ABSENT and bool(helper.current)

    def can_take(self, row: Row) -> bool:
        return can_be_taken(row) and row.failures < MAX_FAILURES

    def gives_parts(self, job: Job) -> bool:
        return job.state == JobState.RUNNING and not job.pause

    def taken(self, row: Row) -> Row:
        return row._replace(state=RowState.LEASED, left=LEASE_TICKS, failures=row.failures + 1)

    def after_a_take(self, helper: Helper) -> Helper:
        """Another helper that had the part."""
        return helper._replace(current=0)

    def after_a_claim(self, helper: Helper) -> Helper:
        """A helper that had a part whose row is deleted."""
        return helper._replace(current=0)

    def beaten(self, row: Row) -> Row:
        return row._replace(left=LEASE_TICKS) if row.state == RowState.LEASED else row

    def begin(self, row: Row, helper: Helper, phase: Phase) -> tuple[Row, Helper]:
        """The file of a checkpoint or result is written before the row."""
        return row, helper._replace(phase=phase, file=1)

    def named(self, row: Row, helper: Helper) -> Row:
        return row._replace(checkpoint=helper.progress, stored=helper.file, failures=0)

    def delivered(self, row: Row, helper: Helper) -> Row:
        return row._replace(
            state=RowState.DONE, left=0, checkpoint=helper.progress, stored=helper.file
        )

    def released(self, row: Row) -> Row:
        if row.state == RowState.DONE:
            return row
        return row._replace(state=RowState.FREE, left=0, failures=0)

    def refused(self, row: Row) -> Row:
        if row.state == RowState.DONE:
            return row
        return row._replace(state=RowState.FREE, left=0, failures=MAX_FAILURES)

    def is_refused(self, row: Row) -> Row:
        """After a write that was refused: its file is deleted, which no row names."""
        return row

    def offered(self, row: Row) -> Row:
        """One of an offer whose reply was lost exists."""
        return row if row.state != RowState.ABSENT else Row(RowState.FREE)

    def can_claim(self, row: Row) -> bool:
        return can_be_taken(row) or (row.state == RowState.DONE and not row.stored)

    def is_as_read(self, worker: Worker) -> bool:
        return bool(worker.as_read)

    def seen(self, row: Row, believes: int) -> int:
        """After a look; what has no row is the job's own."""
        if believes == Believes.HAS:
            return believes
        return Believes.OWN if row.state == RowState.ABSENT else Believes.LENT

    def can_absorb(self, believes: int) -> bool:
        return believes == Believes.LENT

    def at_the_end(self, row: Row) -> Row:
        """In the transaction of the job's end."""
        return Row()

    def must_leave(self, job: Job) -> bool:
        return bool(job.state != JobState.RUNNING or job.pause or job.waits)

    def swept(self, row: Row) -> Row:
        """Old files that no row names are deleted."""
        return row

    # What each process can do

    def steps(self, state: State) -> Iterator[Step]:
        yield from self._outside(state)
        for slot, worker in enumerate(state.workers):
            for step in self._worker(state, worker, slot):
                yield step._replace(actor=worker)
        for slot, helper in enumerate(state.helpers):
            for step in self._helper(state, helper, slot):
                yield step._replace(actor=helper)

    def _outside(self, state: State) -> Iterator[Step]:
        job, rows = state.job, state.rows
        later = tuple(row._replace(left=max(0, row.left - 1)) for row in rows)
        yield Step("tick", state._replace(rows=later))
        yield Step("sweep", state._replace(rows=tuple(self.swept(row) for row in rows)))
        if job.state in FINAL:
            return
        yield Step("wait", state._replace(job=job._replace(waits=1 - job.waits)))
        if job.state == JobState.RUNNING:
            label = "resume" if job.pause else "pause"
            yield Step(label, state._replace(job=job._replace(pause=1 - job.pause)))
            lost = tuple(worker._replace(current=0) for worker in state.workers)
            present = any(worker.current for worker in state.workers)
            resolved = JobState.PAUSED if job.pause else JobState.QUEUED
            gone = job._replace(state=resolved, pause=0)
            yield Step("expire" if present else "reclaim", state._replace(job=gone, workers=lost))
        if job.state == JobState.QUEUED:
            yield Step("pause", state._replace(job=job._replace(state=JobState.PAUSED)))
        if job.state == JobState.PAUSED:
            yield Step("resume", state._replace(job=job._replace(state=JobState.QUEUED)))
        yield Step("cancel", self._ended(state, JobState.CANCELED, ()))
        if self._damages:
            for part, row in enumerate(rows):
                if row.state == RowState.DONE and row.stored:
                    yield Step("damage", _with_row(state, part, row._replace(stored=0)))

    def _ended(self, state: State, final: JobState, work: tuple[int, ...]) -> State:
        job = Job(final, work=work)
        helpers = tuple(self.after_a_claim(helper) for helper in state.helpers)
        rows = tuple(self.at_the_end(row) for row in state.rows)
        workers = tuple(worker._replace(current=0) for worker in state.workers)
        return State(job, rows, workers, helpers)

    def _worker(self, state: State, worker: Worker, slot: int) -> Iterator[Step]:
        def then(after: Worker, base: State = state) -> State:
            workers = (*base.workers[:slot], after, *base.workers[slot + 1 :])
            return base._replace(workers=workers)

        job, part = state.job, worker.part
        if worker.phase == Phase.GONE:
            if job.state == JobState.QUEUED:
                begins = Worker(Phase.WORKING, 1, job.saved, tuple(b // 2 for b in job.saved))
                yield Step(
                    "begin", then(begins, state._replace(job=job._replace(state=JobState.RUNNING)))
                )
            return
        yield Step("kill", then(Worker()))
        if worker.phase != Phase.WORKING:
            yield from self._writing(state, worker, then, part)
            return
        if job.state in FINAL:
            yield Step("drop", then(Worker()))
        if worker.current:
            rows = zip(state.rows, worker.believes, strict=True)
            looked = tuple(self.seen(row, believes) for row, believes in rows)
            yield Step("look", then(worker._replace(believes=looked)))
            saved = tuple(b if b == Believes.HAS else Believes.OWN for b in worker.believes)
            if job.pause:
                left = job._replace(state=JobState.PAUSED, pause=0, saved=saved)
                yield Step("release", then(Worker(), state._replace(job=left)))
            yield Step("save", state._replace(job=job._replace(saved=saved)))
            if set(worker.believes) == {Believes.HAS}:
                ended = self._ended(state, JobState.SUCCEEDED, worker.counts)
                yield Step("end", then(Worker(), ended))
        elif job.state != JobState.RUNNING or any(w.current for w in state.workers):
            yield Step("drop", then(Worker()))
        for number, believes in enumerate(worker.believes):
            row = state.rows[number]
            if believes == Believes.OWN:
                yield Step("do", then(_has(worker, number)))
                if not job.waits:
                    yield Step("offer", then(worker._replace(phase=Phase.OFFERING, part=number)))
            if row.state == RowState.DONE and row.stored and self.can_absorb(believes):
                yield Step("absorb", then(_has(worker, number)))
            if believes == Believes.LENT and self.can_claim(row):
                claims = worker._replace(phase=Phase.CLAIMING, part=number, as_read=1)
                yield Step("claim", then(claims))

    def _writing(self, state: State, worker: Worker, then: WorkerThen, part: int) -> Iterator[Step]:
        row = state.rows[part]
        works = worker._replace(phase=Phase.WORKING, part=0, as_read=0)
        match worker.phase:
            case Phase.OFFERING:
                yield Step("no commit", then(works), part=part)
                if not self.owns_job(state, worker):
                    yield Step("refused", then(Worker()))
                    return
                offered = _with_row(state, part, self.offered(row))
                yield Step("commit", then(worker._replace(phase=Phase.OFFERED), offered), part=part)
            case Phase.OFFERED:
                yield Step("reply", then(_believing(works, part, Believes.LENT)))
                yield Step("reply lost", then(works))
            case Phase.CLAIMING:
                yield Step("no commit", then(works), part=part)
                if not self.owns_job(state, worker):
                    yield Step("refused", then(Worker()))
                elif self.can_claim(row) and self.is_as_read(worker):
                    helpers = tuple(
                        self.after_a_claim(helper) if helper.part == part else helper
                        for helper in state.helpers
                    )
                    claimed = _with_row(state, part, Row())._replace(helpers=helpers)
                    after = then(worker._replace(phase=Phase.CLAIMED), claimed)
                    yield Step("commit", after, part=part)
                else:
                    yield Step("too late", then(works))
            case Phase.CLAIMED:
                yield Step("reply", then(_believing(works, part, Believes.OWN)))
                yield Step("reply lost", then(works))

    def _helper(self, state: State, helper: Helper, slot: int) -> Iterator[Step]:
        def then(after: Helper, row: Row | None = None) -> State:
            helpers = (*state.helpers[:slot], after, *state.helpers[slot + 1 :])
            base = state._replace(helpers=helpers)
            return base if row is None else _with_row(base, helper.part, row)

        if helper.phase == Phase.GONE:
            for part, row in enumerate(state.rows):
                if self.gives_parts(state.job) and self.can_take(row):
                    yield Step("take", self._take(state, slot, part), part=part)
            return
        row, part = state.rows[helper.part], helper.part
        owns = self.owns(row, helper)
        yield Step("kill", then(Helper()))
        if owns and row.state == RowState.LEASED:
            yield Step("beat", then(helper, self.beaten(row)), part=part)
        if owns and helper.phase != Phase.WORKING and self.must_leave(state.job):
            # Its heartbeat gives the part back, because the work takes too long to leave.
            yield Step("give back", then(helper, self.released(row)), part=part)
        works = helper._replace(phase=Phase.WORKING, file=0)
        match helper.phase:
            case Phase.WORKING:
                leave = int(self.must_leave(state.job))
                yield Step("look", then(helper._replace(leave=leave) if owns else Helper()))
                yield Step("fail", then(helper._replace(phase=Phase.REFUSING)))
                if helper.leave:
                    yield Step("leave", then(helper._replace(phase=Phase.LEAVING)))
                elif helper.progress < self.units:
                    yield Step("work", then(helper._replace(progress=helper.progress + 1)))
                if helper.progress == self.units:
                    before, writes = self.begin(row, helper, Phase.DELIVERING)
                    yield Step("write", then(writes, before), part=part)
                if helper.progress > row.checkpoint or not owns:
                    before, writes = self.begin(row, helper, Phase.SAVING)
                    yield Step("write", then(writes, before), part=part)
            case Phase.SAVING:
                yield from self._commit(helper, row, then, self.named(row, helper), Phase.SAVED)
                yield Step("no commit", then(works))
            case Phase.DELIVERING:
                after = self.delivered(row, helper)
                yield from self._commit(helper, row, then, after, Phase.DELIVERED)
            case Phase.LEAVING:
                yield from self._commit(helper, row, then, self.released(row), Phase.LEFT)
            case Phase.REFUSING:
                yield from self._commit(helper, row, then, self.refused(row), Phase.REFUSED)
            case Phase.SAVED:
                yield Step("reply", then(works))
                yield Step("reply lost", then(works))
            case _:
                yield Step("reply", then(Helper()))
                yield Step("reply lost", then(helper._replace(phase=Phase(helper.phase - 1))))

    def _commit(
        self, helper: Helper, row: Row, then: HelperThen, after: Row, phase: Phase
    ) -> Iterator[Step]:
        if self.owns(row, helper):
            yield Step("commit", then(helper._replace(phase=phase), after), part=helper.part)
        else:
            refused = then(Helper(), self.is_refused(row))
            yield Step("refused", refused, part=helper.part)

    def _take(self, state: State, slot: int, part: int) -> State:
        row = state.rows[part]
        helpers = [self.after_a_take(h) if h.part == part else h for h in state.helpers]
        helpers[slot] = Helper(Phase.WORKING, part, 1, row.checkpoint)
        workers = tuple(w._replace(as_read=0) if w.part == part else w for w in state.workers)
        taken = _with_row(state, part, self.taken(row))
        return taken._replace(helpers=tuple(helpers), workers=workers)


def _with_row(state: State, part: int, row: Row) -> State:
    return state._replace(rows=(*state.rows[:part], row, *state.rows[part + 1 :]))


def _believing(worker: Worker, part: int, believes: Believes) -> Worker:
    known = worker.believes
    return worker._replace(believes=(*known[:part], believes, *known[part + 1 :]))


def _has(worker: Worker, part: int) -> Worker:
    counts = worker.counts
    counts = (*counts[:part], min(2, counts[part] + 1), *counts[part + 1 :])
    return _believing(worker._replace(counts=counts), part, Believes.HAS)
