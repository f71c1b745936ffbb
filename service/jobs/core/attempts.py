"""One attempt at a job: keeps the lease, reports progress, saves checkpoints, reads requests to
cancel or pause.

`step` decides, without a clock, a thread or a database; `Attempt` carries it out.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Protocol, TypeAlias

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptState:
    """All that an attempt knows; times are of a steady clock, in seconds."""

    lease_s: float
    checkpoint_s: float
    memory_limit_bytes: int
    started: float
    has_checkpoint: bool
    flags: ControlFlags
    stopping: bool = False
    lost: bool = False
    is_releasing: bool = False
    """The work was interrupted to save and release the job, and is doing so."""
    ignored_since: float | None = None
    """Since when the work has continued after a command to release the job."""
    moved: bool = False
    """There was progress since the last checkpoint."""
    checkpoints: int = 0
    unwritten: tuple[dict[str, Any], ...] = ()
    """Rows of the trace that no report has had yet."""
    next_beat: float = 0.0
    reported_bytes: int = 0
    next_report: float
    next_checkpoint: float
    saving_since: float = 0.0

    @property
    def command(self) -> Command:
        if self.lost:
            return Command.DROP
        if self.flags.end:
            return Command.KEEP_AND_END
        leave = self.stopping or self.flags.pause
        return Command.SAVE_AND_RELEASE if leave else Command.CONTINUE


@dataclass(frozen=True, slots=True)
class Looked:
    """It is time to look at the lease."""

    used_bytes: int


@dataclass(frozen=True, slots=True)
class Heard:
    """The lease is still held."""

    flags: ControlFlags
    beat_bytes: int | None
    """The memory that was reported, if the lease was renewed too."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The work asks whether it must stop."""

    may_end: bool


@dataclass(frozen=True, slots=True)
class Progressed:
    trace: Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Reported:
    succeeded: bool
    elapsed_s: float
    """On the job, all attempts together."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The work has made a checkpoint."""


@dataclass(frozen=True, slots=True)
class Saved:
    succeeded: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """This process stops."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The lease is lost."""


Event: TypeAlias = (
    Looked | Heard | Checked | Progressed | Reported | Offered | Saved | Stopped | Refused
)


class Action(Enum):
    """What must be done after an event."""

    BEAT = auto()
    """Renew the lease, report the memory, and read the control flags."""
    READ_FLAGS = auto()
    REPORT = auto()
    CHECKPOINT = auto()
    RELEASE = auto()
    """Release the job without its work."""
    INTERRUPT = auto()
    """Interrupt the work."""


def step(state: AttemptState, event: Event, now: float) -> tuple[AttemptState, tuple[Action, ...]]:
    """The state after an event, and what must be done."""
    match event:
        case Looked(used_bytes):
            grown = used_bytes - state.reported_bytes > state.memory_limit_bytes * MEMORY_STEP
            due = now >= state.next_beat or grown
            return state, (Action.BEAT if due else Action.READ_FLAGS,)
        case Heard(flags, beat_bytes):
            state = replace(state, flags=flags)
            if beat_bytes is not None:
                next_beat = now + state.lease_s / 4
                state = replace(state, next_beat=next_beat, reported_bytes=beat_bytes)
            return _after_a_look(state, now)
        case Checked(may_end):
            if state.command is Command.CONTINUE:
                return state, ()
            if state.command is Command.KEEP_AND_END and not may_end:
                return state, ()
            releasing = state.command is Command.SAVE_AND_RELEASE
            return replace(state, is_releasing=releasing), (Action.INTERRUPT,)
        case Progressed(trace):
            state = replace(state, moved=True, unwritten=(*state.unwritten, *trace))
            return state, (Action.REPORT,) if now >= state.next_report else ()
        case Reported(succeeded, elapsed_s):
            pause = max(REPORT_S, REPORT_SHARE * elapsed_s)
            state = replace(state, next_report=now + pause)
            return replace(state, unwritten=()) if succeeded else state, ()
        case Offered():
            if not state.moved:
                return state, ()
            number = state.checkpoints + 1
            return replace(state, checkpoints=number, saving_since=now), (Action.CHECKPOINT,)
        case Saved(succeeded):
            pause = max(state.checkpoint_s, CHECKPOINT_COST * (now - state.saving_since))
            state = replace(state, next_checkpoint=now + pause)
            if succeeded:
                state = replace(state, has_checkpoint=True, moved=False, unwritten=())
            return state, ()
        case Stopped():
            return replace(state, stopping=True), ()
        case Refused():
            return replace(state, lost=True), ()


def _after_a_look(state: AttemptState, now: float) -> tuple[AttemptState, tuple[Action, ...]]:
    """Release the job if the work has ignored for too long that it must."""
    if state.is_releasing or state.command is not Command.SAVE_AND_RELEASE:
        return replace(state, ignored_since=None), ()
    since = now if state.ignored_since is None else state.ignored_since
    patience = PAUSE_S if state.flags.pause else STOP_S
    ignores = now - since > patience
    return replace(state, ignored_since=since), (Action.RELEASE,) if ignores else ()


class Keeper(Protocol):
    """What `Leases` does for jobs: the writes about leased work. All raise LeaseLost."""

    def heartbeat(self, lease: Lease, lease_s: float, memory: Memory) -> ControlFlags: ...
    def control_flags(self, lease: Lease) -> ControlFlags: ...
    def report(self, lease: Lease, report: Report) -> None: ...
    def checkpoint(self, lease: Lease, number: int, content: bytes, report: Report) -> None: ...
    def release(self, lease: Lease, report: Report) -> None: ...


class Work:
    """Leased work, a job or a part of one, as a runner uses it."""

    def __init__(
        self,
        lease: Lease,
        leases: Keeper,
        settings: Settings,
        stopping: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`stopping` is set when this process ends."""
        self.job = lease.job
        self.progress = lease.job.progress
        """As last reported."""
        now = clock()
        self._state = AttemptState(
            lease_s=settings.lease_s,
            checkpoint_s=settings.checkpoint_s,
            memory_limit_bytes=settings.limits.worker_memory_bytes,
            started=now,
            has_checkpoint=lease.job.checkpoint_key is not None,
            flags=ControlFlags(end=lease.job.cancel_requested, pause=False),
            next_report=now + REPORT_S,  # a short job is reported by its end
            next_checkpoint=now + settings.checkpoint_s,
        )
        self.may_end = not self._state.has_checkpoint
        """Whether `KEEP_AND_END` interrupts the work: not while the model to keep is made."""
        self.lease = lease
        self._leases = leases
        self._stopping = stopping
        self._clock = clock
        self._lock = threading.Lock()
        self._reachable = True

    def _step(self, event: Event) -> tuple[Action, ...]:
        with self._lock:
            self._state, actions = step(self._state, event, self._clock())
        return actions

    @property
    def command(self) -> Command:
        if self._stopping.is_set():
            self._step(Stopped())
        return self._state.command

    def check(self) -> None:
        """Raises Interrupted if the work must stop. Cheap; callable in any thread."""
        command = self.command
        if command is not Command.CONTINUE and self._step(Checked(self.may_end)):
            raise Interrupted(command.name)

    def threads(self) -> int:
        """That the work may use now: the processors that other workers of this machine leave."""
        return max(1, len(os.sched_getaffinity(0)) // self._state.flags.busy)

    @property
    def has_checkpoint(self) -> bool:
        return self._state.has_checkpoint

    @property
    def elapsed_s(self) -> float:
        """Time spent on the job, all attempts together."""
        return self.job.elapsed_s + self._clock() - self._state.started

    def show(self, progress: dict[str, Any], trace: list[dict[str, Any]]) -> None:
        """Report progress. Written a few times a second; rows wait for the next write."""
        self.progress = progress
        if self._step(Progressed(trace)):
            try:
                self._leases.report(self.lease, self.latest_report())
                succeeded = True
            except PASSING:
                logger.exception("progress could not be written")
                succeeded = False
            self._step(Reported(succeeded, self.elapsed_s))

    def tell(self, **moment: Any) -> None:
        """Write at once what else is true of the progress, until the next report."""
        progress = {**self.progress, **moment}
        try:
            self._leases.report(self.lease, Report(progress=progress, elapsed_s=self.elapsed_s))
        except PASSING:
            logger.exception("progress could not be written")

    @property
    def checkpoint_is_due(self) -> bool:
        return self._state.moved and self._clock() >= self._state.next_checkpoint

    def save(self, content: bytes) -> None:
        """Make `content` the checkpoint of the next attempt, if there was progress since the last.

        A full disk or an unavailable database does not stop the work: it continues with the
        previous checkpoint.
        """
        if self._step(Offered()):
            number = self._state.checkpoints
            try:
                self._leases.checkpoint(self.lease, number, content, self.latest_report())
                succeeded = True
            except PASSING:
                logger.exception("checkpoint failed")
                succeeded = False
            self._step(Saved(succeeded))

    @contextmanager
    def saving(self, packed: Callable[[], bytes]) -> Iterator[None]:
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
        trace = list(self._state.unwritten)
        return Report(progress=self.progress, elapsed_s=self.elapsed_s, trace=trace)

    def look(self, used_bytes: int) -> bool:
        """Keep the lease, and read what the caller has requested. False once the lease is lost."""
        if self._stopping.is_set():
            self._step(Stopped())
        try:
            (action,) = self._step(Looked(used_bytes))
            if action is Action.BEAT:
                memory = Memory(used_bytes, self._state.memory_limit_bytes)
                flags = self._leases.heartbeat(self.lease, self._state.lease_s, memory)
                released = self._step(Heard(flags, used_bytes))
            else:
                released = self._step(Heard(self._leases.control_flags(self.lease), None))
            self._reachable = True
            if released:
                logger.warning("the work did not react to pause or stop; the job is released")
                self._leases.release(self.lease, self.latest_report())
                self._step(Refused())
        except LeaseLost:
            self._step(Refused())
        except PASSING:
            # The lease may last longer than the outage; if not, the next write is refused.
            if self._reachable:
                logger.exception("heartbeat failed")
            self._reachable = False
        return not self._state.lost


class Attempt(Work):
    """An attempt at a job."""

    def __init__(self, lease: Lease, leases: Leases, *given: Any, **also: Any) -> None:
        super().__init__(lease, leases, *given, **also)
        self._job_leases = leases

    def finish(self, outcome: Outcome, register: Register | None = None) -> None:
        """End the job and register its model in one transaction."""
        end = self._job_leases.finish
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
