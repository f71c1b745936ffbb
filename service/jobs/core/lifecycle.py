"""The states of a job and what may follow what.

queued ── leased by a worker ──▶ running ──▶ succeeded | failed | canceled
  ▲  │                            │   │
  ├──│── lease lost or given back ┘   │ given back, or its lease lost, after a request to pause
  │  ▼                                │
 paused ◀─────────────────────────────┘

From queued and paused a job can be canceled; resumed, a paused one is queued again.
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
    PAUSED = "paused"
    """Waits to be resumed; goes on from its checkpoint then."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELED})
ACTIVE = frozenset(State) - FINAL
WAITING = frozenset({State.QUEUED, State.PAUSED})
"""Accepted, and in no worker's hands."""

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
    """The job is there already."""
    AT_ONCE = "at-once"
    REQUESTED = "requested"
    """A worker is to do it."""
    IMPOSSIBLE = "impossible"


def cancellation(state: State, *, keep_model: bool, has_checkpoint: bool) -> Effect:
    """What canceling a job in this state does.

    Only a worker can turn what was learnt into a model. Where none is to be kept, the job ends at
    once even while it runs: its worker has lost the lease and can write nothing more.
    """
    if state is State.CANCELED:
        return Effect.ALREADY
    if state in FINAL:
        return Effect.IMPOSSIBLE
    if keep_model and (state is State.RUNNING or has_checkpoint):
        return Effect.REQUESTED
    return Effect.AT_ONCE


def pausing(state: State, *, cancel_requested: bool) -> Effect:
    """What pausing a job in this state does; one that is being canceled goes on to its end."""
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
