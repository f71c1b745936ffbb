"""Wrong versions of the protocol, planted in the model: each overrides one rule."""

from __future__ import annotations

from collections.abc import Iterator

from tests.service.protocol.rules import Effect, Move, Rules
from tests.service.protocol.states import FINAL, MAX_FAILED, Job, Key, Phase, Replica, State, Worker


class NoAttemptInTheFence(Rules):
    def owns(self, job: Job, worker: Worker) -> bool:
        return job.state == State.RUNNING


class NoStateInTheFence(Rules):
    def owns(self, job: Job, worker: Worker) -> bool:
        return bool(worker.current)


class CheckpointsWithoutTheFence(Rules):
    def owns_checkpoint(self, job: Job, worker: Worker) -> bool:
        return True


class EndsWithoutTheFence(Rules):
    def owns_end(self, job: Job, worker: Worker) -> bool:
        return True


class ReleasesWithoutTheFence(Rules):
    def owns_release(self, job: Job, worker: Worker) -> bool:
        return True


class HeartbeatsWithoutTheFence(Rules):
    def owns_heartbeat(self, job: Job, worker: Worker) -> bool:
        return True


class LeaseNotRenewed(Rules):
    def beaten(self, job: Job) -> Job:
        return job


class AttemptNotCounted(Rules):
    def taken(self, job: Job, worker: Worker, number: int) -> Move:
        return super().taken(job, worker, number)._replace(effect=Effect.NONE)


class RunningJobsTaken(Rules):
    def can_be_taken(self, job: Job) -> bool:
        return job.state in (State.QUEUED, State.RUNNING)


class PausedJobsTaken(Rules):
    def can_be_taken(self, job: Job) -> bool:
        return job.state in (State.QUEUED, State.PAUSED)


class CheckpointNamedBeforeItIsWritten(Rules):
    def begin_save(self, job: Job, worker: Worker) -> Move:
        named = self.named(job, worker._replace(file=0))
        return Move("commit checkpoint", named, worker._replace(phase=Phase.SAVING, file=1))


class OldCheckpointDeletedFirst(Rules):
    def begin_save(self, job: Job, worker: Worker) -> Move:
        return super().begin_save(job._replace(stored=0), worker)


class FileDeletedAtALostReply(Rules):
    def save_failed(self, job: Job, worker: Worker, label: str) -> Move:
        if label == "reply lost":
            job = job._replace(stored=0)
        return super().save_failed(job, worker, label)


class CheckpointDoesNotForgive(Rules):
    def named(self, job: Job, worker: Worker) -> Job:
        return super().named(job, worker)._replace(failed=job.failed)


class TrainingFromTheStart(Rules):
    def taken(self, job: Job, worker: Worker, number: int) -> Move:
        move = super().taken(job, worker, number)
        assert isinstance(move.process, Worker)
        return move._replace(process=move.process._replace(progress=0))


class CancelForgottenByTheNextAttempt(Rules):
    def taken(self, job: Job, worker: Worker, number: int) -> Move:
        move = super().taken(job, worker, number)
        assert isinstance(move.process, Worker)
        return move._replace(process=move.process._replace(end=0))


class CancelForgottenAtRelease(Rules):
    def released(self, job: Job) -> Job:
        return super().released(job)._replace(cancel=0)


class PauseForgottenAtRelease(Rules):
    def released(self, job: Job) -> Job:
        return super().released(job._replace(pause=0))


class PauseIgnoredByTheWork(Rules):
    def command(self, worker: Worker) -> str:
        return super().command(worker._replace(pause=0))


class CheckpointsDeletedAtRelease(Rules):
    def released(self, job: Job) -> Job:
        return super().released(job)._replace(stored=0)


class EventOutsideTheTransaction(Rules):
    def released(self, job: Job) -> Job:
        return super().released(job)._replace(gaps=1)


class EndTwice(Rules):
    def ended(self, job: Job, state: int) -> Job:
        return super().ended(job, state)._replace(ends=job.ends + 2)


class VersionBeforeTheEnd(Rules):
    def _training(self, job: Job, worker: Worker) -> Iterator[Move]:
        for move in super()._training(job, worker):
            assert isinstance(move.process, Worker)
            versions = job.versions + move.process.outcome % 2
            yield move._replace(job=move.job._replace(versions=versions))

    def finished(self, job: Job, worker: Worker) -> Job:
        return self.ended(job, worker.outcome // 2)


class LeasesForever(Rules):
    def is_lost(self, job: Job) -> bool:
        return False


class LiveLeasesReclaimed(Rules):
    def is_lost(self, job: Job) -> bool:
        return job.state == State.RUNNING


class FailedAtTheSecondLoss(Rules):
    def resolved(self, job: Job) -> Job:
        return super().resolved(job._replace(failed=max(job.failed, MAX_FAILED - 2)))


class LossesNotCounted(Rules):
    def resolved(self, job: Job) -> Job:
        return super().resolved(job)._replace(failed=job.failed)


class LostJobForgetsItsPause(Rules):
    def resolved(self, job: Job) -> Job:
        return super().resolved(job._replace(pause=0))


class LostJobForgetsItsCancel(Rules):
    def resolved(self, job: Job) -> Job:
        return super().resolved(job._replace(cancel=0))._replace(cancel=job.cancel)


class CancelOfAnEndedJob(Rules):
    def canceled(self, job: Job, keep: int) -> tuple[Job, bool] | None:
        if job.state in (State.SUCCEEDED, State.FAILED):
            return job._replace(state=State.CANCELED, cancel=1), True
        return super().canceled(job, keep)


class CancelOnlyRequested(Rules):
    def canceled(self, job: Job, keep: int) -> tuple[Job, bool] | None:
        if job.state == State.RUNNING:
            return job._replace(cancel=1, keep=keep, pause=0), False
        return super().canceled(job, keep)


class CancelKeepsThePause(Rules):
    def canceled(self, job: Job, keep: int) -> tuple[Job, bool] | None:
        canceled = super().canceled(job, keep)
        if canceled is None or canceled[1]:
            return canceled
        return canceled[0]._replace(pause=job.pause), False


class PauseOfACanceledJob(Rules):
    def paused(self, job: Job) -> Job | None:
        return super().paused(job._replace(cancel=0)) and job._replace(pause=1)


class KeyNotUnique(Rules):
    def can_reserve(self, job: Job) -> bool:
        return True


class CreationWithoutTheReservation(Rules):
    def holds(self, job: Job, replica: Replica) -> bool:
        return True


class ReplyAfterTheTransaction(Rules):
    def created(self, job: Job) -> Job:
        return super().created(job)._replace(key=Key.RESERVED)


class ReservationsForever(Rules):
    def can_reserve(self, job: Job) -> bool:
        return job.key == Key.FREE


class SweepOfYoungFiles(Rules):
    def is_swept(self, worker: Worker, effect: Effect) -> bool:
        return effect is Effect.SWEPT


class ResumeOfAnEndedJob(Rules):
    def resumed(self, job: Job) -> Job | None:
        if job.state in FINAL:
            return job._replace(state=State.QUEUED)
        return super().resumed(job)


PLANTED: tuple[type[Rules], ...] = tuple(Rules.__subclasses__())
