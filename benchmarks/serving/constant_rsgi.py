"""The least that Granian can do: an RSGI app that reads the body and sends a constant reply."""

from __future__ import annotations

from typing import Any

_replies: dict[str, bytes] = {}
_HEADERS = [("content-type", "application/json")]


async def constant(scope: Any, protocol: Any) -> None:
    """Send as many bytes as the path says."""
    await protocol()
    reply = _replies.get(scope.path)
    if reply is None:
        reply = _replies[scope.path] = b"x" * int(scope.path.rpartition("/")[2])
    protocol.response_bytes(200, _HEADERS, reply)
