"""Events from the event stream of a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from httpx2 import ServerSentEvent


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job."""

    id: int
    """Increases with each event of a job, not always by one."""
    kind: str
    """`state`, `progress`, `checkpoint`, `warning` or `end`."""
    data: dict[str, Any]

    @classmethod
    def of(cls, message: ServerSentEvent) -> Event | None:
        """None for a message without data, which only sets the retry time."""
        if not message.data:
            return None
        return cls(int(message.id), message.event, json.loads(message.data))
