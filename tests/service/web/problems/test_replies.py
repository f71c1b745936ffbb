"""Every error is a problem: RFC 9457, a stable code, and no internal details."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from service.web.problems import PROBLEMS


def test_problem_has_all_members(caller: TestClient) -> None:
    """Type, title, status, detail, instance, code, request id, errors and their total."""
    reply = caller.get("/fail/busy", headers={"X-Request-Id": "abc-1"})
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.headers["Retry-After"] == "3"
    assert reply.json() == {
        "type": "/problems/queue-full",
        "title": "The job queue is full",
        "status": 503,
        "detail": "too many jobs",
        "instance": "/fail/busy",
        "code": "queue-full",
        "request_id": "abc-1",
        "errors": [],
        "errors_total": 0,
    }


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("traceparent", "trace_id"),
    [
        (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
        (f"01-{TRACE}-00f067aa0ba902b7-01-more", TRACE),
        (f"00-{TRACE}-00f067aa0ba902b7-01-more", None),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-00f067aa0ba902b7-01", None),
        ("junk", None),
    ],
)
def test_problem_has_the_trace_id_of_its_request(
    caller: TestClient, traceparent: str, trace_id: str | None
) -> None:
    """From W3C Trace Context; an invalid one is left out."""
    problem = caller.get("/fail/busy", headers={"traceparent": traceparent}).json()
    assert problem.get("trace_id") == trace_id


def test_long_lists_of_errors_are_cut(caller: TestClient) -> None:
    """A hundred errors are shown and all are counted; values are cut at 64 characters."""
    problem = caller.get("/fail/many").json()
    assert (len(problem["errors"]), problem["errors_total"]) == (100, 150)
    assert problem["errors"][0] == {
        "code": "not-a-number",
        "message": "no",
        "row": 1,
        "column": "age",
        "value": "x" * 64,
    }


def test_unexpected_error_does_not_reveal_its_cause(caller: TestClient) -> None:
    """500 with the request id, without the exception's text."""
    reply = caller.get("/fail/unexpectedly")
    assert (reply.status_code, reply.json()["code"]) == (500, "internal-error")
    assert reply.json()["request_id"] == reply.headers["X-Request-Id"]
    assert "secret" not in reply.text
    assert "RuntimeError" not in reply.text


def test_unknown_path_is_a_page_for_browsers(caller: TestClient) -> None:
    """It shows the path and links to other pages; a browser that prefers JSON gets a problem."""
    accept = "text/html,application/xhtml+xml,*/*;q=0.8"
    reply = caller.get("/<b>nowhere", headers={"Accept": accept})
    assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "/&lt;b&gt;nowhere" in reply.text
    assert 'href="/"' in reply.text
    for other in ("*/*", "application/json", "image/png", "text/html;q=0.5, application/*"):
        reply = caller.get("/nowhere", headers={"Accept": other})
        assert (reply.status_code, reply.json()["code"]) == (404, "not-found")
        assert reply.headers["vary"] == "Accept"


def test_unknown_path_is_a_problem(caller: TestClient) -> None:
    """404, also with a slash too many: there are no redirects. The path is shown as it was sent."""
    for path in ("/nowhere", "/things/", "/no%20where%C3%A9"):
        reply = caller.get(path)
        assert (reply.status_code, reply.json()["code"]) == (404, "not-found")
        assert reply.json()["instance"] == path


def test_wrong_method_lists_the_allowed_ones(caller: TestClient) -> None:
    """405 with Allow listing every method of the path, those of other routes included."""
    reply = caller.delete("/models/iris")
    assert (reply.status_code, reply.json()["code"]) == (405, "method-not-allowed")
    assert reply.headers["Allow"] == "GET, HEAD, OPTIONS, PUT"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/things?page_size=0", "invalid-parameter"),
        ("/things?page_size=1001", "invalid-parameter"),
        ("/things?page_size=x", "invalid-parameter"),
        ("/things?page_size=5&page_size=6", "invalid-parameter"),
        ("/things?pagesize=5", "invalid-parameter"),
        ("/things?state=gone", "invalid-parameter"),
        ("/things?page_token=x", "invalid-parameter"),
        ("/jobs/1?wait=1", "invalid-parameter"),
        ("/jobs/job_1", "invalid-parameter"),
        ("/models/Iris", "invalid-name"),
        ("/models/-a", "invalid-name"),
        ("/models/a-", "invalid-name"),
        ("/models/" + "a" * 64, "invalid-name"),
        ("/models/..%5c", "invalid-name"),
        ("/models/a%00", "invalid-name"),
        ("/models/a%0a", "invalid-name"),
    ],
)
def test_bad_parameters_are_refused(caller: TestClient, path: str, code: str) -> None:
    """400 for parameters of a path or query, with the parameter's name in the detail."""
    reply = caller.get(path)
    assert (reply.status_code, reply.json()["code"]) == (400, code)


def test_unknown_parameter_is_answered_with_the_known_ones(caller: TestClient) -> None:
    """The reply to a misspelled parameter helps to correct it."""
    detail = caller.get("/things?pagesize=5").json()["detail"]
    assert "'pagesize'" in detail
    assert "page_size, page_token, state" in detail


@pytest.mark.parametrize("name", ["a", "iris", "a-1", "a" * 63])
def test_good_names_pass(caller: TestClient, name: str) -> None:
    """One letter to 63 characters."""
    assert caller.get(f"/models/{name}").status_code == 200


def test_head_is_get_without_body(caller: TestClient) -> None:
    """The same status and headers, no content."""
    get, head = caller.get("/things"), caller.head("/things")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == get.headers["Content-Length"]


def test_every_problem_is_explained(client: TestClient) -> None:
    """The page at `type` exists for each code, and the list has all codes."""
    listed = client.get("/problems").json()["problems"]
    assert [kind["code"] for kind in listed] == sorted(PROBLEMS)
    for kind in listed:
        assert client.get(f"/problems/{kind['code']}").json() == kind
    assert client.get("/problems/none").status_code == 404


def test_browsers_get_a_page_of_each_problem(client: TestClient) -> None:
    """The link in a problem's `type` leads to a page with text and links."""
    browser = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    page = client.get("/problems/csv-unterminated-quote", headers=browser)
    assert page.headers["content-type"].startswith("text/html")
    assert "accept" in page.headers["vary"].lower()
    assert f"<h2>{PROBLEMS['csv-unterminated-quote'].title}</h2>" in page.text
    listed = client.get("/problems", headers=browser).text
    assert all(f'href="/problems/{code}"' in listed for code in PROBLEMS)
    assert 'href="/"' in listed


@pytest.mark.parametrize(
    "path",
    [
        *("/models/a%2fb", "/models/a%2Fb", "/models%2firis", "/models/..%2f..%2fetc"),
        *("/models/a%5cb", "/models/%2e%2e%5c", "/models/Iris", f"/models/{'a' * 64}"),
    ],
)
def test_slash_in_a_name_is_an_invalid_name(caller: TestClient, path: str) -> None:
    """%2f in a path does not separate its segments."""
    reply = caller.get(path)
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-name")
