"""Accept: the format a caller likes best among those offered."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from service.errors import NotAcceptable
from service.web.http.content_negotiation import choose

OFFERED = ("application/json", "text/csv")


def _asking(*accept: str) -> Request:
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
def test_best_liked_format_is_chosen(accept: str, chosen: str) -> None:
    """The more specific range decides, then the quality, then our own order."""
    assert choose(_asking(accept), OFFERED) == chosen


def test_without_accept_our_first_format_is_chosen() -> None:
    """No header accepts everything."""
    assert choose(_asking(), OFFERED) == "application/json"


@pytest.mark.parametrize("accept", ["image/png", "application/json;q=0", "text/csv;q=0.0", "x"])
def test_unfitting_accept_is_refused(accept: str) -> None:
    """The error lists what is offered."""
    with pytest.raises(NotAcceptable, match="supported formats: application/json, text/csv"):
        choose(_asking(accept), OFFERED)
