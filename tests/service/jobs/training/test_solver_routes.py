"""`/v1/solvers`, as described by the dataclasses."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from svm.solvers import CHOICES

pytestmark = pytest.mark.one_application


def test_every_solver_is_listed_with_its_objective_and_parameters(client: TestClient) -> None:
    """The list is the table of contents of `svm.solvers`."""
    listed = client.get("/v1/solvers").json()["solvers"]
    assert [solver["name"] for solver in listed] == list(CHOICES)
    for solver in listed:
        for field in ("description", "objective", "cost_per_epoch", "reference"):
            assert solver[field], field
        assert client.get(f"/v1/solvers/{solver['name']}").json() == solver


@pytest.mark.parametrize("name", CHOICES)
def test_parameters_are_described_as_they_are_sent(client: TestClient, name: str) -> None:
    """`lambda`, not `lambda_`; ranges, defaults, and a sentence for each but the name."""
    parameters = client.get(f"/v1/solvers/{name}").json()["parameters"]
    properties = parameters["properties"]
    assert parameters["additionalProperties"] is False
    assert properties["name"]["const"] == name
    assert properties["lambda"]["anyOf"][0]["minimum"] == 1e-100
    for field, schema in properties.items():
        assert field == "name" or schema["description"], field
        assert "default" in schema


def test_unknown_solver_is_not_found(client: TestClient) -> None:
    """The detail lists the known ones."""
    reply = client.get("/v1/solvers/perceptron")
    assert (reply.status_code, reply.json()["code"]) == (404, "not-found")
    assert "pegasos" in reply.json()["detail"]
