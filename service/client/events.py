"""What the event stream of a job tells."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from httpx2 import ServerSentEvent


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job."""

    id: int
    """Grows from event to event of a job, not always by one."""
    kind: str
    """`state`, `progress`, `checkpoint`, `warning` or `end`."""
    data: dict[str, Any]

    @classmethod
    def of(cls, message: ServerSentEvent) -> Event | None:
        """None for what only tells how to come again."""
        if not message.data:
            return None
        return cls(int(message.id), message.event, json.loads(message.data))
