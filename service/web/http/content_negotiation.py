"""Chooses the format of a reply by Accept (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import Request

from service.errors import NotAcceptable


def choose(request: Request, offered: tuple[str, ...]) -> str:
    """`best_of` for the request's Accept header."""
    return best_of(",".join(request.headers.getlist("accept")) or "*/*", offered)


@lru_cache(maxsize=256)
def best_of(accept: str, offered: tuple[str, ...]) -> str:
    """The offered media type with the highest quality in `accept`; among equals, the first.

    Raises NotAcceptable.
    """
    ranges = [_parse(part) for part in accept.split(",")]
    best = max(offered, key=lambda media_type: _quality(media_type, ranges))
    if _quality(best, ranges) <= 0:
        raise NotAcceptable("not-acceptable", f"supported formats: {', '.join(offered)}")
    return best


def _parse(part: str) -> tuple[str, float]:
    media_range, *parameters = (piece.strip() for piece in part.lower().split(";"))
    quality = next((p.partition("=")[2] for p in parameters if p.startswith("q=")), "1")
    try:
        return media_range, float(quality)
    except ValueError:
        return media_range, 0.0


def _quality(media_type: str, ranges: list[tuple[str, float]]) -> float:
    """The quality of the most specific media range that matches."""
    family = media_type.partition("/")[0]
    for pattern in (media_type, f"{family}/*", "*/*"):
        for media_range, quality in ranges:
            if media_range == pattern:
                return quality
    return 0.0
