"""The states of the protocol of parts, as small tuples.

The job's own protocol is that of `tests.service.protocol.states`; of a job it only matters here
whether it runs, and whose attempt is the present one.
"""

from __future__ import annotations

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


class Believes(IntEnum):
    """What the worker of a job believes of a part."""

    OWN = 0
    LENT = 1
    HAS = 2
    """Its work is in the job."""


class Job(NamedTuple):
    state: int = JobState.QUEUED
    pause: int = 0
    waits: int = 0
    """Another job waits."""
    saved: tuple[int, ...] = ()
    """What the job's checkpoint has of each part."""
    work: tuple[int, ...] = ()
    """How often each part is in the result of a job that succeeded."""


class Phase(IntEnum):
    """What a process does; each write in two steps, before the commit and before its reply."""

    GONE = 0
    WORKING = 1
    OFFERING = 2
    OFFERED = 3
    CLAIMING = 4
    CLAIMED = 5
    SAVING = 6
    """Of a helper: the checkpoint's file is written."""
    SAVED = 7
    DELIVERING = 8
    """The result's file is written."""
    DELIVERED = 9
    LEAVING = 10
    LEFT = 11
    REFUSING = 12
    REFUSED = 13


class Worker(NamedTuple):
    """The worker of the job, or one that was wrongly considered lost."""

    phase: int = Phase.GONE
    current: int = 0
    believes: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    """How often it has put the work of each part into the job."""
    part: int = 0
    """Of its write in progress."""
    as_read: int = 0
    """No one has leased that part since it was read."""


class Helper(NamedTuple):
    phase: int = Phase.GONE
    part: int = 0
    current: int = 0
    """Its lease is the part's last, and the row was not deleted since."""
    progress: int = 0
    file: int = 0
    """The file of its write in progress exists."""
    leave: int = 0
    """It knows that it must leave."""


class State(NamedTuple):
    job: Job
    rows: tuple[Row, ...]
    workers: tuple[Worker, ...]
    helpers: tuple[Helper, ...]
