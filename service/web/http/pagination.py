"""Parameters of lists: `page_size` and `page_token` (AIP-158), and `tag`.

Tokens are signed with a secret of the installation, for one list with its filters. Any other text
is refused, so a token cannot be used to build other queries.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from typing import Annotated, Any

from fastapi import Depends, Query
from starlette.requests import Request

from service.common.schemas import KEY, VALUE
from service.errors import InvalidRequest
from service.storage.database.pages import Cursor, Page, PageRequest

MAX_PAGE_SIZE = 1000
SIGNATURE_BYTES = 16
_PAGING = ("page_size", "page_token")
SECRET = "page_secret"
"""Attribute of the request's state: the secret of the installation, from the lifespan."""


def _page_params(
    request: Request,
    page_size: Annotated[
        int, Query(ge=1, le=MAX_PAGE_SIZE, description="Maximum number of items in one reply.")
    ] = 50,
    page_token: Annotated[
        str | None,
        Query(
            description="`next_page_token` of the previous page; leave it out for the first page.",
            json_schema_extra={"pattern": "^[A-Za-z0-9_-]+$"},
        ),
    ] = None,
) -> PageRequest:
    seal = _seal(request)
    return PageRequest(page_size, None if page_token is None else _decode(page_token, seal), seal)


PageParams = Annotated[PageRequest, Depends(_page_params)]
"""A route's parameter: the requested page."""


def next_page_token(request: PageRequest, page: Page[Any]) -> str | None:
    """The end of the page, opaque to callers. None on the last page."""
    if page.next is None:
        return None
    content = json.dumps(page.next).encode()
    return (
        base64.urlsafe_b64encode(_signature(request.seal, content) + content).decode().rstrip("=")
    )


def _seal(request: Request) -> bytes:
    """A key for the tokens of this list."""
    given = request.query_params.multi_items()
    filters = sorted((name, value) for name, value in given if value and name not in _PAGING)
    listing = json.dumps([request.url.path, filters])
    return hmac.digest(getattr(request.state, SECRET), listing.encode(), "sha256")


def _signature(seal: bytes, content: bytes) -> bytes:
    return hmac.digest(seal, content, "sha256")[:SIGNATURE_BYTES]


def _decode(token: str, seal: bytes) -> Cursor:
    try:
        whole = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise _invalid_token() from None
    signature, content = whole[:SIGNATURE_BYTES], whole[SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(seal, content)):
        raise _invalid_token()
    return tuple(json.loads(content))


def _invalid_token() -> InvalidRequest:
    return InvalidRequest(
        "invalid-parameter",
        "page_token is not valid for this list with these filters; leave it out to get the first "
        "page",
    )


def _tag_filter(
    tag: Annotated[
        str | None,
        Query(
            description="`key=value`: only resources with this tag.",
            json_schema_extra={"pattern": f"{KEY[:-1]}={VALUE[1:]}"},
        ),
    ] = None,
) -> tuple[str, str] | None:
    if tag is None:
        return None
    key, _, value = tag.partition("=")
    if "=" not in tag or not re.fullmatch(KEY, key) or not re.fullmatch(VALUE, value):
        raise InvalidRequest("invalid-parameter", "tag must be key=value, such as team=x")
    return key, value


TagFilter = Annotated[tuple[str, str] | None, Depends(_tag_filter)]
"""A route's parameter that gives the (key, value) asked for."""
