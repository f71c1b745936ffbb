"""Chooses the format of a reply by Accept (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from starlette.requests import Request

from service.errors import NotAcceptable


def choose(request: Request, offered: tuple[str, ...]) -> str:
    """`best_of` for the request's Accept header."""
    return best_of(",".join(request.headers.getlist("accept")) or "*/*", offered)


def best_of(accept: str, offered: tuple[str, ...]) -> str:
    """The offered media type with the highest quality in `accept`; among equals, the first.

    Raises NotAcceptable.
    """
    qualities: dict[str, float] = {}
    for part in accept.split(","):
        media_range, *parameters = (piece.strip() for piece in part.lower().split(";"))
        qualities.setdefault(media_range, _quality(parameters))
    best = max(offered, key=lambda media_type: _quality_of(media_type, qualities))
    if _quality_of(best, qualities) <= 0:
        raise NotAcceptable("not-acceptable", f"supported formats: {', '.join(offered)}")
    return best


def _quality(parameters: list[str]) -> float:
    quality = next((p.partition("=")[2] for p in parameters if p.startswith("q=")), "1")
    try:
        return float(quality)
    except ValueError:
        return 0.0


def _quality_of(media_type: str, qualities: dict[str, float]) -> float:
    """The quality of the most specific media range that matches."""
    for pattern in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        if pattern in qualities:
            return qualities[pattern]
    return 0.0
