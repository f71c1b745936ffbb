"""`page_size` and `page_token` (AIP-158), and the token of the next page."""

from __future__ import annotations

import base64
import binascii
import json
from math import isfinite
from typing import Annotated, Any

from fastapi import Depends, Query

from service.errors import InvalidRequest
from service.storage.pages import Cursor, Page, PageRequest

MAX_PAGE_SIZE = 1000


def _page_params(
    page_size: Annotated[
        int, Query(ge=1, le=MAX_PAGE_SIZE, description="Most items in one reply.")
    ] = 50,
    page_token: Annotated[
        str | None,
        Query(description="`next_page_token` of the page before; leave it out for the first page."),
    ] = None,
) -> PageRequest:
    return PageRequest(page_size, None if page_token is None else _decode(page_token))


PageParams = Annotated[PageRequest, Depends(_page_params)]
"""A route's parameter that gives the page asked for."""


def next_page_token(page: Page[Any]) -> str | None:
    """Opaque to callers: where the page ended. None on the last page."""
    if page.next is None:
        return None
    return base64.urlsafe_b64encode(json.dumps(page.next).encode()).decode().rstrip("=")


def _decode(token: str) -> Cursor:
    try:
        padded = token + "=" * (-len(token) % 4)
        created_at, id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise _invalid_token() from None
    if not (type(created_at) is float and isfinite(created_at) and _is_key(id)):
        raise _invalid_token()
    return Cursor(created_at, id)


def _is_key(id: object) -> bool:
    # What the database cannot take as a parameter would be an error of ours, not of the caller.
    if type(id) is int:
        return abs(id) < 2**31
    return type(id) is str and id.isascii() and id.isprintable()


def _invalid_token() -> InvalidRequest:
    return InvalidRequest(
        "invalid-parameter",
        "page_token is not one that this service gave; leave it out to begin at the first page",
    )
