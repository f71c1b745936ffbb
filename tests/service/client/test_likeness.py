"""The client shares no code with the server: their declarations must be the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from pydantic import TypeAdapter

from service.app import create_app
from service.client.errors import Fault as ClientFault
from service.client.errors import Problem, problem_of
from service.client.fields import (
    DatasetFields,
    JobFields,
    ModelFields,
    ModelVersionFields,
    Resource,
)
from service.client.rows import MEDIA_TYPES
from service.client.specs import TrainSpec
from service.errors import Fault
from service.settings import Settings
from service.web.problem_codes import PROBLEMS

NULL_IF_ONLY_VALIDATED = {"id", "created_at"}
"""Null in the reply to `validate_only`, which creates no dataset."""


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return create_app(Settings(data_dir=tmp_path_factory.mktemp("likeness"))).openapi()


@pytest.fixture(scope="module")
def schemas(document: dict[str, Any]) -> dict[str, Any]:
    components: dict[str, Any] = document["components"]["schemas"]
    return components


@pytest.mark.parametrize(
    ("fields_of", "schema"),
    [
        (DatasetFields, "DatasetRead"),
        (JobFields, "JobRead"),
        (ModelFields, "ModelRead"),
        (ModelVersionFields, "ModelVersionRead"),
    ],
)
def test_resources_have_the_members_of_the_document(
    schemas: dict[str, Any], fields_of: type[Resource], schema: str
) -> None:
    """All of them, with their types, and None if they can be null."""
    documented = {
        name: _types(each, schemas) for name, each in schemas[schema]["properties"].items()
    }
    if fields_of is DatasetFields:
        documented |= {name: documented[name] - {"null"} for name in NULL_IF_ONLY_VALIDATED}
    hints = {name: hint for name, hint in get_type_hints(fields_of).items() if name != "data"}
    schemas_of_hints = {name: TypeAdapter(hint).json_schema() for name, hint in hints.items()}
    assert {name: _types(each, {}) for name, each in schemas_of_hints.items()} == documented


def test_train_has_the_fields_of_a_job(schemas: dict[str, Any]) -> None:
    """Every field of `POST /v1/jobs` is an argument of `train`."""
    positional = {"dataset_id", "model_name", "solver"}
    assert TrainSpec.__optional_keys__ == set(schemas["JobCreate"]["properties"]) - positional


def test_client_has_the_formats_of_the_service(document: dict[str, Any]) -> None:
    """By suffixes of files; the one inside of a zip file is its format."""
    upload = document["paths"]["/v1/datasets"]["post"]["requestBody"]["content"]
    wrapped = {"multipart/form-data", "application/zip"}
    assert set(MEDIA_TYPES.values()) == set(upload) - wrapped


def test_errors_have_the_members_of_faults() -> None:
    """In the same order, of the same types."""
    assert [(f.name, f.type) for f in fields(ClientFault)] == [
        (f.name, f.type) for f in fields(Fault)
    ]


def test_every_problem_has_a_family() -> None:
    """Each problem has its own exception class."""
    for problem in PROBLEMS.values():
        assert type(problem_of(problem.status, {})) is not Problem, problem


def _types(schema: Mapping[str, Any], known: Mapping[str, Any]) -> set[str]:
    """The names of a value's types in JSON Schema."""
    if "$ref" in schema:
        return _types(known[schema["$ref"].rpartition("/")[2]], known)
    members = schema.get("anyOf", ())
    return set().union(*(_types(member, known) for member in members)) or {schema["type"]}
