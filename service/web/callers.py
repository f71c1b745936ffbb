"""Who sent a request: callers share queue and workers fairly."""

from __future__ import annotations

from starlette.requests import Request


def caller_of(request: Request) -> str:
    """A name for the caller. There are no API keys yet, so it is the address: with keys, the name
    of the request's key belongs here."""
    return request.client.host if request.client is not None else "local"
