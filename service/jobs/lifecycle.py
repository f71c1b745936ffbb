"""The states of a job and what may follow what.

queued ── leased by a worker ──▶ running ──▶ succeeded | failed | canceled
  ▲  │                              │
  │  └── canceled while waiting     │
  └── lease lost or handed back ────┘
"""

from __future__ import annotations

from enum import StrEnum

MAX_FRUITLESS_ATTEMPTS = 3
"""So many leases lost since the last checkpoint, and the job fails as `worker-lost`."""


class State(StrEnum):
    QUEUED = "queued"
    """Accepted and durable; waits for a free worker, at the start or after a lost one."""
    RUNNING = "running"
    """A worker holds the lease of the present attempt."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELED})

TRANSITIONS = {
    State.QUEUED: frozenset({State.RUNNING, State.CANCELED}),
    State.RUNNING: frozenset({State.QUEUED, *FINAL}),
    State.SUCCEEDED: frozenset[State](),
    State.FAILED: frozenset[State](),
    State.CANCELED: frozenset[State](),
}


def sources(target: State) -> frozenset[State]:
    """The states that `target` may follow."""
    return frozenset(state for state, targets in TRANSITIONS.items() if target in targets)


class Cancellation(StrEnum):
    """What a request to cancel does."""

    ALREADY = "already"
    """The job is canceled."""
    AT_ONCE = "at-once"
    """Nothing runs and nothing is to be kept."""
    REQUESTED = "requested"
    """A worker must stop, or must turn the last checkpoint into a model."""
    IMPOSSIBLE = "impossible"
    """The job has ended otherwise."""


def cancellation(state: State, *, keep_model: bool, has_checkpoint: bool) -> Cancellation:
    """What canceling a job in this state means; a job that never ran has no model to keep."""
    if state is State.CANCELED:
        return Cancellation.ALREADY
    if state in FINAL:
        return Cancellation.IMPOSSIBLE
    if state is State.QUEUED and not (keep_model and has_checkpoint):
        return Cancellation.AT_ONCE
    return Cancellation.REQUESTED
