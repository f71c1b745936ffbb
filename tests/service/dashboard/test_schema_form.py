"""Forms made from schemas: fields and entries."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from service.dashboard.schema_forms import (
    Field,
    Group,
    Text,
    Variants,
    body_of,
    entries_of,
    fields_of,
)
from service.jobs.training.schemas import JobCreate
from svm.solvers import CHOICES
from svm.transforms.features import FEATURES

BASE: dict[str, Any] = {"dataset_id": "latest", "model_name": "m", "solver": {"name": "newton"}}

NEEDED: dict[str, dict[str, Any]] = {"terms": {"terms": [{"x": 2}, {"x": 1, "y": 1}]}}


@pytest.fixture(scope="module")
def fields() -> tuple[Field, ...]:
    return fields_of(JobCreate.model_json_schema())


def _again(fields: tuple[Field, ...], body: dict[str, Any]) -> dict[str, Any]:
    """The body with all defaults, and the body from its form."""
    return JobCreate.model_validate_json(
        json.dumps(body_of(fields, entries_of(fields, body)))
    ).model_dump(mode="json", by_alias=True)


@pytest.mark.parametrize(
    "body",
    [
        *({**BASE, "solver": {"name": name}} for name in CHOICES),
        *({**BASE, "features": {"name": name, **NEEDED.get(name, {})}} for name in FEATURES),
        {**BASE, "classes": ["a", 2]},
        {**BASE, "trace": {"every": 3, "unit": "update"}, "solver": {"name": "pegasos"}},
        {**BASE, "validation": {"dataset_id": "latest"}, "stopping": {"patience": 4}},
        {**BASE, "validation": {"fraction": 0.2}},
        {**BASE, "validation": {"fraction": 0.2, "stratify": False}},
        {**BASE, "validation": {"fraction": 0.2, "stratify": True}},
        {**BASE, "validation": {"folds": 4}},
        {**BASE, "class_weight": "balanced"},
        {**BASE, "class_weight": {"a b": 2.5, "c": 1}},
        {**BASE, "stopping": {"cost_change": {"epsilon": 0.1, "smoothing": 0.5}}},
        {**BASE, "stopping": {"duality_gap": 1e-9, "time_budget_s": 3}},
        {**BASE, "solver": {"name": "smo", "kernel": {"name": "gaussian", "gamma": 0.25}}},
        {**BASE, "solver": {"name": "smo", "kernel": {"name": "polynomial", "degree": 5}}},
        {**BASE, "solver": {"name": "gradient-descent", "learning_rate": 0.125}},
        {**BASE, "solver": {"name": "pegasos", "averaging": "all"}},
        {**BASE, "solver": {"name": "subgradient", "averaging": {"after_epochs": 3}}},
        {**BASE, "stopping": {"max_updates": 100}},
        {
            **BASE,
            "solver": {
                "name": "gradient-descent",
                "learning_rate": {"name": "inverse-time", "initial": 0.5},
                "initial": {"random_scale": 0.01},
                "batch_size": 32,
            },
        },
        {**BASE, "tags": {"team": "x = y", "run": "1"}, "set_alias": "best", "priority": -3},
    ],
)
def test_body_is_the_same_after_the_form(fields: tuple[Field, ...], body: dict[str, Any]) -> None:
    """A request that is shown in the inputs and read from them does not change."""
    expected = JobCreate.model_validate_json(json.dumps(body)).model_dump(
        mode="json", by_alias=True
    )
    assert _again(fields, body) == expected
    assert _again(fields, expected) == expected


def test_every_parameter_of_every_solver_has_an_input(fields: tuple[Field, ...]) -> None:
    """A new solver gets its inputs from its schema."""
    solver = next(field for field in fields if field.name == "solver")
    assert isinstance(solver, Variants)
    assert [option.value for option in solver.options] == list(CHOICES)
    for option in solver.options:
        assert isinstance(option.content, Group)
        taken = {field.pointer.rpartition("/")[2] for field in option.content.fields}
        hints = {field.name.rstrip("_") for field in dataclasses.fields(CHOICES[option.value])}
        assert taken | set(option.content.fixed) == hints


def test_names_of_inputs_are_unique_and_pointers_lead_into_the_body(
    fields: tuple[Field, ...],
) -> None:
    """Variants of one value have the same pointer, but not the same inputs."""
    names: list[str] = []

    def walk(some: tuple[Field, ...]) -> None:
        for field in some:
            names.append(field.name)
            if isinstance(field, Group):
                walk(field.fields)
            if isinstance(field, Variants):
                walk(tuple(o.content for o in field.options if o.content is not None))

    walk(fields)
    assert len(names) == len(set(names))
    assert "solver:smo.kernel:gaussian.gamma" in names


@pytest.mark.parametrize("written", ["abc", "1e999", "NaN", "0x10", "true", '"1"', "1,5", "[1]"])
def test_invalid_number_stays_a_text(written: str) -> None:
    """The validation of the body reports it."""
    schema = {"properties": {"x": {"type": "number", "exclusiveMinimum": 0}}}
    (field,) = fields_of(schema)
    assert isinstance(field, Text)
    assert body_of([field], {"x": written}) == {"x": written}
    assert body_of([field], {"x": " 0.5 "}) == {"x": 0.5}
    assert body_of([field], {"x": ""}) == {}


@pytest.mark.parametrize("written", ["x", '{"x": 2}', "[[", "2"])
def test_invalid_list_stays_a_text(fields: tuple[Field, ...], written: str) -> None:
    """So the request refuses it, and shows it again."""
    entries = {"features": "terms", "features:terms.terms": written}
    assert body_of(fields, entries)["features"] == {"name": "terms", "terms": written}


def test_unknown_choice_is_refused_by_the_request(fields: tuple[Field, ...]) -> None:
    """A value without a button is passed on, so that validation reports it."""
    assert body_of(fields, {"solver": "magic"})["solver"] == {"name": "magic"}
