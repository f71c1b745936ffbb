"""The client shares no code with the server: their declarations must be the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from service.app import create_app
from service.client.errors import Fault as ClientFault
from service.client.errors import Problem, problem_of
from service.client.rows import MEDIA_TYPES
from service.errors import Fault
from service.settings import Settings
from service.web.problems import PROBLEMS
from tools.make_members import FILE, members


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return create_app(Settings(data_dir=tmp_path_factory.mktemp("likeness"))).openapi()


def test_members_are_up_to_date(document: dict[str, Any]) -> None:
    """`make client` would change nothing."""
    assert FILE.read_text() == members(document["components"]["schemas"])


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
