"""States, and what may follow what."""

from __future__ import annotations

import pytest

from service.jobs.core.job import (
    FINAL,
    TRANSITIONS,
    Effect,
    State,
    cancellation,
    pausing,
    resumption,
    sources,
)


def test_final_states_are_those_that_nothing_follows() -> None:
    """A job that has ended stays as it is."""
    assert {state for state in State if not TRANSITIONS[state]} == FINAL


def test_only_running_jobs_succeed_or_fail() -> None:
    """A queued job can only be taken, paused or canceled; a paused one is never taken."""
    assert sources(State.SUCCEEDED) == sources(State.FAILED) == {State.RUNNING}
    assert sources(State.CANCELED) == {State.QUEUED, State.RUNNING, State.PAUSED}
    assert sources(State.PAUSED) == {State.QUEUED, State.RUNNING}
    assert sources(State.RUNNING) == {State.QUEUED}


@pytest.mark.parametrize(
    ("state", "keep_model", "has_checkpoint", "expected"),
    [
        (State.QUEUED, False, False, Effect.AT_ONCE),
        (State.QUEUED, False, True, Effect.AT_ONCE),
        (State.QUEUED, True, False, Effect.AT_ONCE),
        (State.QUEUED, True, True, Effect.REQUESTED),
        (State.RUNNING, False, False, Effect.AT_ONCE),
        (State.RUNNING, False, True, Effect.AT_ONCE),
        (State.RUNNING, True, False, Effect.REQUESTED),
        (State.RUNNING, True, True, Effect.REQUESTED),
        (State.PAUSED, False, True, Effect.AT_ONCE),
        (State.PAUSED, True, False, Effect.AT_ONCE),
        (State.PAUSED, True, True, Effect.REQUESTED),
        (State.CANCELED, True, False, Effect.ALREADY),
        (State.SUCCEEDED, False, False, Effect.IMPOSSIBLE),
        (State.FAILED, True, False, Effect.IMPOSSIBLE),
    ],
)
def test_cancellation_depends_on_what_there_is_to_stop_and_to_keep(
    state: State, keep_model: bool, has_checkpoint: bool, expected: Effect
) -> None:
    """A worker is needed only if a checkpoint must become a model."""
    found = cancellation(state, keep_model=keep_model, has_checkpoint=has_checkpoint)
    assert found is expected


@pytest.mark.parametrize(
    ("state", "cancel_requested", "expected"),
    [
        (State.QUEUED, False, Effect.AT_ONCE),
        (State.QUEUED, True, Effect.IMPOSSIBLE),
        (State.RUNNING, False, Effect.REQUESTED),
        (State.RUNNING, True, Effect.IMPOSSIBLE),
        (State.PAUSED, False, Effect.ALREADY),
        *((state, False, Effect.IMPOSSIBLE) for state in sorted(FINAL)),
    ],
)
def test_pausing_needs_a_worker_only_where_one_works(
    state: State, cancel_requested: bool, expected: Effect
) -> None:
    """A job that is being canceled is not held up."""
    assert pausing(state, cancel_requested=cancel_requested) is expected


@pytest.mark.parametrize(
    ("state", "pause_requested", "expected"),
    [
        (State.QUEUED, False, Effect.ALREADY),
        (State.RUNNING, False, Effect.ALREADY),
        (State.RUNNING, True, Effect.AT_ONCE),
        (State.PAUSED, False, Effect.AT_ONCE),
        *((state, False, Effect.IMPOSSIBLE) for state in sorted(FINAL)),
    ],
)
def test_resuming_undoes_what_pausing_did(
    state: State, pause_requested: bool, expected: Effect
) -> None:
    """Also a pause that the worker has not obeyed yet."""
    assert resumption(state, pause_requested=pause_requested) is expected
