"""A job: its states, and its row in the table.

queued ── leased by a worker ──▶ running ──▶ succeeded | failed | canceled
  ▲  │                            │   │
  ├──│── lease lost or given back ┘   │ given back, or its lease lost, after a request to pause
  │  ▼                                │
 paused ◀─────────────────────────────┘

From queued and paused a job can be canceled; resumed, a paused one is queued again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from service.storage.database.tables import JobRow

MAX_ATTEMPTS_WITHOUT_PROGRESS = 3
"""After this many lost leases since the last checkpoint the job fails as `worker-lost`."""


class State(StrEnum):
    QUEUED = "queued"
    """Accepted and durable; waits for a free worker, at the start or after a lost one."""
    RUNNING = "running"
    """A worker holds the lease of the present attempt."""
    PAUSED = "paused"
    """Waits to be resumed; then continues from its checkpoint."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELED})
ACTIVE = frozenset(State) - FINAL
WAITING = frozenset({State.QUEUED, State.PAUSED})
"""Accepted, and without a worker."""

TRANSITIONS = {
    State.QUEUED: frozenset({State.RUNNING, State.PAUSED, State.CANCELED}),
    State.RUNNING: frozenset({State.QUEUED, State.PAUSED, *FINAL}),
    State.PAUSED: frozenset({State.QUEUED, State.CANCELED}),
    State.SUCCEEDED: frozenset[State](),
    State.FAILED: frozenset[State](),
    State.CANCELED: frozenset[State](),
}


def sources(target: State) -> frozenset[State]:
    """The states that `target` may follow."""
    return frozenset(state for state, targets in TRANSITIONS.items() if target in targets)


class Effect(StrEnum):
    """What a request to cancel, pause or resume a job does."""

    ALREADY = "already"
    """The job is in the requested state already."""
    AT_ONCE = "at-once"
    REQUESTED = "requested"
    """A worker must do it."""
    IMPOSSIBLE = "impossible"


def cancellation(state: State, *, keep_model: bool, has_checkpoint: bool) -> Effect:
    """What canceling a job in this state does.

    Only a worker can make a model of a checkpoint. If none must be kept, the job ends at once even
    while it runs: its worker loses the lease and can write nothing more.
    """
    if state is State.CANCELED:
        return Effect.ALREADY
    if state in FINAL:
        return Effect.IMPOSSIBLE
    if keep_model and (state is State.RUNNING or has_checkpoint):
        return Effect.REQUESTED
    return Effect.AT_ONCE


def pausing(state: State, *, cancel_requested: bool) -> Effect:
    """What pausing a job in this state does; one that is being canceled is not paused."""
    if state is State.PAUSED:
        return Effect.ALREADY
    if state in FINAL or cancel_requested:
        return Effect.IMPOSSIBLE
    return Effect.AT_ONCE if state is State.QUEUED else Effect.REQUESTED


def resumption(state: State, *, pause_requested: bool) -> Effect:
    """What resuming a job in this state does; a request to pause is withdrawn."""
    if state in FINAL:
        return Effect.IMPOSSIBLE
    return Effect.AT_ONCE if state is State.PAUSED or pause_requested else Effect.ALREADY


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobRow):
    """A job, as it was when its row was read."""

    state: State

    @classmethod
    def from_row(cls, row: sa.Row[Any]) -> Job:
        values = dict(row._mapping)
        return cls(**{**values, "state": State(values["state"])})

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def log_context(self) -> dict[str, Any]:
        """The fields of every log line of the current attempt."""
        made_by = {} if self.request_id is None else {"request_id": self.request_id}
        return {"job_id": self.id, "attempt": self.attempt, **made_by}
