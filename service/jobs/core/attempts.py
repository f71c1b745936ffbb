"""One attempt at a job: keeps the lease, reports progress, saves checkpoints, reads requests to
cancel or pause."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from enum import Enum, auto
from typing import Any

import psutil

from service.errors import StorageFull, Unavailable
from service.jobs.core.leases import (
    ControlFlags,
    Lease,
    LeasedRows,
    LeaseLost,
    Leases,
    Memory,
    Outcome,
    Register,
    Report,
)
from service.jobs.core.phase_times import PhaseTimes
from service.settings import Settings
from service.storage.arrays import Content
from svm.errors import Interrupted

LOOK_S = 0.1
"""How often to read the control flags, and the memory that this process uses."""
MEMORY_STEP = 1 / 16
"""Growth of the memory, as a part of the limit, that is reported at once: a worker that is killed
for its memory cannot report it."""
PAUSE_S, STOP_S = 0.5, 6.0
"""How long the work may ignore a request to pause, or the stop of this process. Then the job is
released without it, and resumes later from its last checkpoint."""
RETRY_S = 1.0
"""Pause before the outcome is written again."""
REPORT_S = 0.25
"""Shortest time between two reports."""
REPORT_SHARE = 1e-3
"""This share of the time spent so far, too: it limits long jobs to a few thousand events."""
CHECKPOINT_COST = 20
"""Time between two checkpoints, as a multiple of what one takes."""

PASSING = (OSError, StorageFull, Unavailable)
"""Errors of files or the database, which may be temporary and are not caused by the job."""

logger = logging.getLogger(__name__)


class Command(Enum):
    """What the work on a job must do now; the first that applies."""

    DROP = auto()
    """The job was canceled, or belongs to another attempt: stop, keep nothing."""
    KEEP_AND_END = auto()
    """Canceled, but the model so far must be kept."""
    SAVE_AND_RELEASE = auto()
    """The job must pause, or this process stops: save a checkpoint and release the job."""
    CONTINUE = auto()


class Work:
    """Leased work, a job or a part of one, as a runner uses it. A thread keeps the lease while
    others work; each writes what the others only read."""

    def __init__(
        self,
        lease: Lease,
        leases: LeasedRows,
        settings: Settings,
        stopping: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`stopping` is set when this process ends; `clock` is steady, in seconds."""
        self.job = lease.job
        self.progress = lease.job.progress
        """As last reported."""
        self.has_checkpoint = lease.job.checkpoint_key is not None
        self.may_end = not self.has_checkpoint
        """Whether `KEEP_AND_END` interrupts the work: not while the model to keep is made."""
        self.lease = lease
        self._leases = leases
        self._lease_s, self._checkpoint_s = settings.lease_s, settings.checkpoint_s
        self._memory_limit_bytes = settings.limits.worker_memory_bytes
        self._stopping = stopping
        self._clock = clock
        self._started = now = clock()
        self._flags = ControlFlags(end=lease.job.cancel_requested, pause=False)
        self._lost = False
        self._reachable = True
        self._next_beat = 0.0
        self._reported_bytes = 0
        self._is_releasing = False
        """The work was interrupted to save and release the job, and is doing so."""
        self._ignored_since: float | None = None
        """Since when the work has continued after a command to release the job."""
        self._moved = False
        """There was progress since the last checkpoint."""
        self._unwritten: list[dict[str, Any]] = []
        """Rows of the trace that no report has had yet."""
        self._trace_begins = False
        self._checkpoints = 0
        self._next_report = now + REPORT_S  # a short job is reported by its end
        self._next_checkpoint = now + self._checkpoint_s

    @property
    def command(self) -> Command:
        if self._lost:
            return Command.DROP
        if self._flags.end:
            return Command.KEEP_AND_END
        leave = self._stopping.is_set() or self._flags.pause
        return Command.SAVE_AND_RELEASE if leave else Command.CONTINUE

    def check(self) -> None:
        """Raises Interrupted if the work must stop. Cheap; callable in any thread."""
        command = self.command
        if command is Command.CONTINUE or (command is Command.KEEP_AND_END and not self.may_end):
            return
        self._is_releasing = command is Command.SAVE_AND_RELEASE
        raise Interrupted(command.name)

    def threads(self) -> int:
        """That the work may use now: the processors that other workers of this machine leave."""
        return max(1, len(os.sched_getaffinity(0)) // self._flags.busy)

    @property
    def elapsed_s(self) -> float:
        """Time spent on the job, all attempts together."""
        return self.job.elapsed_s + self._clock() - self._started

    def show(self, progress: dict[str, Any], trace: Sequence[dict[str, Any]] = ()) -> None:
        """Report progress. Written a few times a second; rows wait for the next write."""
        self.progress, self._moved = progress, True
        self._unwritten += trace
        due = self._clock() >= self._next_report
        if due and self._write(lambda: self._report(self.latest_report())):
            self._unwritten, self._trace_begins = [], False

    def begin_trace(self) -> None:
        """The next rows of the trace are of another training, which takes the place of the one
        before. Written at once: other workers may add some of them."""
        self._unwritten, self._trace_begins = [], True
        if self._write(lambda: self._report(self.latest_report())):
            self._trace_begins = False

    def _report(self, report: Report) -> None:
        self._next_report = math.inf  # until then no other thread reports
        try:
            self._leases.report(self.lease, report)
        finally:
            pause = max(REPORT_S, REPORT_SHARE * self.elapsed_s)
            self._next_report = self._clock() + pause

    def _write(
        self, write: Callable[[], None], failure: str = "progress could not be written"
    ) -> bool:
        """Returns whether it could be written. Raises LeaseLost."""
        try:
            write()
        except PASSING:
            logger.exception(failure)
            return False
        return True

    @property
    def checkpoint_is_due(self) -> bool:
        return self._moved and self._clock() >= self._next_checkpoint

    def save(self, content: Content) -> None:
        """Make `content` the checkpoint of the next attempt, if there was progress since the last.

        A full disk or an unavailable database does not stop the work: it continues with the
        previous checkpoint.
        """
        if not self._moved:
            return
        self._checkpoints += 1
        began, numbered = self._clock(), (self.lease, self._checkpoints)
        report = self.latest_report()
        write = self._leases.checkpoint
        if self._write(lambda: write(*numbered, content, report), "checkpoint failed"):
            self.has_checkpoint, self._moved = True, False
            self._unwritten, self._trace_begins = [], False
        now = self._clock()
        self._next_checkpoint = now + max(self._checkpoint_s, CHECKPOINT_COST * (now - began))

    @contextmanager
    def saving(self, packed: Callable[[], Content]) -> Iterator[None]:
        """If the block is interrupted to release the job, its checkpoint is saved."""
        try:
            yield
        except Interrupted:
            if self.command is Command.SAVE_AND_RELEASE:
                self.save(packed())
            raise

    def give_back(self) -> None:
        """End the attempt: the job is paused, or another worker resumes it from the checkpoint."""
        self.insist(lambda: self._leases.release(self.lease, self.latest_report()))

    def insist(self, write: Callable[[], None]) -> None:
        """Retry to write how the attempt ended while database or files are unavailable, until the
        lease is lost or this process stops; otherwise the work would be repeated."""
        while True:
            try:
                return write()
            except PASSING as error:
                if self._stopping.wait(RETRY_S):
                    # Never StorageFull: the job is released, not failed for want of space.
                    detail = "the end of the attempt could not be written"
                    raise Unavailable("storage-unavailable", detail) from error
                logger.exception("the end of the attempt could not be written; trying again")

    def latest_report(self) -> Report:
        return Report(
            progress=self.progress,
            elapsed_s=self.elapsed_s,
            trace=list(self._unwritten),
            trace_begins=self._trace_begins,
        )

    def look(self, used_bytes: int) -> bool:
        """Keep the lease, and read what the caller has requested. False once the lease is lost."""
        limit = self._memory_limit_bytes
        grown = used_bytes - self._reported_bytes > limit * MEMORY_STEP
        try:
            if grown or self._clock() >= self._next_beat:
                memory = Memory(used_bytes, limit)
                self._flags = self._leases.heartbeat(self.lease, self._lease_s, memory)
                self._next_beat = self._clock() + self._lease_s / 4
                self._reported_bytes = used_bytes
            else:
                self._flags = self._leases.control_flags(self.lease)
            self._reachable = True
            self._report_phase()
            if self._is_ignored():
                logger.warning("the work did not react to pause or stop; the job is released")
                self._leases.release(self.lease, self.latest_report())
                self._lost = True
        except LeaseLost:
            self._lost = True
        except PASSING:
            # The lease may last longer than the outage; if not, the next write is refused.
            if self._reachable:
                logger.exception("heartbeat failed")
            self._reachable = False
        return not self._lost

    def _report_phase(self) -> None:
        """Write the phase of a job, if no other report did."""

    def _is_ignored(self) -> bool:
        """Whether the work has ignored for too long that it must release the job."""
        if self._is_releasing or self.command is not Command.SAVE_AND_RELEASE:
            self._ignored_since = None
            return False
        now = self._clock()
        if self._ignored_since is None:
            self._ignored_since = now
        return now - self._ignored_since > (PAUSE_S if self._flags.pause else STOP_S)


class Attempt(Work):
    """An attempt at a job."""

    _leases: Leases

    def __init__(self, lease: Lease, *given: Any, **also: Any) -> None:
        super().__init__(lease, *given, **also)
        job = lease.job
        self._phases = PhaseTimes(job.progress.get("phases", ()), job.elapsed_s)
        self._reported: str | None = None
        """The phase that the last report had."""

    def begin(self, phase: str) -> None:
        """The work is in this phase now, one of `service.common.phases`. Writes nothing: the next
        report does, or soon the thread that keeps the lease."""
        if self._phases.begin(phase, self.elapsed_s):
            self.progress = {**self.progress, "eta_s": None}  # a forecast is of one phase

    def compile(self, loops: int) -> None:
        """`loops` more are being compiled; negative: they are compiled. Callable in any thread."""
        self._phases.compile(loops, self.elapsed_s)

    def latest_report(self) -> Report:
        report = super().latest_report()
        phases = self._phases.recorded(report.elapsed_s)
        return replace(report, progress={**report.progress, **phases})

    def _report(self, report: Report) -> None:
        super()._report(report)
        self._reported = report.progress["phase"]

    def _report_phase(self) -> None:
        if self._phases.name != self._reported and self._clock() >= self._next_report:
            # The rows of the trace are those of the thread that works.
            self._report(replace(self.latest_report(), trace=[], trace_begins=False))

    def carry_through(self, work: Callable[[], None], packed: Callable[[], Content]) -> bool:
        """Do the work, whose checkpoint is `packed` at any time. True if the job was canceled, and
        what it has so far must be kept.

        Raises what the work raises, and Interrupted after the checkpoint was saved.
        """
        self.may_end = True
        try:
            with self.saving(packed):
                work()
            return False
        except Interrupted:
            if self.command is not Command.KEEP_AND_END:
                raise
            return True
        finally:
            self.may_end = False

    def finish(self, outcome: Outcome, register: Register | None = None) -> None:
        """End the job and register its model in one transaction."""
        end = self._leases.finish
        self.insist(lambda: end(self.lease, outcome, self.latest_report(), register))


@contextmanager
def keep_lease(attempt: Work) -> Iterator[None]:
    """Keep the lease while the block runs."""
    ended = threading.Event()
    process = psutil.Process()

    def beat() -> None:
        while not ended.wait(LOOK_S) and attempt.look(process.memory_info().rss):
            pass

    heartbeat = threading.Thread(
        target=copy_context().run,  # with the job in its log lines, as in this thread
        args=(beat,),
        name="heartbeat",
        daemon=True,
    )
    heartbeat.start()
    try:
        yield
    finally:
        ended.set()
        heartbeat.join()
