"""What the process that makes derived files is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from service.children.messages import Messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """A file to make of a version and to keep."""

    model: str
    version: int
    name: str
    """A key of `FILES` in the child."""


@dataclass(frozen=True, slots=True)
class Done:
    """It is there now."""


MESSAGES = Messages(Make, Done)
