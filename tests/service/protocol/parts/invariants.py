"""What every step of the protocol of parts must keep.

Schedules of the real code read the tables as small tuples. The job's own protocol is that of
`tests.service.protocol.states`; of a job it only matters here whether it runs, and whose attempt is
the present one.

A step changes a row on behalf of a worker (it offers or claims, and the job may end), a helper (it
takes a part, or writes about the one that it has), or no one (time passes, a file is swept).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

LEASE_TICKS = 1
"""After this many ticks without a heartbeat a lease has expired."""
MAX_FAILURES = 2


class JobState(IntEnum):
    QUEUED = 1
    RUNNING = 2
    PAUSED = 3
    SUCCEEDED = 4
    CANCELED = 5


FINAL = (JobState.SUCCEEDED, JobState.CANCELED)


class RowState(IntEnum):
    ABSENT = 0
    FREE = 1
    LEASED = 2
    """Or the lease has expired: then no tick is left."""
    DONE = 3


class Row(NamedTuple):
    """A row of `job_parts`, and the file that it names."""

    state: int = RowState.ABSENT
    left: int = 0
    """Ticks until the lease has expired."""
    failures: int = 0
    checkpoint: int = 0
    """Progress in the named checkpoint, in the result once it is done."""
    stored: int = 1
    """The named file exists and is whole, or none is named."""


class Job(NamedTuple):
    state: int = JobState.QUEUED
    pause: int = 0
    work: tuple[int, ...] = ()
    """How often each part is in the result of a job that succeeded."""


class Change(NamedTuple):
    """Of one row, and what is known of the job."""

    by: str
    """worker, take, helper or time"""
    current: bool
    """It has the present lease of the job, or of the part, before the step."""
    job: Job
    """Before the step."""
    before: Row
    after: Row
    job_after: Job
    units: int
    """The progress of a result."""
    beats: bool = False
    """A helper renews its lease."""


def can_be_taken(row: Row) -> bool:
    """No one does it."""
    free = row.state == RowState.FREE
    return free or (row.state == RowState.LEASED and row.left == 0)


def _visible(change: Change) -> bool:
    return change.before != change.after


def a_stale_lease_changes_nothing(change: Change) -> bool:
    if change.job_after.state in FINAL:  # that is the job's own protocol
        return True
    if change.by == "time":
        return change.after._replace(left=0) == change.before._replace(left=0)
    return change.by == "take" or change.current or not _visible(change)


def only_its_job_offers_and_claims(change: Change) -> bool:
    absent = RowState.ABSENT
    if (change.before.state == absent) == (change.after.state == absent):
        return change.by != "worker" or not _visible(change)
    ends = change.job_after.state in FINAL
    return ends or (change.by == "worker" and change.job.state == JobState.RUNNING)


def a_live_lease_is_kept(change: Change) -> bool:
    """No one else takes or claims a part before its lease has expired."""
    if change.beats and change.current and change.after.left != LEASE_TICKS:
        return False
    if change.by == "take":
        return can_be_taken(change.before)
    claimed = change.by == "worker" and change.after.state == RowState.ABSENT
    if not claimed or change.job_after.state in FINAL:
        return True
    damaged = change.before.state == RowState.DONE and not change.before.stored
    return not _visible(change) or can_be_taken(change.before) or damaged


def checkpoints_do_not_go_back(change: Change) -> bool:
    """While the row exists; the named one has its file."""
    if RowState.ABSENT in (change.before.state, change.after.state):
        return True
    kept = change.after.checkpoint >= change.before.checkpoint
    return kept and change.after.stored >= change.before.stored


def a_file_is_written_before_it_is_named(change: Change) -> bool:
    return bool(change.after.stored) or not change.before.stored


def a_result_is_whole_and_named_once(change: Change) -> bool:
    if change.after.state == RowState.DONE and change.after.checkpoint != change.units:
        return False
    return change.before.state != RowState.DONE or change.after.state in (
        RowState.DONE,
        RowState.ABSENT,
    )


def lost_helpers_are_counted(change: Change) -> bool:
    """A part at which two were lost is left to the job."""
    if change.by == "take":
        counted = change.after.failures == change.before.failures + 1
        return counted and change.before.failures < MAX_FAILURES
    saved = change.by == "helper" and change.after.checkpoint > change.before.checkpoint
    if saved and change.after.state == RowState.LEASED:
        return change.after.failures == 0
    return change.after.failures <= MAX_FAILURES


def a_job_that_stops_gets_no_help(change: Change) -> bool:
    return change.by != "take" or (change.job.state == JobState.RUNNING and not change.job.pause)


def no_row_after_the_end(change: Change) -> bool:
    return change.job_after.state not in FINAL or change.after.state == RowState.ABSENT


INVARIANTS: tuple[Callable[[Change], bool], ...] = (
    a_stale_lease_changes_nothing,
    only_its_job_offers_and_claims,
    a_live_lease_is_kept,
    checkpoints_do_not_go_back,
    a_file_is_written_before_it_is_named,
    a_result_is_whole_and_named_once,
    lost_helpers_are_counted,
    a_job_that_stops_gets_no_help,
    no_row_after_the_end,
)


def broken_by(change: Change) -> list[str]:
    """Names of the invariants that this step breaks."""
    return [rule.__name__ for rule in INVARIANTS if not rule(change)]


def broken_by_result(job: Job) -> list[str]:
    """A job succeeds with the work of every part, of each once."""
    succeeded = job.state == JobState.SUCCEEDED
    return ["every_part_is_in_it_once"] if succeeded and set(job.work) != {1} else []
