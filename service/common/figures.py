"""Numbers for people."""

from __future__ import annotations


def figure(value: float) -> str:
    """At most four figures; whole ones with commas."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
