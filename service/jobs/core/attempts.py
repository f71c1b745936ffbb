"""One attempt at a job: keeps the lease, reports progress, saves checkpoints, reads requests to
cancel or pause."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from enum import Enum, auto
from typing import Any

import psutil

from service.errors import StorageFull, Unavailable
from service.jobs.core.leases import (
    ControlFlags,
    Lease,
    LeaseLost,
    Leases,
    Memory,
    Outcome,
    Register,
    Report,
)
from service.settings import Settings
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
"""The same as a share of the time spent so far: it limits long jobs to a few thousand events."""
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


class Attempt:
    """A leased job as a runner uses it. Made by `attempting`."""

    def __init__(
        self, lease: Lease, leases: Leases, settings: Settings, stopping: threading.Event
    ) -> None:
        self.job = lease.job
        self.has_checkpoint = lease.job.checkpoint_key is not None
        self.may_end = not self.has_checkpoint
        """Whether `KEEP_AND_END` interrupts the work: not while the model to keep is made."""
        self._lease = lease
        self._leases = leases
        self._settings = settings
        self._stopping = stopping
        self._control_flags = ControlFlags(end=lease.job.cancel_requested, pause=False)
        self._lost = False
        self._is_releasing = False
        """The work was interrupted to save and release the job, and is doing so."""
        self._ignored_since: float | None = None
        self._started = time.monotonic()
        self.progress = lease.job.progress
        """As last reported."""
        self._trace: list[dict[str, Any]] = []
        self._next_report = self._started + REPORT_S  # a short job is reported by its end
        self._next_checkpoint = self._started + settings.checkpoint_s
        self._checkpoints = 0
        self._moved = False

    @property
    def command(self) -> Command:
        if self._lost:
            return Command.DROP
        if self._control_flags.end:
            return Command.KEEP_AND_END
        leave = self._stopping.is_set() or self._control_flags.pause
        return Command.SAVE_AND_RELEASE if leave else Command.CONTINUE

    def check(self) -> None:
        """Raises Interrupted if the work must stop. Cheap; callable in any thread."""
        command = self.command
        if command is Command.KEEP_AND_END and not self.may_end:
            return
        if command is not Command.CONTINUE:
            self._is_releasing = command is Command.SAVE_AND_RELEASE
            raise Interrupted(command.name)

    @property
    def elapsed_s(self) -> float:
        """Time spent on the job, all attempts together."""
        return self.job.elapsed_s + time.monotonic() - self._started

    def show(self, progress: dict[str, Any], trace: list[dict[str, Any]]) -> None:
        """Report progress. Written a few times a second; rows wait for the next write."""
        self.progress = progress
        self._trace += trace
        self._moved = True
        if time.monotonic() < self._next_report:
            return
        try:
            self._leases.report(self._lease, self._report())
            self._trace = []
        except PASSING:
            logger.exception("progress could not be written")
        self._next_report = time.monotonic() + max(REPORT_S, REPORT_SHARE * self.elapsed_s)

    @property
    def checkpoint_is_due(self) -> bool:
        return self._moved and time.monotonic() >= self._next_checkpoint

    def save(self, content: bytes) -> None:
        """Make `content` the checkpoint of the next attempt, if there was progress since the last.

        A full disk or an unavailable database does not stop the work: it continues with the
        previous checkpoint.
        """
        if not self._moved:
            return
        started = time.monotonic()
        self._checkpoints += 1
        try:
            self._leases.checkpoint(self._lease, self._checkpoints, content, self._report())
            self._trace = []
            self._moved = False
            self.has_checkpoint = True
        except PASSING:
            logger.exception("checkpoint failed")
        pause = max(self._settings.checkpoint_s, CHECKPOINT_COST * (time.monotonic() - started))
        self._next_checkpoint = time.monotonic() + pause

    def give_back(self) -> None:
        """End the attempt: the job is paused, or another worker resumes it from the checkpoint."""
        self._insist(lambda: self._leases.release(self._lease, self._report()))

    def finish(self, outcome: Outcome, register: Register | None = None) -> None:
        """End the job and register its model in one transaction."""
        self._insist(lambda: self._leases.finish(self._lease, outcome, self._report(), register))

    def _insist(self, write: Callable[[], None]) -> None:
        """Retry to write how the attempt ended while database or files are unavailable, until the
        lease is lost or this process stops; otherwise the work would be repeated."""
        while True:
            try:
                return write()
            except PASSING:
                if self._stopping.wait(RETRY_S):
                    raise
                logger.exception("the end of the attempt could not be written; trying again")

    def _report(self) -> Report:
        trace = list(self._trace)
        return Report(progress=self.progress, elapsed_s=self.elapsed_s, trace=trace)

    def _ignores_its_command(self) -> bool:
        """Whether the work has continued for too long after a command to release the job."""
        if self._is_releasing or self.command is not Command.SAVE_AND_RELEASE:
            self._ignored_since = None
            return False
        now = time.monotonic()
        self._ignored_since = self._ignored_since or now
        patience = PAUSE_S if self._control_flags.pause else STOP_S
        return now - self._ignored_since > patience

    def _keep_lease(self, ended: threading.Event) -> None:
        lease_s, limit = self._settings.lease_s, self._settings.limits.worker_memory_bytes
        process = psutil.Process()
        next_beat, reported, reachable = 0.0, 0, True
        while not ended.wait(LOOK_S):
            used = process.memory_info().rss
            due = time.monotonic() >= next_beat or used - reported > limit * MEMORY_STEP
            try:
                if due:
                    self._control_flags = self._leases.heartbeat(
                        self._lease, lease_s, Memory(used, limit)
                    )
                    next_beat, reported = time.monotonic() + lease_s / 4, used
                else:
                    self._control_flags = self._leases.control_flags(self._lease)
                reachable = True
                if self._ignores_its_command():
                    logger.warning("the work did not react to pause or stop; the job is released")
                    self._leases.release(self._lease, self._report())
                    self._lost = True
                    return
            except LeaseLost:
                self._lost = True
                return
            except PASSING:
                # The lease may last longer than the outage; if not, the next write is refused.
                if reachable:
                    logger.exception("heartbeat failed")
                reachable = False


@contextmanager
def attempting(
    lease: Lease, leases: Leases, settings: Settings, stopping: threading.Event
) -> Iterator[Attempt]:
    """Keep the lease while the block runs. `stopping` is set when this process ends."""
    attempt = Attempt(lease, leases, settings, stopping)
    ended = threading.Event()
    heartbeat = threading.Thread(
        target=copy_context().run,  # with the job in its log lines, as in this thread
        args=(attempt._keep_lease, ended),
        name="heartbeat",
        daemon=True,
    )
    heartbeat.start()
    try:
        yield attempt
    finally:
        ended.set()
        heartbeat.join()
