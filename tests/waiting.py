"""Waiting for what other processes and threads do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
PATIENCE_S = 60.0


def until(condition: Callable[[], Value | None]) -> Value:
    """The first true value of `condition`."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, value
        time.sleep(0.02)
    return value
