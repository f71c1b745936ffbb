"""The protocol of jobs as rules: what a process can do next to a job.

Each rule changes one job and one process. `Effect` says what that does to other processes with the
same job. A planted fault is a subclass that overrides one method.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from tests.service.protocol.states import (
    FINAL,
    KEY_TICKS,
    LEASE_TICKS,
    MAX_FAILED,
    Job,
    Key,
    Phase,
    Replica,
    State,
    Worker,
)

LAST = (Phase.LEAVING, Phase.LEFT, Phase.ENDING, Phase.ENDED)


class Effect(IntEnum):
    NONE = 0
    TAKEN = 1
    """There is a new attempt: all others are stale."""
    FOLDER = 2
    """The folder of checkpoints is deleted, with the files of writes in progress."""
    KEY = 3
    """There is a new reservation: all others are stale."""
    SWEPT = 4
    """Old files that no row names are deleted."""


class Move(NamedTuple):
    label: str
    job: Job
    process: Worker | Replica
    effect: Effect = Effect.NONE


class Rules:
    """The protocol as it must be; `epochs` is the progress of a finished training."""

    def __init__(self, epochs: int = 2) -> None:
        self.epochs = epochs

    # What planted faults override

    def owns(self, job: Job, worker: Worker) -> bool:
        """The fence of every write of a worker."""
        return job.state == State.RUNNING and bool(worker.current)

    def owns_checkpoint(self, job: Job, worker: Worker) -> bool:
        return self.owns(job, worker)

    def owns_end(self, job: Job, worker: Worker) -> bool:
        return self.owns(job, worker)

    def owns_release(self, job: Job, worker: Worker) -> bool:
        return self.owns(job, worker)

    def owns_heartbeat(self, job: Job, worker: Worker) -> bool:
        return self.owns(job, worker)

    def can_be_taken(self, job: Job) -> bool:
        return job.state == State.QUEUED

    def taken(self, job: Job, worker: Worker, number: int) -> Move:
        leased = job._replace(state=State.RUNNING, left=LEASE_TICKS)
        lease = Worker(
            phase=Phase.TAKEN,
            job=number,
            current=1,
            progress=job.checkpoint,
            end=job.cancel,
            told=job.cancel,
        )
        return Move("take", leased, lease, Effect.TAKEN)

    def is_lost(self, job: Job) -> bool:
        return job.state == State.RUNNING and job.left == 0

    def beaten(self, job: Job) -> Job:
        return job._replace(left=LEASE_TICKS)

    def ended(self, job: Job, state: int) -> Job:
        """With its event, in one transaction; no row names a checkpoint."""
        orphans = int(job.orphans or job.stored)
        job = job._replace(state=state, left=0, pause=0, checkpoint=0, stored=0, orphans=orphans)
        return job._replace(ends=job.ends + 1)

    def resolved(self, job: Job) -> Job:
        """After its worker was lost."""
        if job.cancel and not job.checkpoint:
            return self.ended(job, State.CANCELED)
        failed = min(MAX_FAILED, job.failed + 1)  # more makes no difference
        if job.pause:
            return job._replace(state=State.PAUSED, left=0, pause=0, failed=failed)
        if failed >= MAX_FAILED:
            return self.ended(job, State.FAILED)
        return job._replace(state=State.QUEUED, left=0, failed=failed)

    def released(self, job: Job) -> Job:
        state = State.PAUSED if job.pause else State.QUEUED
        return job._replace(state=state, left=0, pause=0)

    def named(self, job: Job, worker: Worker) -> Job:
        return job._replace(checkpoint=worker.progress, stored=worker.file, failed=0)

    def begin_save(self, job: Job, worker: Worker) -> Move:
        """The file is written before the row."""
        return Move("write checkpoint", job, worker._replace(phase=Phase.SAVING, file=1))

    def saved(self, job: Job, worker: Worker) -> Move:
        return Move("saved", job, worker._replace(phase=Phase.WORKING, moved=0, file=0))

    def save_failed(self, job: Job, worker: Worker, label: str) -> Move:
        """Committed or not is unknown, so no file is deleted."""
        job = job._replace(orphans=job.orphans | worker.file)
        return Move(label, job, worker._replace(phase=Phase.WORKING, file=0))

    def finished(self, job: Job, worker: Worker) -> Job:
        job = self.ended(job, worker.outcome // 2)
        return job._replace(versions=job.versions + worker.outcome % 2)

    def command(self, worker: Worker) -> str:
        if worker.lost:
            return "drop"
        if worker.end:
            return "keep and end"
        return "release" if worker.pause or worker.stopping else "continue"

    def heard(self, job: Job, worker: Worker) -> Worker:
        return worker._replace(end=job.cancel, pause=job.pause)

    def canceled(self, job: Job, keep: int) -> tuple[Job, bool] | None:
        """And whether it ended at once; None if it is refused, or changes nothing."""
        if job.state in FINAL:
            return None
        if keep and (job.state == State.RUNNING or job.checkpoint):
            state = State.QUEUED if job.state == State.PAUSED else job.state
            return job._replace(state=state, cancel=1, keep=1, pause=0), False
        return self.ended(job, State.CANCELED)._replace(cancel=1, keep=0), True

    def paused(self, job: Job) -> Job | None:
        if job.state in FINAL or job.cancel or job.state == State.PAUSED:
            return None
        if job.state == State.QUEUED:
            return job._replace(state=State.PAUSED)
        return job._replace(pause=1)

    def resumed(self, job: Job) -> Job | None:
        if job.state == State.PAUSED:
            return job._replace(state=State.QUEUED)
        return job._replace(pause=0) if job.pause else None

    def can_reserve(self, job: Job) -> bool:
        return job.key == Key.FREE or (job.key == Key.RESERVED and job.key_left == 0)

    def holds(self, job: Job, replica: Replica) -> bool:
        return bool(replica.holds) and job.key == Key.RESERVED

    def created(self, job: Job) -> Job:
        return job._replace(
            state=State.QUEUED, key=Key.REPLIED, key_left=0, created=job.created + 1
        )

    def swept(self, job: Job) -> tuple[Job, Effect]:
        """Old files that no row names are deleted. A file that is to be named is young."""
        return job._replace(orphans=0), Effect.SWEPT

    def is_swept(self, worker: Worker, effect: Effect) -> bool:
        return effect is Effect.SWEPT and worker.phase == Phase.SAVED

    # What each process can do

    def idle_worker(self, job: Job, worker: Worker, number: int) -> Iterator[Move]:
        if self.can_be_taken(job):
            yield self.taken(job, worker, number)
        if self.is_lost(job):
            after = self.resolved(job)
            reclaims = Worker(phase=Phase.RECLAIMED, job=number)
            yield Move("reclaim", after, reclaims if after.state in FINAL else worker)

    def worker(self, job: Job, worker: Worker) -> Iterator[Move]:
        yield from self._work(job, worker)
        if worker.phase not in (Phase.TAKEN, Phase.RECLAIMED):
            yield from self._heartbeat(job, worker)
        if not worker.stopping and worker.phase != Phase.RECLAIMED:
            yield Move("stop", job, worker._replace(stopping=1))
        orphans = job._replace(orphans=job.orphans | worker.file)
        yield Move("kill", orphans, Worker())
        if self.owns(job, worker):  # the supervisor knows that it died
            yield Move("kill and expire", orphans._replace(left=0), Worker())

    def _work(self, job: Job, worker: Worker) -> Iterator[Move]:
        match worker.phase:
            case Phase.TAKEN:
                yield Move("start", job, worker._replace(phase=Phase.WORKING))
                if not self.owns(job, worker):  # its checkpoint may be deleted by now
                    yield Move("start", job, worker._replace(phase=Phase.WORKING, progress=0))
                yield Move("reply lost", job, Worker())
            case Phase.WORKING:
                yield from self._training(job, worker)
            case Phase.SAVING:
                if self.owns_checkpoint(job, worker):
                    phase = worker._replace(phase=Phase.SAVED, file=job.stored)
                    yield Move("commit checkpoint", self.named(job, worker), phase)
                else:
                    yield Move("refused", job, Worker())
                yield self.save_failed(job, worker, "no commit")
            case Phase.SAVED:
                yield self.saved(job, worker)
                yield self.save_failed(job, worker, "reply lost")
            case Phase.LEAVING:
                if self.owns_release(job, worker):
                    yield Move("release", self.released(job), worker._replace(phase=Phase.LEFT))
                else:
                    yield Move("refused", job, Worker())
                if worker.stopping:
                    yield Move("give up", job, Worker())
            case Phase.LEFT:
                yield Move("left", job, Worker())
                yield Move("reply lost", job, worker._replace(phase=Phase.LEAVING))
            case Phase.ENDING:
                if self.owns_end(job, worker):
                    yield Move(
                        "end", self.finished(job, worker), worker._replace(phase=Phase.ENDED)
                    )
                else:
                    yield Move("refused", job, Worker())
                if worker.stopping:
                    yield Move("give up", job, Worker())
                    yield Move("give up", job, leaving(worker))
            case Phase.ENDED:
                yield Move("ended", job._replace(orphans=0), Worker(), Effect.FOLDER)
                yield Move("reply lost", job, worker._replace(phase=Phase.ENDING))
            case Phase.RECLAIMED:
                yield Move("cleared", job._replace(orphans=0), Worker(), Effect.FOLDER)

    def _training(self, job: Job, worker: Worker) -> Iterator[Move]:
        command = self.command(worker)
        if worker.moved:
            yield self.begin_save(job, worker)
        if worker.progress == self.epochs:
            yield Move("train", job, _ending(worker, State.SUCCEEDED, 1))
        elif command == "continue":
            yield Move("train", job, worker._replace(progress=worker.progress + 1, moved=1))
        elif command == "keep and end":
            yield Move("obey", job, _ending(worker, State.CANCELED, worker.progress > 0))
        if command == "drop":
            yield Move("drop", job, Worker())
            return
        if command == "continue":
            yield Move("diverge", job, _ending(worker, State.FAILED, 0))
        # At a command to release, or because a file cannot be read for the moment.
        yield Move("leave", job, leaving(worker))

    def _heartbeat(self, job: Job, worker: Worker) -> Iterator[Move]:
        if worker.lost:
            return
        if worker.phase in LAST:  # what it believes makes no difference any more
            if self.owns_heartbeat(job, worker):
                yield Move("beat", self.beaten(job), worker)
        elif self.owns_heartbeat(job, worker):
            yield Move("beat", self.beaten(job), self.heard(job, worker))
            yield Move("look", job, self.heard(job, worker))
        else:
            yield Move("look", job, dropping(worker))
        if self._ignores(job, worker) and self.owns_release(job, worker):
            then = worker if worker.phase in LAST else dropping(worker)
            yield Move("release", self.released(job), then)

    def _ignores(self, job: Job, worker: Worker) -> bool:
        """The work may have ignored for too long that it must release the job."""
        if worker.phase in LAST:
            return bool((job.pause or worker.stopping) and not job.cancel)
        return self.command(worker) == "release"

    def replica(self, job: Job, replica: Replica, number: int) -> Iterator[Move]:
        """Of a busy replica `number` is the job of its request, else any."""
        free = replica._replace(phase=Phase.IDLE, job=0, holds=0)
        match replica.phase:
            case Phase.IDLE:
                yield from self._request(job, replica, number)
                return
            case Phase.RESERVING:
                if self.holds(job, replica):
                    created = replica._replace(phase=Phase.CREATED, holds=0)
                    yield Move("create", self.created(job), created)
                    yield Move("renew", job._replace(key_left=KEY_TICKS), replica)
                    yield Move("refuse", job._replace(key=Key.FREE, key_left=0), free)
                else:
                    yield Move("conflict", job, free)
            case Phase.CREATED:
                yield Move("reply", job._replace(acknowledged=1), free)
            case Phase.CANCELING:
                yield Move("clear", job._replace(orphans=0), free, Effect.FOLDER)
        yield Move("kill", job, free)

    def _request(self, job: Job, replica: Replica, number: int) -> Iterator[Move]:
        if self.can_reserve(job):
            reserved = job._replace(key=Key.RESERVED, key_left=KEY_TICKS)
            holder = replica._replace(phase=Phase.RESERVING, job=number, holds=1)
            yield Move("reserve", reserved, holder, Effect.KEY)
        if job.key == Key.REPLIED and not job.acknowledged:
            yield Move("replay", job._replace(acknowledged=1), replica)
        if job.state == State.ABSENT:
            return
        if seen := _seen(job, replica, number):
            yield Move("watch", job, seen)
        for keep, label in enumerate(("cancel", "cancel and keep")):
            canceled = self.canceled(job, keep)
            if canceled is not None and canceled[0] != job:
                after, at_once = canceled
                clears = replica._replace(phase=Phase.CANCELING, job=number)
                yield Move(label, after, clears if at_once else replica)
        for label, changed in (("pause", self.paused(job)), ("resume", self.resumed(job))):
            if changed is not None and changed != job:
                yield Move(label, changed, replica)

    def clock(self, job: Job) -> Job:
        """A tick later."""
        return job._replace(left=max(0, job.left - 1), key_left=max(0, job.key_left - 1))

    def clock_back(self, job: Job) -> Job:
        """The database's clock jumps back by a tick: leases last longer."""
        lasts = job.state == State.RUNNING
        reserved = job.key == Key.RESERVED
        return job._replace(left=job.left + lasts, key_left=job.key_left + reserved)

    def affected(self, process: Worker | Replica, effect: Effect) -> Worker | Replica:
        """Another process with the same job."""
        if isinstance(process, Replica):
            return process._replace(holds=0) if effect is Effect.KEY else process
        if effect is Effect.TAKEN:
            return process._replace(current=0)
        if effect is Effect.FOLDER or self.is_swept(process, effect):
            return process._replace(file=0)
        return process


def leaving(worker: Worker) -> Worker:
    """Without what makes no difference any more."""
    return Worker(Phase.LEAVING, worker.job, worker.current, stopping=worker.stopping)


def dropping(worker: Worker) -> Worker:
    """It knows that the lease is lost."""
    return worker._replace(lost=1, end=0, pause=0)


def _ending(worker: Worker, state: State, with_model: int) -> Worker:
    return leaving(worker)._replace(phase=Phase.ENDING, outcome=2 * state + with_model)


def _seen(job: Job, replica: Replica, number: int) -> Replica | None:
    seen = 2 if job.state in FINAL else 1
    if not replica.seen or replica.seen[number] == seen:
        return None
    return replica._replace(seen=(*replica.seen[:number], seen, *replica.seen[number + 1 :]))
