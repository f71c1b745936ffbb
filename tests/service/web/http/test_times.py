"""Times as the API writes them."""

from __future__ import annotations

import pytest

from service.common.schemas import rfc3339


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1769860800.25, "2026-01-31T12:00:00.250Z"),
        (None, None),
    ],
)
def test_times_are_rfc3339_in_utc(seconds: float | None, text: str | None) -> None:
    """Milliseconds and Z; no time is null."""
    assert rfc3339(seconds) == text
