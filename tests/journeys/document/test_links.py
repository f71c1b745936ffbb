"""Links in the OpenAPI document from replies to operations."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.testclient import TestClient

from tests.journeys.document.links import linked

pytestmark = pytest.mark.one_application


@pytest.fixture
def document(client: TestClient) -> dict[str, Any]:
    return linked(client.get("/openapi.json").json())


@pytest.fixture
def replies(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The links of every reply that has some, by operation and status."""
    return {
        f"{operation['operationId']} {status}": reply["links"]
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, reply in operation["responses"].items()
        if "links" in reply
    }


def test_linked_document_is_valid(document: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(document).validate()


def test_links_lead_from_an_upload_to_a_prediction(
    replies: dict[str, dict[str, Any]],
) -> None:
    assert replies["create_dataset 201"]["create_job"] == {
        "operationId": "create_job",
        "requestBody": {"dataset_id": "$response.body#/id"},
    }
    assert replies["create_job 202"]["get_job"] == {
        "operationId": "get_job",
        "parameters": {"id": "$response.body#/id"},
    }
    version = replies["get_job 200"]["get_model_version"]["parameters"]
    assert version == {
        "name": "$response.body#/model/name",
        "version": "$response.body#/model/version",
    }
    assert replies["list_model_versions 200"]["predict_by_version"]["parameters"] == {
        "name": "$request.path.name",
        "version": "$response.body#/versions/0/version",
    }


def test_lists_below_a_resource_do_not_link_to_its_collection(
    replies: dict[str, dict[str, Any]],
) -> None:
    """The `id` of an event is not that of a job."""
    assert "get_job_events 200" not in replies


def test_links_have_the_parameters_of_their_operations(
    document: dict[str, Any], replies: dict[str, dict[str, Any]]
) -> None:
    paths = {
        operation["operationId"]: path
        for path, methods in document["paths"].items()
        for operation in methods.values()
    }
    for links in replies.values():
        for name, link in links.items():
            assert re.findall(r"{(\w+)}", paths[name]) == list(link.get("parameters", ())), link
