"""Accept: which of the supported formats a reply has."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from service.common.content_negotiation import choose
from service.errors import NotAcceptable

SUPPORTED = ("application/json", "text/csv")


def _request(*accept: str) -> Request:
    headers = [(b"accept", value.encode()) for value in accept]
    return Request({"type": "http", "headers": headers})


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("*/*", "application/json"),
        ("text/csv", "text/csv"),
        ("TEXT/CSV; charset=utf-8", "text/csv"),
        ("text/*", "text/csv"),
        ("text/csv, application/json", "application/json"),
        ("application/json;q=0.5, text/csv", "text/csv"),
        ("*/*;q=0.1, text/csv;q=0.2", "text/csv"),
        ("application/json;q=0, */*", "text/csv"),
        ("text/html, */*;q=0.8", "application/json"),
        ("text/csv;q=x, application/json;q=0.1", "application/json"),
    ],
)
def test_preferred_format_is_chosen(accept: str, chosen: str) -> None:
    """The more specific media range decides, then the quality, then the service's order."""
    assert choose(_request(accept), SUPPORTED) == chosen


def test_without_accept_the_first_format_is_chosen() -> None:
    """No header means that every format is accepted."""
    assert choose(_request(), SUPPORTED) == "application/json"


@pytest.mark.parametrize("accept", ["image/png", "application/json;q=0", "text/csv;q=0.0", "x"])
def test_unsupported_accept_is_refused(accept: str) -> None:
    """The error lists the supported formats."""
    with pytest.raises(NotAcceptable, match="supported formats: application/json, text/csv"):
        choose(_request(accept), SUPPORTED)
