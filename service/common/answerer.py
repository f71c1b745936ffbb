"""What the protocol class asks of the part that answers predictions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
"""As servers give them: names in lower case."""


class Reply(NamedTuple):
    """A successful reply, for ASGI or for the server's own protocol."""

    body: bytes
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Answerer(Protocol):
    """Answers POST requests to some paths from their target, header and body only."""

    @property
    def body_limit_bytes(self) -> int:
        """Size of the largest body that is read."""

    def call(self, path: bytes, query: Mapping[str, str], headers: RawHeaders) -> Any | None:
        """What they ask for, equal for equal arguments, with the template of the path as `route`;
        None if another has to answer. Raises ServiceError."""

    def knows(self, call: Any) -> bool:
        """Whether it is known, without waiting, that there is what the call asks for."""

    def submit(
        self, call: Any, body: bytes, deliver: Callable[[Reply | Exception], None], *, alone: bool
    ) -> asyncio.Task[None] | None:
        """Call `deliver` with the reply or the error: at the end of this turn of the event loop,
        with what requests that came together share done once; if the request came `alone`, before
        this returns. What takes long is delivered by the task that is returned."""
