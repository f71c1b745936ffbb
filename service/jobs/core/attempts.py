"""One attempt at a job: keeps the lease, shows progress, saves checkpoints, brings wishes."""

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
    Ending,
    Lease,
    LeaseLost,
    Leases,
    Memory,
    Orders,
    Register,
    Report,
)
from service.settings import Settings
from svm.errors import Interrupted

LOOK_S = 0.1
"""How often to look for a wish of the caller, and at the memory that this process uses."""
MEMORY_STEP = 1 / 16
"""Growth of the memory, as a part of the limit, that is told at once: a worker that takes too much
has no time for last words."""
PAUSE_S, STOP_S = 0.5, 6.0
"""How long the work may overlook that the job is to pause, or that this process stops. Then the job
is taken out of its hands, and goes on one day from the checkpoint that it has."""
RETRY_S = 1.0
"""Pause before the next try to write how the attempt ended."""
REPORT_S = 0.25
"""Shortest time between two reports."""
REPORT_SHARE = 1e-3
"""The same as a share of the time spent so far: long jobs have few thousand events, too."""
CHECKPOINT_COST = 20
"""Time between two checkpoints, as a multiple of what one takes."""

PASSING = (OSError, StorageFull, Unavailable)
"""Trouble with files or the database, which may be over soon and is no fault of the job."""

logger = logging.getLogger(__name__)


class Wish(Enum):
    """What the work on a job should do now; the first that applies."""

    LET_GO = auto()
    """The job was canceled, or belongs to another attempt: drop everything."""
    KEEP_AND_END = auto()
    """Canceled, but what was learnt so far is wanted."""
    SAVE_AND_LEAVE = auto()
    """The job is to pause, or this process stops: save a checkpoint and give the job back."""
    GO_ON = auto()


class Attempt:
    """A leased job as the code that carries it out sees it. Made by `attempting`."""

    def __init__(
        self, lease: Lease, leases: Leases, settings: Settings, stopping: threading.Event
    ) -> None:
        self.job = lease.job
        self.has_checkpoint = lease.job.checkpoint_key is not None
        self.may_end = not self.has_checkpoint
        """Whether `KEEP_AND_END` interrupts the work: not while it makes the model to keep."""
        self._lease = lease
        self._leases = leases
        self._settings = settings
        self._stopping = stopping
        self._orders = Orders(end=lease.job.cancel_requested, pause=False)
        self._lost = False
        self._obeys = False
        """The work was told to save and leave, and is about it."""
        self._overlooked_since: float | None = None
        self._started = time.monotonic()
        self.progress = lease.job.progress
        """As last shown."""
        self._trace: list[dict[str, Any]] = []
        self._next_report = self._started
        self._next_checkpoint = self._started + settings.checkpoint_s
        self._checkpoints = 0
        self._moved = False

    @property
    def wish(self) -> Wish:
        if self._lost:
            return Wish.LET_GO
        if self._orders.end:
            return Wish.KEEP_AND_END
        leave = self._stopping.is_set() or self._orders.pause
        return Wish.SAVE_AND_LEAVE if leave else Wish.GO_ON

    def check(self) -> None:
        """Raises Interrupted where the work should stop. Costs nothing, callable in any thread."""
        wish = self.wish
        if wish is Wish.KEEP_AND_END and not self.may_end:
            return
        if wish is not Wish.GO_ON:
            self._obeys = wish is Wish.SAVE_AND_LEAVE
            raise Interrupted(wish.name)

    @property
    def elapsed_s(self) -> float:
        """Time spent on the job, all attempts together."""
        return self.job.elapsed_s + time.monotonic() - self._started

    def show(self, progress: dict[str, Any], trace: list[dict[str, Any]]) -> None:
        """The work moved on. Written a few times a second; rows wait for the next write."""
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
        """Let the next attempt begin with `content`; nothing happens where nothing moved.

        A full disk or a database that is away is no reason to stop: the work goes on, with the
        checkpoint that it has.
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
        """End the attempt: the job is paused, or another worker goes on from the checkpoint."""
        self._insist(lambda: self._leases.release(self._lease, self._report()))

    def finish(self, ending: Ending, register: Register | None = None) -> None:
        """End the job and register its model in one transaction."""
        self._insist(lambda: self._leases.finish(self._lease, ending, self._report(), register))

    def _insist(self, write: Callable[[], None]) -> None:
        """Write how the attempt ended, again and again while database or files are away, until the
        lease is lost or this process stops: what was done would only be done again."""
        while True:
            try:
                return write()
            except PASSING:
                if self._stopping.wait(RETRY_S):
                    raise
                logger.exception("to be written again")

    def _report(self) -> Report:
        trace = list(self._trace)
        return Report(progress=self.progress, elapsed_s=self.elapsed_s, trace=trace)

    def _overlooks_its_wish(self) -> bool:
        """Whether the work has gone on for too long after it should have left."""
        if self._obeys or self.wish is not Wish.SAVE_AND_LEAVE:
            self._overlooked_since = None
            return False
        now = time.monotonic()
        self._overlooked_since = self._overlooked_since or now
        patience = PAUSE_S if self._orders.pause else STOP_S
        return now - self._overlooked_since > patience

    def _keep_lease(self, ended: threading.Event) -> None:
        lease_s, limit = self._settings.lease_s, self._settings.limits.worker_memory_bytes
        process = psutil.Process()
        next_beat, told, reachable = 0.0, 0, True
        while not ended.wait(LOOK_S):
            used = process.memory_info().rss
            due = time.monotonic() >= next_beat or used - told > limit * MEMORY_STEP
            try:
                if due:
                    self._orders = self._leases.heartbeat(self._lease, lease_s, Memory(used, limit))
                    next_beat, told = time.monotonic() + lease_s / 4, used
                else:
                    self._orders = self._leases.orders(self._lease)
                reachable = True
                if self._overlooks_its_wish():
                    logger.warning("taken out of the hands of work that does not look up")
                    self._leases.release(self._lease, self._report())
                    self._lost = True
                    return
            except LeaseLost:
                self._lost = True
                return
            except PASSING:
                # The lease may outlive it; if not, the next write is refused.
                if reachable:
                    logger.exception("heartbeat failed")
                reachable = False


@contextmanager
def attempting(
    lease: Lease, leases: Leases, settings: Settings, stopping: threading.Event
) -> Iterator[Attempt]:
    """Keep the lease alive for the length of the block. `stopping` says that this process ends."""
    attempt = Attempt(lease, leases, settings, stopping)
    ended = threading.Event()
    heartbeat = threading.Thread(
        target=copy_context().run,  # its log lines name the job, as those of this thread do
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
