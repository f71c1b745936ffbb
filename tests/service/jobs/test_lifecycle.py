"""States, and what may follow what."""

from __future__ import annotations

import pytest

from service.jobs.lifecycle import (
    FINAL,
    TRANSITIONS,
    Cancellation,
    State,
    cancellation,
    sources,
)


def test_final_states_are_those_that_nothing_follows() -> None:
    """A job that has ended stays as it is."""
    assert {state for state in State if not TRANSITIONS[state]} == FINAL


def test_only_running_jobs_succeed_or_fail() -> None:
    """A queued job can only be taken or canceled."""
    assert sources(State.SUCCEEDED) == sources(State.FAILED) == {State.RUNNING}
    assert sources(State.CANCELED) == {State.QUEUED, State.RUNNING}
    assert sources(State.RUNNING) == {State.QUEUED}


@pytest.mark.parametrize(
    ("state", "keep_model", "has_checkpoint", "expected"),
    [
        (State.QUEUED, False, False, Cancellation.AT_ONCE),
        (State.QUEUED, False, True, Cancellation.AT_ONCE),
        (State.QUEUED, True, False, Cancellation.AT_ONCE),
        (State.QUEUED, True, True, Cancellation.REQUESTED),
        (State.RUNNING, False, False, Cancellation.REQUESTED),
        (State.RUNNING, True, True, Cancellation.REQUESTED),
        (State.CANCELED, True, False, Cancellation.ALREADY),
        (State.SUCCEEDED, False, False, Cancellation.IMPOSSIBLE),
        (State.FAILED, True, False, Cancellation.IMPOSSIBLE),
    ],
)
def test_cancellation_depends_on_what_there_is_to_stop_and_to_keep(
    state: State, keep_model: bool, has_checkpoint: bool, expected: Cancellation
) -> None:
    """A worker is needed only where something runs, or where a checkpoint becomes a model."""
    found = cancellation(state, keep_model=keep_model, has_checkpoint=has_checkpoint)
    assert found is expected
