"""Page tokens: opaque, and never the cause of an internal error."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.errors import InvalidRequest
from service.storage.database.pages import Cursor, Page, PageRequest
from service.web.http.pagination import _decode, next_page_token

REQUEST = PageRequest(seal=b"of this list")


@given(
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**62),
    st.from_regex(r"[a-z0-9_-]{1,40}", fullmatch=True) | st.integers(-(2**30), 2**30),
)
def test_token_decodes_to_its_cursor(number: float, id: str | int) -> None:
    """The decoded cursor is equal bit for bit, and the token needs no escaping in a URL."""
    cursor: Cursor = number, id
    token = next_page_token(REQUEST, Page(("x",), cursor))
    assert token is not None
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert _decode(token, REQUEST.seal) == cursor


@pytest.mark.parametrize(
    "content", [[1.5], [1.5, "a", 3], ["a", 1.5], [float("nan"), "a"], [1.5, 2**70], [1.5, "é"], 7]
)
def test_forged_token_is_refused(caller: TestClient, content: object) -> None:
    """A token from elsewhere is an invalid parameter, signed with a guessed key or not."""
    token = base64.urlsafe_b64encode(b"x" * 16 + json.dumps(content).encode()).decode()
    reply = caller.get(f"/things?page_token={token}")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter")


@given(st.text(max_size=60))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    """Every text results in a cursor or in InvalidRequest."""
    with contextlib.suppress(InvalidRequest):
        _decode(text, REQUEST.seal)


def test_last_page_has_no_token() -> None:
    """The end of a list is null."""
    assert next_page_token(REQUEST, Page((), None)) is None


def test_page_size_defaults_to_50(caller: TestClient) -> None:
    """The default is 50, the maximum 1000."""
    assert caller.get("/things").json()["size"] == 50
    assert caller.get("/things?page_size=1000").json()["size"] == 1000


def test_token_is_valid_for_one_list_and_its_filters(client: TestClient) -> None:
    """Another list, other filters, one bit changed: refused. Another size is allowed."""
    for n in range(4):
        content = f"a,k\n{n},x\n{n + 9},y\n"
        client.post("/v1/datasets", content=content, headers={"Content-Type": "text/csv"})
    token = client.get("/v1/datasets?page_size=1").json()["next_page_token"]
    again = client.get(f"/v1/datasets?page_size=2&page_token={token}")
    assert len(again.json()["datasets"]) == 2
    changed = token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1]
    for path in (
        f"/v1/datasets?tag=a=b&page_token={token}",
        f"/v1/jobs?page_token={token}",
        f"/v1/datasets?page_token={changed}",
        "/v1/datasets?page_token=",
    ):
        reply = client.get(path)
        assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter"), path
