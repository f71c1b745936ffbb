"""Conditional requests."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 200),
        ('"iris"', 304),
        ('W/"iris"', 304),
        ('"other", "iris"', 304),
        ("*", 304),
        ('"other"', 200),
        ("iris", 400),
        ("", 400),
    ],
)
def test_if_none_match_with_the_current_etag_is_304(
    caller: TestClient, header: str | None, status: int
) -> None:
    """304 with the ETag if the caller has the current state, in every form of the header."""
    reply = caller.get("/models/iris", headers={} if header is None else {"If-None-Match": header})
    assert reply.status_code == status
    if status == 304:
        assert (reply.headers["ETag"], reply.content) == ('"iris"', b"")


@pytest.mark.parametrize(
    ("name", "headers", "status", "code"),
    [
        ("iris", {}, 428, "precondition-required"),
        ("iris", {"If-Match": '"iris"'}, 204, None),
        ("iris", {"If-Match": '"old", "iris"'}, 204, None),
        ("iris", {"If-Match": "*"}, 204, None),
        ("iris", {"If-Match": '"old"'}, 412, "precondition-failed"),
        ("iris", {"If-Match": 'W/"iris"'}, 412, "precondition-failed"),
        ("iris", {"If-None-Match": "*"}, 412, "precondition-failed"),
        ("iris", {"If-None-Match": '"old"'}, 204, None),
        ("new", {"If-None-Match": "*"}, 204, None),
        ("new", {"If-Match": "*"}, 412, "precondition-failed"),
        ("new", {"If-Match": '"iris"'}, 412, "precondition-failed"),
        ("iris", {"If-Match": "iris"}, 400, "invalid-header"),
    ],
)
def test_preconditions_of_changes(
    caller: TestClient, name: str, headers: dict[str, str], status: int, code: str | None
) -> None:
    """If-Match guards a change, If-None-Match a creation; `new` does not exist yet."""
    reply = caller.put(f"/models/{name}", headers=headers)
    assert reply.status_code == status
    assert code is None or reply.json()["code"] == code


@pytest.mark.parametrize(
    ("header", "status"),
    [('"iris"', 200), ("*", 200), ('"old"', 412), ('W/"iris"', 412), ("iris", 400)],
)
def test_if_match_applies_to_reading_too(caller: TestClient, header: str, status: int) -> None:
    """A caller that asks for one state gets no other, even if it has the current one."""
    asked = {"If-Match": header}
    assert caller.get("/models/iris", headers=asked).status_code == status
    if status == 412:
        known = caller.get("/models/iris", headers={**asked, "If-None-Match": '"iris"'})
        assert known.json()["code"] == "precondition-failed"
