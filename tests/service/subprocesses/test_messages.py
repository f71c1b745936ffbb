"""Messages between processes: what callers send stays data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from service.errors import Fault, InvalidContent
from service.subprocesses.working import Messages


@dataclass(frozen=True)
class Found:
    """A message with an object from a caller."""

    content: dict[str, Any]


MESSAGES = Messages(Found)


def test_message_arrives() -> None:
    """With dataclasses inside of it."""
    assert MESSAGES.decode(MESSAGES.encode(Found({"a": [1, None]}))) == Found({"a": [1, None]})


def test_error_is_raised() -> None:
    """With its faults."""
    error = InvalidContent("invalid-field", "no", (Fault(code="x", message="y", row=1),))
    with pytest.raises(InvalidContent) as raised:
        MESSAGES.decode(MESSAGES.encode(error))
    assert vars(raised.value) == vars(error)


def test_content_of_callers_is_never_read_as_a_message() -> None:
    """Even if it repeats the names of a message that was seen before."""
    seen = re.findall(r'"([^"]*)":', MESSAGES.encode(Found({})))
    assert len(seen) > 1
    for name in ("Found", "Failure", "no such"):
        message = Found({"inside": dict.fromkeys(seen, name)})
        assert MESSAGES.decode(MESSAGES.encode(message)) == message
