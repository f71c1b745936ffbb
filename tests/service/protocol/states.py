"""The states of the protocol of jobs, as small tuples.

The model moves between them, and `views` reads them from the real tables, files and attempts. What
no process compares is left out: of attempts only whether a worker's is the present one, of files
only whether a row, a write in progress or neither names them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class State(IntEnum):
    """Of a job; 0 before its row exists."""

    ABSENT = 0
    QUEUED = 1
    RUNNING = 2
    PAUSED = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELED = 6


LEASE_TICKS = 2
"""After this many ticks without a heartbeat a lease has expired."""
KEY_TICKS = 1
"""The same for the reservation of a key."""
MAX_FAILED = 3
"""After this many attempts without progress a job fails; more are not counted."""
FINAL = (State.SUCCEEDED, State.FAILED, State.CANCELED)


class Key(IntEnum):
    """Of the idempotency key of the request that creates a job."""

    FREE = 0
    RESERVED = 1
    REPLIED = 2


class Phase(IntEnum):
    """What a worker or replica does. Each writes in two steps: what was prepared is committed, and
    the reply to the commit arrives."""

    IDLE = 0
    TAKEN = 1
    """The lease is committed."""
    WORKING = 2
    SAVING = 3
    """The checkpoint's file is written."""
    SAVED = 4
    """The row names the checkpoint; the file before still exists."""
    LEAVING = 5
    """The job is about to be released."""
    LEFT = 6
    ENDING = 7
    """The model's file is written."""
    ENDED = 8
    """Job and version are committed; the folder of checkpoints still exists."""
    RECLAIMED = 9
    """The job of a lost worker has ended; the folder of checkpoints still exists."""
    RESERVING = 10
    """Of a replica: it holds the reservation of the key."""
    CREATED = 11
    """Of a replica: job and reply are committed."""
    CANCELING = 12
    """Of a replica: the end is committed; the folder of checkpoints still exists."""


class Job(NamedTuple):
    """A job, its key and its files."""

    state: int = State.ABSENT
    left: int = 0
    """Ticks until the lease has expired; 0 if it has, or if there is none."""
    checkpoint: int = 0
    """Progress in the named checkpoint; 0 if there is none."""
    stored: int = 0
    """The named file exists."""
    orphans: int = 0
    """Files exist in its folder that neither the row nor a write in progress names."""
    failed: int = 0
    """Attempts without progress."""
    cancel: int = 0
    keep: int = 0
    pause: int = 0
    versions: int = 0
    ends: int = 0
    """Events of an end."""
    gaps: int = 0
    """Changes whose event is missing."""
    key: int = Key.FREE
    key_left: int = 0
    """Ticks until the reservation has expired."""
    created: int = 0
    """Rows made by requests with this key."""
    acknowledged: int = 0
    """The caller knows of the job."""


class Worker(NamedTuple):
    """What a worker believes, and its write in progress."""

    phase: int = Phase.IDLE
    job: int = 0
    current: int = 0
    """Its attempt is the job's present one."""
    progress: int = 0
    moved: int = 0
    """There was progress since the last checkpoint."""
    file: int = 0
    """SAVING: the new file exists. SAVED: the file before does."""
    end: int = 0
    """It knows that the job is canceled, and that the model must be kept."""
    pause: int = 0
    lost: int = 0
    """It knows that the lease is lost."""
    stopping: int = 0
    outcome: int = 0
    """ENDING: twice the final state, plus 1 with a model."""
    told: int = 0
    """The job was already canceled when it was taken."""


class Replica(NamedTuple):
    """An API process: the request that it carries out, and what it has seen."""

    phase: int = Phase.IDLE
    job: int = 0
    holds: int = 0
    """The reservation of the key is its own."""
    seen: tuple[int, ...] = ()
    """Of each job: 0 nothing, 1 that it exists, 2 its end."""
