"""What every step of the protocol must keep, in the model and in the real code: one list."""

from __future__ import annotations

from collections.abc import Callable

from tests.service.protocol.states import (
    FINAL,
    LEASE_TICKS,
    MAX_FAILED,
    Job,
    Key,
    Phase,
    Replica,
    State,
    Worker,
)

CANCELS, RESUMES = ("cancel", "cancel and keep"), ("resume",)


def no_acknowledged_job_is_lost(before: Job, after: Job, label: str) -> bool:
    """It has a row, and fails as lost only after three attempts without a checkpoint."""
    if label == "reclaim" and after.state == State.FAILED and before.failed < MAX_FAILED - 1:
        return False
    return after.state != State.ABSENT or not (after.acknowledged or before.state)


def a_checkpoint_is_forgiveness(before: Job, after: Job, label: str) -> bool:
    """Failed attempts are counted since the last checkpoint, and only when a worker was lost."""
    if label == "reclaim" and after.state not in FINAL:
        return after.failed == min(MAX_FAILED, before.failed + 1)
    if label == "commit checkpoint" and after.checkpoint and after != before:
        return after.failed == 0
    return after.failed == before.failed


def it_ends_once(before: Job, after: Job, label: str) -> bool:
    """With one event of its end, in the transaction of the end."""
    return after.ends == (after.state in FINAL)


def versions_are_not_doubled(before: Job, after: Job, label: str) -> bool:
    """A job has at most one version, and one that succeeded has it."""
    return after.versions <= (after.state in FINAL) and (
        after.state != State.SUCCEEDED or after.versions == 1
    )


def a_final_state_is_not_left(before: Job, after: Job, label: str) -> bool:
    return before.state not in FINAL or after.state == before.state


def checkpoints_do_not_go_back(before: Job, after: Job, label: str) -> bool:
    """The named one has its file, and at least the progress of the one before."""
    if after.state in FINAL:
        return after.checkpoint == 0
    return after.checkpoint >= before.checkpoint and (not after.checkpoint or bool(after.stored))


def events_have_no_gaps(before: Job, after: Job, label: str) -> bool:
    return after.gaps == 0


def keys_create_once(before: Job, after: Job, label: str) -> bool:
    """A key has a reply if and only if its job exists, and one job."""
    return after.created <= 1 and (after.key == Key.REPLIED) == (after.created == 1)


def pause_is_obeyed(before: Job, after: Job, label: str) -> bool:
    """A paused job stays so until it is resumed or canceled; one that must pause is not queued."""
    if label in (*CANCELS, *RESUMES):
        return True
    if before.state == State.PAUSED:
        return after.state == State.PAUSED
    return not before.pause or bool(after.pause) or after.state not in (State.QUEUED, State.RUNNING)


def cancel_is_obeyed(before: Job, after: Job, label: str) -> bool:
    """Nothing withdraws it; it overrules a pause; a worker is needed only for a model to keep."""
    if before.cancel and not after.cancel:
        return False
    if after.cancel and (after.pause or after.state == State.PAUSED):
        return False
    # Else the job waits for a worker although there is nothing to make a model of.
    if after.state == State.QUEUED and before.state == State.RUNNING and label == "reclaim":
        return not after.cancel or bool(after.checkpoint)
    if label == "cancel":
        return after.state in FINAL
    return True


def a_live_lease_is_kept(before: Job, after: Job, label: str) -> bool:
    """A heartbeat renews it, and no other worker takes the job before it has expired."""
    if label == "beat":
        return after.left == LEASE_TICKS
    return label != "reclaim" or before.left == 0


JOB_INVARIANTS: tuple[Callable[[Job, Job, str], bool], ...] = (
    no_acknowledged_job_is_lost,
    a_checkpoint_is_forgiveness,
    it_ends_once,
    versions_are_not_doubled,
    a_final_state_is_not_left,
    checkpoints_do_not_go_back,
    events_have_no_gaps,
    keys_create_once,
    pause_is_obeyed,
    cancel_is_obeyed,
    a_live_lease_is_kept,
)


def broken_by_job(before: Job, after: Job, label: str) -> list[str]:
    """Names of the invariants that this change of a job breaks."""
    return [rule.__name__ for rule in JOB_INVARIANTS if not rule(before, after, label)]


def broken_by_worker(
    job: Job, worker: Worker, job_after: Job, worker_after: Worker, label: str
) -> list[str]:
    """The same for a step of a worker on its job."""
    broken = broken_by_job(job, job_after, label)
    on_job = worker.phase not in (Phase.IDLE, Phase.RECLAIMED)
    visible = job_after._replace(orphans=0) != job._replace(orphans=0)
    if on_job and visible and not (worker.current and job.state == State.RUNNING):
        broken.append("a_stale_attempt_changes_nothing")
    if worker.told and worker_after.progress > worker.progress:
        broken.append("cancel_is_obeyed")
    if worker.pause and worker.current and worker_after.progress > worker.progress:
        broken.append("pause_is_obeyed")
    if label == "take":
        if worker_after.progress < job.checkpoint:
            broken.append("checkpoints_do_not_go_back")
        if job.state != State.QUEUED:
            broken.append("one_attempt_at_a_time")
    return broken


def broken_by_replica(before: Replica, after: Replica) -> list[str]:
    """What a replica has seen does not go back."""
    backward = any(new < old for old, new in zip(before.seen, after.seen, strict=True))
    return ["a_final_state_is_not_left"] if backward else []


def broken_by_workers(workers: tuple[Worker, ...]) -> list[str]:
    """No two workers have the present attempt of a job."""
    current = [worker.job for worker in workers if worker.current]
    return ["one_attempt_at_a_time"] if len(current) != len(set(current)) else []
