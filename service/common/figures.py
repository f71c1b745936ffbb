"""Numbers for people."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context

NOTHING = "–"
_BYTES = ("B", "kB", "MB", "GB", "TB")
_UP = Context(prec=2, rounding=ROUND_CEILING)


def figure(value: float) -> str:
    """At most four figures; whole ones with commas."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.4g}"


def number(value: float | int | None) -> str:
    """At most four figures, with a minus sign as in charts; whole numbers with commas."""
    if value is None:
        return NOTHING
    text = f"{value:,}" if isinstance(value, int) else figure(value)
    return f"−{text[1:]}" if value < 0 else text


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 class`, `2 classes`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def first_of(texts: Sequence[str], most: int) -> str:
    """`a, b, …`: at most `most` of them."""
    return ", ".join(texts[:most]) + (", …" if len(texts) > most else "")


def percent(share: float | None, digits: int | None = None) -> str:
    """`0.08 %`: with `digits` behind the point, else two figures below 1 %, one digit above."""
    if share is None:
        return NOTHING
    value = 100 * share
    if digits is not None:
        return f"{value:.{digits}f} %"
    if value in (0, 100):
        return f"{value:.0f} %"
    if abs(value) >= 1:
        return f"{value:.1f} %"
    return (
        f"{float(f'{value:.2g}'):.10f}".rstrip("0") + " %" if abs(value) >= 1e-4 else "< 0.0001 %"
    )


def at_most(share: float | None) -> str:
    """An upper bound as a percentage, rounded up to two figures as summaries of certificates are:
    `svm`, which has their words, is slow to load for the command line."""
    if share is None:
        return NOTHING
    value = _UP.create_decimal_from_float(max(100.0 * share, 0.0))
    return f"{value:f} %" if value == 0 or 1e-4 <= value < 1e6 else f"{value:.1e} %"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(n_bytes: int) -> str:
    value = float(n_bytes)
    for unit in _BYTES[:-1]:
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} {_BYTES[-1]}"
