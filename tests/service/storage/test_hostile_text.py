"""Text that is difficult for databases is refused or stored, on either database; never a 500."""

from __future__ import annotations

import base64
import json

import pytest
from starlette.testclient import TestClient

from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.data import create, job_body, upload

pytestmark = [ON_ALL_BACKENDS, pytest.mark.one_application]

TEXTS = ["a\0b", "\ud800", 'a"b', "a'b\\", "%s:x{}", "é𝛌"]


def _token(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


@pytest.mark.long
@pytest.mark.parametrize("text", TEXTS)
def test_text_of_callers_never_breaks_a_statement(client: TestClient, text: str) -> None:
    """In names, tags, filters, page tokens, cells and keys."""
    dataset_id = upload(client)
    job_id = create(client)
    encoded = text.encode("utf-8", "surrogatepass")
    quoted = "".join(f"%{byte:02x}" for byte in encoded)
    tags = json.dumps({"tags": {"a": text}})
    as_json = {"Content-Type": "application/json"}
    rows = {"columns": [text, "k"], "rows": [[1.0, 2.0], [2.0, 1.0]], "labels": [text, "b"]}
    csv = b"x," + encoded + b"\n1,a\n2," + encoded + b"\n"
    replies = [
        client.post(
            f"/v1/datasets?name={quoted}",
            content=b"x,k\n1,a\n2,b\n",
            headers={"Content-Type": "text/csv"},
        ),
        client.post("/v1/datasets", content=csv, headers={"Content-Type": "text/csv"}),
        client.post(
            f"/v1/datasets?target={quoted}", content=csv, headers={"Content-Type": "text/csv"}
        ),
        client.post("/v1/datasets", content=json.dumps(rows), headers=as_json),
        client.patch(f"/v1/datasets/{dataset_id}", content=tags, headers=as_json),
        client.patch(
            f"/v1/datasets/{dataset_id}", content=json.dumps({"name": text}), headers=as_json
        ),
        client.post("/v1/jobs", content=json.dumps(job_body(tags={"a": text})), headers=as_json),
        client.post("/v1/jobs", content=json.dumps(job_body(tags={text: "a"})), headers=as_json),
        client.post(
            "/v1/jobs",
            content=json.dumps(job_body()),
            headers={**as_json, "X-Request-Id": quoted},
        ),
    ]
    for path in ("/v1/datasets", "/v1/jobs"):
        replies += [
            client.get(f"{path}?tag=a%3D{quoted}"),
            client.get(f"{path}?tag={quoted}%3Da"),
            client.get(f"{path}?tag=a%3Db"),
        ]
    for path in ("/v1/datasets", "/v1/jobs", "/v1/models"):
        replies.append(client.get(f"{path}?page_token={_token(1.5, text)}"))
    replies += [
        client.get(f"/v1/jobs?model_name={quoted}"),
        client.get(f"/v1/jobs?dataset_id={quoted}"),
        client.get(f"/v1/models/{quoted}"),
        client.get(f"/v1/jobs/{job_id}"),
        client.get(f"/v1/jobs/{job_id}/events?after={quoted}"),
    ]
    for reply in replies:
        assert reply.status_code < 500, (reply.request.url, reply.text)


@pytest.mark.parametrize("number", [2**31, 2**63, 1e308])
def test_number_of_callers_never_breaks_a_statement(client: TestClient, number: float) -> None:
    """In paths, page tokens, ranges and seeds."""
    upload(client)
    stopping = {"max_epochs": number}
    for reply in [
        client.get(f"/v1/models/iris/versions/{number}"),
        client.get(f"/v1/models/iris/versions?page_token={_token(1.5, number)}"),
        client.get(f"/v1/datasets?page_token={_token(number, 'ds_1')}"),
        client.get(f"/v1/datasets?page_token={_token(1.5, number)}"),
        client.get(f"/v1/models?page_size={number}"),
        client.post("/v1/jobs", json=job_body(seed=number)),
        client.post("/v1/jobs", json=job_body(priority=number)),
        client.post("/v1/jobs", json=job_body(stopping=stopping)),
        client.put(
            "/v1/models/iris/aliases/a", json={"version": number}, headers={"If-None-Match": "*"}
        ),
    ]:
        assert reply.status_code < 500, (reply.request.url, reply.text)
