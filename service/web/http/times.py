"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload


@overload
def rfc3339(seconds: float) -> str: ...
@overload
def rfc3339(seconds: None) -> None: ...
def rfc3339(seconds: float | None) -> str | None:
    """Seconds since 1970 as RFC 3339 in UTC with milliseconds, `2026-01-31T12:00:00.250Z`."""
    if seconds is None:
        return None
    time = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return time.replace("+00:00", "Z")
