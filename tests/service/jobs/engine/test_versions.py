"""A worker takes tasks only of a service with the same versions."""

from __future__ import annotations

from service.jobs.engine.versions import versions
from service.jobs.engine.worker_process import take_next_job


def test_refusal_names_every_difference() -> None:
    """Also what only one end has."""
    theirs = {**versions(), "numpy": "1.0", "torch": "2.0"}
    refusal = take_next_job(theirs)
    assert refusal is not None
    assert f"numpy {versions()['numpy']} here and 1.0 there" in refusal
    assert "torch none here and 2.0 there" in refusal
    assert "numba" not in refusal
