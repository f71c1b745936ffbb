"""The OpenAPI document is valid, complete, and its examples run."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fastapi import FastAPI
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.testclient import TestClient

from service.jobs.kinds import KINDS
from service.web.problems import PROBLEMS

pytestmark = pytest.mark.one_application

BODY_METHODS = {"post", "put", "patch"}


@pytest.fixture
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


@pytest.fixture
def operations(document: dict[str, Any]) -> dict[str, Any]:
    """Every operation, by its method and path."""
    return {
        f"{method} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_document_is_valid(document: dict[str, Any]) -> None:
    """It conforms to OpenAPI 3.1."""
    OpenAPIV31SpecValidator(document).validate()


MOST_BYTES = 270_000 + 16_000 * len(KINDS)
"""Each kind of job has eight operations or more, with replies and examples of its own."""


def test_document_that_is_served_is_small(client: TestClient, document: dict[str, Any]) -> None:
    """And says the same: with its references resolved it has all operations with all parameters,
    bodies, statuses and schemas."""
    reply = client.get("/openapi.json")
    assert len(reply.content) <= MOST_BYTES
    served = reply.json()
    OpenAPIV31SpecValidator(served).validate()
    for name, schema in document["components"]["schemas"].items():
        short = served["components"]["schemas"][name]
        assert _inlined(served, document, short) == _inlined(served, document, schema), name
    for template, methods in document["paths"].items():
        for method, whole in methods.items():
            short = served["paths"][template][method]
            parameters = [_resolved(served, one) for one in short.get("parameters", ())]
            named = [(one["in"], one["name"]) for one in parameters]
            assert named == [(one["in"], one["name"]) for one in whole.get("parameters", ())]
            body = _resolved(served, short.get("requestBody", {}))
            assert (
                body.get("content", {}).keys()
                == whole.get("requestBody", body).get("content", {}).keys()
            )
            assert short["responses"].keys() == whole["responses"].keys()
            for status, reply_of in whole["responses"].items():
                response = _resolved(served, short["responses"][status])
                assert response["description"] == reply_of["description"]
                assert response.get("content", {}).keys() == reply_of.get("content", {}).keys()


def _inlined(served: dict[str, Any], document: dict[str, Any], part: Any) -> Any:
    """A part of a schema, with all schemas in it that the document that is served has given a name,
    and without titles."""
    if isinstance(part, list):
        return [_inlined(served, document, below) for below in part]
    if not isinstance(part, dict):
        return part
    name = str(part.get("$ref", "")).rpartition("/")[2]
    if name and name not in document["components"]["schemas"]:
        return _inlined(served, document, served["components"]["schemas"][name])
    titled = isinstance(part.get("title"), str)
    members = {key: value for key, value in part.items() if key != "title" or not titled}
    return {key: _inlined(served, document, value) for key, value in members.items()}


def test_names_of_components_are_names_of_types(client: TestClient) -> None:
    """Generated clients have types of these names; none is a status."""
    components = client.get("/openapi.json").json()["components"]
    for kind in ("schemas", "responses", "parameters", "requestBodies"):
        assert not [
            name for name in components[kind] if not re.fullmatch("[A-Z][A-Za-z0-9]*", name)
        ]
    assert {"NotFound", "JobReadAccepted", "DatasetReadCreated"} <= components["responses"].keys()


def _resolved(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    kind, name = part["$ref"].split("/")[-2:]
    resolved: dict[str, Any] = document["components"][kind][name]
    return resolved


def test_all_of_the_contract_is_there(operations: dict[str, Any]) -> None:
    """The calls a user's way needs are documented."""
    of_each_kind = {
        f"{method} {kind.path}{rest}"
        for kind in KINDS.values()
        for method, rest in (
            *(("post", ""), ("get", ""), ("get", "/{id}"), ("delete", "/{id}")),
            *(("post", f"/{{id}}/{verb}") for verb in ("cancel", "pause", "resume")),
            ("get", "/{id}/events"),
        )
    }
    assert of_each_kind | {
        "post /v1/datasets",
        "get /v1/datasets",
        "get /v1/datasets/{id}",
        "delete /v1/datasets/{id}",
        "post /v1/datasets/{id}/append",
        "post /v1/datasets/{id}/split",
        "get /v1/datasets/{id}/content",
        "get /v1/datasets/{id}/rows",
        "get /v1/solvers",
        "get /v1/solvers/{name}",
        "post /v1/jobs:batch",
        "get /v1/jobs/{id}/trace",
        "get /v1/models",
        "get /v1/models/{name}",
        "get /v1/models/{name}/versions",
        "get /v1/models/{name}/versions/{version}",
        "get /v1/models/{name}/versions/{version}/artifact",
        "get /v1/models/{name}/aliases",
        "put /v1/models/{name}/aliases/{alias}",
        "delete /v1/models/{name}/aliases/{alias}",
        "post /v1/models/{name}/predict",
        "post /v1/models/{name}/versions/{version}/predict",
        "post /v1/models/{name}/aliases/{alias}/predict",
        "post /v2/models/{name}/infer",
        "post /v2/models/{name}/versions/{version}/infer",
        "get /v1/batch-predictions/{id}/results",
        "get /livez",
        "get /readyz",
        "get /metrics",
        "get /v1/info",
    } <= set(operations)


def test_every_operation_is_described(operations: dict[str, Any]) -> None:
    """Summary, description, an id of its own, and a tag."""
    for name, operation in operations.items():
        for member in ("summary", "description", "operationId", "tags"):
            assert operation.get(member), f"{name}: {member}"
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(ids) == len(set(ids))
    assert all("__" not in id and id.islower() for id in ids)


def test_every_parameter_is_described(operations: dict[str, Any]) -> None:
    """No parameter leaves a caller guessing."""
    silent = [
        f"{name}: {parameter['name']}"
        for name, operation in operations.items()
        for parameter in operation.get("parameters", ())
        if not (parameter.get("description") or parameter["schema"].get("description"))
    ]
    assert silent == []


def test_every_body_has_an_example(operations: dict[str, Any]) -> None:
    """What a body looks like can be seen for each format it may have."""
    for name, operation in operations.items():
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
            assert "schema" in body, f"{name}: {media_type}"
            example = "example" in body or "examples" in body or "example" in body["schema"]
            parts = body["schema"].get("properties", {}).values()
            in_parts = any("example" in part or "examples" in part for part in parts)
            assert example or in_parts, f"{name}: {media_type}"


def test_every_part_of_the_document_is_described(
    document: dict[str, Any], operations: dict[str, Any]
) -> None:
    """And each has operations."""
    used = {tag for operation in operations.values() for tag in operation["tags"]}
    assert {tag["name"] for tag in document["tags"] if tag["description"]} == used


PLAIN = {
    *("Live", "Ready", "ModelReady", "HealthRead", "ReadinessRead"),
    *("SolverList", "SolverRead", "ProblemKindPage"),
}
"""Replies that need no example: a word or two, what `/docs` gives at a click, and lists of it."""


def test_every_reply_has_an_example_that_fits(
    document: dict[str, Any], operations: dict[str, Any]
) -> None:
    """A service gave it; where schemas have changed since, `make docs` gets new ones."""
    shown = document["components"]["examples"]
    seen = set()
    for name, operation in operations.items():
        for status, reply in operation["responses"].items():
            form = reply.get("content", {}).get("application/json", {})
            schema = form.get("schema", {}).get("$ref", "").rpartition("/")[2]
            if not status.startswith("2") or not schema or schema in PLAIN:
                continue
            assert form["examples"]["reply"]["$ref"] == f"#/components/examples/{schema}", name
            seen.add(schema)
    assert seen == set(shown) - set(PROBLEMS)
    for schema in seen:
        reference = {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}
        example = shown[schema]["value"]
        OAS31Validator(reference).validate(example)
        known = document["components"]["schemas"][schema]["properties"].keys()
        assert example.keys() <= known
        rare = {"probability", "explanation", "ignored_columns", "unknown", "warnings"}
        rare |= {"values", "intervals", "coverage"}  # of models of numbers
        rare |= {"unknown_words", "label_or_none", "withheld"}  # of texts, of validated models
        rare.add("parameters")
        assert known - example.keys() <= rare, schema


def test_every_body_is_documented(operations: dict[str, Any]) -> None:
    """Only calls that take no body are without one."""
    bodiless = {
        name
        for name, operation in operations.items()
        if name.split()[0] in BODY_METHODS and "requestBody" not in operation
    }
    paths = {"/v1/jobs", *(kind.path for kind in KINDS.values())}
    assert bodiless == {
        f"post {path}/{{id}}/{verb}" for path in paths for verb in ("pause", "resume")
    }


def test_problems_of_an_operation_are_documented(operations: dict[str, Any]) -> None:
    """Error replies are problems with known codes; every call has a reply that is none."""
    for name, operation in operations.items():
        replies = operation["responses"]
        assert any(status.startswith("2") for status in replies), name
        for status, reply in replies.items():
            if not status.startswith(("4", "5")):
                continue
            form = "application/json" if " /v2" in name else "application/problem+json"
            assert list(reply["content"]) == [form], f"{name}: {status}"
            codes = reply["description"].split("`")[1::2]
            assert codes, f"{name}: {status}"
            assert {PROBLEMS[code].status for code in codes} == {int(status)}, f"{name}: {status}"


def test_what_any_call_can_answer_is_documented_everywhere(operations: dict[str, Any]) -> None:
    """For parameters, headers and bodies, whatever the route itself says."""
    for name, operation in operations.items():
        codes = {
            code
            for reply in operation["responses"].values()
            for form in reply.get("content", {}).values()
            for code in form.get("examples", {})
        }
        needed = {"invalid-parameter"}
        if any(parameter["in"] == "header" for parameter in operation.get("parameters", ())):
            needed.add("invalid-header")
        if formats := operation.get("requestBody", {}).get("content"):
            needed |= {"digest-mismatch", "invalid-header", "body-too-large", "malformed-request"}
            needed |= {"unsupported-format", "format-mismatch", "decompression-limit"}
            if "application/json" in formats:
                needed |= {"malformed-json", "bad-encoding", "invalid-field"}
        assert codes >= needed, name


def test_no_operation_documents_what_cannot_happen(document: dict[str, Any]) -> None:
    """FastAPI's own validation error is nowhere: ours is another."""
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_examples_run_as_they_are(client: TestClient, operations: dict[str, Any]) -> None:
    """A user of the documentation page can upload each format, and then start a training."""
    content = operations["post /v1/datasets"]["requestBody"]["content"]
    texts = {name: body for name, body in content.items() if "example" in body}  # others: files
    assert texts.keys() >= {"application/json", "text/csv"}
    for media_type, body in texts.items():
        example = body["example"]
        content = example if isinstance(example, str) else json.dumps(example)
        headers = {"Content-Type": media_type}
        upload = client.post("/v1/datasets", content=content, headers=headers)
        assert upload.status_code in (200, 201), upload.text
        job = operations["post /v1/jobs"]["requestBody"]["content"]["application/json"]["example"]
        training = client.post("/v1/jobs", json=job)
        assert training.status_code == 202, training.text
        assert training.json()["spec"]["dataset_id"] == upload.json()["id"]
        comparison = operations["post /v1/comparisons"]["requestBody"]["content"]
        body = comparison["application/json"]["example"]
        plan = client.post("/v1/comparisons", json=body, params={"validate_only": "true"})
        assert plan.status_code == 200, plan.text
        assert client.post("/v1/comparisons", json=body).status_code == 202


def test_no_default_is_an_object(document: dict[str, Any]) -> None:
    """Generators of clients know only plain defaults: `openapi-python-client` leaves out a schema
    with another one, and all that needs it. The meaning is in the description."""
    todo: list[Any] = [document["components"]["schemas"]]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            assert not ("anyOf" in part and isinstance(part.get("default"), dict)), part
            assert not ("$ref" in part and isinstance(part.get("default"), dict)), part
        todo += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    features = document["components"]["schemas"]["JobCreate"]["properties"]["features"]
    assert '{"name": "identity"}' in features["description"]
