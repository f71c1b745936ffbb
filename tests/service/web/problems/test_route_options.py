"""Every path in the OpenAPI document: its options, and requests that it does not support."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.service.jobs.data import create, upload

pytestmark = pytest.mark.one_application

METHODS = {"delete", "get", "patch", "post", "put"}
KNOWN = {
    "name": "iris",
    "version": "1",
    "alias": "a",
    "code": "not-found",
    "kind": "learning-curve",
    "format": "svg",
    "path": "x",
}


def path_of(template: str, document: dict[str, Any]) -> str:
    """The path with valid parameters of resources that do not exist."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "id":
            return ("ds_" if template.startswith("/v1/datasets/") else "job_") + "0" * 32
        if template == "/v1/solvers/{name}":
            return "pegasos"
        return KNOWN[match[1]]

    return re.sub(r"\{([a-z_]+)\}", value, template)


@pytest.fixture
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def test_options_of_every_path(client: TestClient, document: dict[str, Any]) -> None:
    """The methods of the document, and the formats of its bodies."""
    for template, operations in document["paths"].items():
        reply = client.options(path_of(template, document))
        assert (reply.status_code, reply.content) == (204, b""), template
        methods = {method.upper() for method in operations if method in METHODS}
        implied = {"OPTIONS", *(["HEAD"] if "GET" in methods else [])}
        assert set(reply.headers["Allow"].split(", ")) == methods | implied, template
        for method in ("post", "patch"):
            content = operations.get(method, {}).get("requestBody", {}).get("content", {})
            given = reply.headers.get(f"Accept-{method}", "")
            assert given.split(", ") == (list(content) or [""]), template
    assert client.options("/nowhere").status_code == 404


def test_unsupported_methods(client: TestClient, document: dict[str, Any]) -> None:
    """405 with a list of the supported ones."""
    for template, operations in document["paths"].items():
        for method in [*sorted(METHODS - set(operations)), "trace", "propfind"]:
            reply = client.request(method.upper(), path_of(template, document))
            assert (reply.status_code, reply.json()["code"]) == (405, "method-not-allowed")
            assert "OPTIONS" in reply.headers["Allow"]


def test_unsupported_formats(client: TestClient, document: dict[str, Any]) -> None:
    """415 with a list of the supported ones, before the 404 for a missing resource."""
    for template, operations in document["paths"].items():
        body = operations.get("post", {}).get("requestBody", {}).get("content", {})
        if not body or template.endswith("/infer"):  # whose clients send any type, or none
            continue
        reply = client.post(
            path_of(template, document), content=b"<x/>", headers={"Content-Type": "text/xml"}
        )
        assert reply.status_code in (404, 415), (template, reply.text)
        if reply.status_code == 415:
            assert reply.json()["code"] == "unsupported-format"
            assert reply.headers["Accept-Post"].split(", ") == list(body)
            assert "Allow" not in reply.headers


def test_unknown_parameters(client: TestClient, document: dict[str, Any]) -> None:
    """An unknown one, and one given twice, on every path."""
    for template, operations in document["paths"].items():
        path = path_of(template, document)
        for method in METHODS & set(operations):
            reply = client.request(method.upper(), f"{path}?no_such=1")
            outcome = reply.status_code, reply.json()["code"]
            assert outcome == (400, "invalid-parameter"), (method, template, reply.text)
            for parameter in operations[method].get("parameters", ()):
                if parameter["in"] == "query":
                    name = parameter["name"]
                    reply = client.request(method.upper(), f"{path}?{name}=1&{name}=1")
                    assert reply.status_code == 400, (method, template, name, reply.text)
                    assert reply.json()["code"] == "invalid-parameter"


def test_head_of_every_path(client: TestClient, document: dict[str, Any]) -> None:
    """The status and headers of GET, without its body."""
    ids = {"/v1/datasets/{id}": upload(client), "/v1/jobs/{id}": create(client)}
    for template, operations in document["paths"].items():
        if "get" not in operations or template.endswith(("/events", "/metrics")):
            continue  # the one is endless, the other differs from call to call
        path = path_of(template, document)
        for known, id in ids.items():
            if template.startswith(known):
                path = template.replace("{id}", id)
        get, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (get.status_code, b""), template
        for name in ("Content-Type", "ETag", "Content-Length", "Vary", "Accept-Ranges"):
            if get.status_code < 400:
                assert head.headers.get(name) == get.headers.get(name), (template, name)


def test_content_digest_of_every_body(client: TestClient, document: dict[str, Any]) -> None:
    """The digest is checked before anything else in every body."""
    upload(client)
    for template, operations in document["paths"].items():
        for method in {"post", "put", "patch"} & set(operations):
            content = operations[method].get("requestBody", {}).get("content", {})
            if "application/json" not in content:
                continue
            reply = client.request(
                method.upper(),
                path_of(template, document),
                content=b"{}",
                headers={
                    "Content-Type": "application/json",
                    "Content-Digest": f"sha-256=:{base64.b64encode(bytes(32)).decode()}:",
                    "If-None-Match": "*",
                },
            )
            if reply.status_code != 404:
                assert (reply.status_code, reply.json()["code"]) == (400, "digest-mismatch"), (
                    template,
                    reply.text,
                )
