"""Hyperparameters refuse values that their annotations do not allow. The bad values are derived
from the annotations."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt, Predicate
from pydantic import ValidationError
from pydantic.type_adapter import TypeAdapter

from svm import SVMClassifier
from svm.errors import InvalidHyperparameter
from svm.hyperparameters import ByName, Checked, Doc, LossName
from svm.kernel.kernels import KERNELS
from svm.model.pipeline import Pipeline
from svm.solvers import CHOICES, SOLVERS, DualCoordinateDescent, Newton, Pegasos
from svm.solvers.options import RandomStart
from svm.solvers.other_names import _MEANT, did_you_mean
from svm.stopping import CostChange, Stopping
from svm.transforms.features import FEATURES

CHECKED: list[type[Checked]] = [*SOLVERS.values(), RandomStart, CostChange, Stopping, Pipeline]
REQUIRED: dict[type[Checked], dict[str, Any]] = {
    RandomStart: {"random_scale": 0.1},
    CostChange: {"epsilon": 0.1},
    Pipeline: {"solver": Newton()},
}


def bad_values(annotation: Any) -> list[Any]:
    """Values just outside an annotation, for every constraint and type in it."""
    if get_origin(annotation) is Annotated:
        base, *constraints = get_args(annotation)
        bad = bad_values(base)
        for constraint in constraints:
            match constraint:
                case Gt(gt=float() | int() as bound):
                    bad += [bound, bound - 1, math.nan]
                case Ge(ge=float() | int() as bound):
                    bad += [bound - 1, math.nan]
                    bad += [math.nextafter(bound, -math.inf)] * isinstance(bound, float)
                case Le(le=int() as bound):
                    bad += [bound + 1, math.nan]
                case Le(le=float() as bound):
                    bad += [math.nextafter(bound, math.inf), 2 * bound, 10**400, math.nan]
                case Lt(lt=float() | int() as bound):
                    bad += [bound, bound + 1, math.nan]
                case Predicate():
                    bad += [math.inf, -math.inf, math.nan, 10**400]
                case Doc() | ByName():
                    pass
                case _:
                    raise AssertionError(f"a new kind of constraint: {constraint!r}")
        return bad
    if get_origin(annotation) is Literal:
        return ["", "unknown", 0, True, None, *(each.upper() for each in get_args(annotation))]
    if get_origin(annotation) in (Union, types.UnionType):
        members = get_args(annotation)
        bad = [value for member in members for value in bad_values(member)]
        return [value for value in bad if value is not None or type(None) not in members]
    if annotation is float:
        return ["1", True, False, None, [1.0], 1j]
    if annotation is int:
        return ["1", True, False, None, 1.0, 1.5]
    if annotation is type(None):
        return ["null"]
    if annotation is bool:
        return [None, 0, 1, "true"]
    if get_origin(annotation) is dict:
        return [None, 1, {1: 1.0}, {"a": 0.0}, {"a": True}]
    assert is_dataclass(annotation), annotation
    return [None, {}, "", []]


def cases() -> Iterator[Any]:
    for kind in CHECKED:
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            for value in bad_values(hints[field.name]):
                shown = repr(value)[:12]  # one of the values has 400 digits
                yield pytest.param(
                    kind, field.name, value, id=f"{kind.__name__}.{field.name}={shown}"
                )


@pytest.mark.parametrize(("kind", "field", "value"), list(cases()))
def test_bad_value_is_refused(kind: type[Checked], field: str, value: Any) -> None:
    """The error has the field's name in JSON, the value, and what was expected."""
    given = {**REQUIRED.get(kind, {}), field: value}
    with pytest.raises(InvalidHyperparameter) as caught:
        kind(**given)
    error = caught.value
    assert error.name == field.rstrip("_")
    assert error.value is value
    assert error.expected
    assert str(error).startswith(f"{error.name}: expected {error.expected}")


@pytest.mark.parametrize("kind", CHECKED, ids=lambda kind: kind.__name__)
def test_defaults_are_valid_and_frozen(kind: type[Checked]) -> None:
    """Every class can be made from its required fields, is a value, and cannot be changed."""
    given = REQUIRED.get(kind, {})
    made = kind(**given)
    assert made == kind(**given)
    assert hash(made) == hash(kind(**given))
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(kind)[0].name, None)


@pytest.mark.parametrize("kind", SOLVERS.values(), ids=lambda kind: kind.__name__)
def test_lambda_or_c_and_never_both(kind: type[Any]) -> None:
    """Each alone is accepted, both together are refused."""
    kind(lambda_=0.1)
    kind(C=1)
    with pytest.raises(InvalidHyperparameter, match="either lambda or C") as caught:
        kind(lambda_=0.1, C=1.0)
    assert caught.value.name == "C"


def test_dual_coordinate_descent_offers_no_free_intercept() -> None:
    """A treatment that a solver cannot solve exactly is not a value of its field."""
    with pytest.raises(InvalidHyperparameter, match=r"'augmented' \| 'none'"):
        DualCoordinateDescent(intercept="free")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SOLVERS)
def test_catalog_entry_is_complete(name: str) -> None:
    """Each solver is in the table under its name, with all facts for the catalog."""
    kind: Any = SOLVERS[name]
    assert kind().name == name
    for text in (
        kind.objective,
        kind.cost_per_epoch,
        kind.reference,
        kind.suggestion,
        kind.__doc__,
    ):
        assert isinstance(text, str)
        assert len(text) > 10


@pytest.mark.parametrize("kind", CHECKED[:-1], ids=lambda kind: kind.__name__)
def test_schema_describes_every_field(kind: type[Checked]) -> None:
    """The same annotations give a JSON schema that refuses unknown fields, has λ under its JSON
    name and a description for every field."""
    schema = TypeAdapter(kind).json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {field.name.rstrip("_") for field in fields(kind)}
    undescribed = [
        name
        for name, content in schema["properties"].items()
        if "description" not in content and name != "name"
    ]
    assert undescribed == []


@pytest.mark.parametrize(
    "body",
    ['{"lambda": "1"}', '{"lambda": true}', '{"lambda_": 1}', '{"C": 0}', '{"lambda": 1, "C": 1}'],
)
def test_json_is_checked_by_the_same_annotations(body: str) -> None:
    """Strictly: no text or truth value for a number, no Python name for a JSON one."""
    with pytest.raises(ValidationError):
        TypeAdapter(Pegasos).validate_json(body)


def test_json_becomes_the_dataclass() -> None:
    """A valid body becomes the value; an integer is accepted for a number."""
    made = TypeAdapter(Pegasos).validate_json('{"lambda": 1, "order": "uniform"}')
    assert made == Pegasos(lambda_=1.0, order="uniform")


def test_unknown_constraint_is_a_programming_error() -> None:
    """A constraint without a check would be a range that is only documented."""

    @dataclass(frozen=True, kw_only=True)
    class Odd(Checked):
        value: Annotated[int, "any text"] = 1

    with pytest.raises(TypeError, match="unknown constraint"):
        Odd()


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("svc", CHOICES, "did you mean `smo` for a model with a kernel?"),
        ("LIBLINEAR", CHOICES, "did you mean `dual-coordinate-descent`, which is LIBLINEAR's"),
        ("libsvm", CHOICES, "`smo`"),
        ("sgd", CHOICES, "`pegasos`"),
        ("linear", CHOICES, "`newton`"),
        ("poly", KERNELS, "`polynomial`"),
        ("RBF", KERNELS, "`gaussian`"),
        ("nutron", CHOICES, "`newton`"),
        ("bandwidth", ("gamma", "name"), "which is 1 / (2 bandwidth²)"),
        ("max_iter", ("max_epochs",), "`max_epochs`"),
        ("OvO", ("one-vs-one", "one-vs-rest"), "`one-vs-one`"),
        ("svr", CHOICES, "`smo`, whose loss `epsilon-insensitive` is for a numeric target?"),
        ("epsilon_insensitive", get_args(LossName), "did you mean `epsilon-insensitive`?"),
        ("sigmoid", KERNELS, "not positive semi-definite"),
    ],
)
def test_names_of_other_libraries(name: str, known: Any, said: str) -> None:
    """They lead to what is meant; a name without a meaning leads nowhere."""
    assert said in did_you_mean(name, known)
    assert did_you_mean("zzzz", known) == ""


def test_every_other_name_leads_to_a_known_one() -> None:
    """A solver, kernel, feature map, multiclass scheme, choice or hyperparameter of today."""
    known = {*CHOICES, *KERNELS, *FEATURES, "one-vs-one", "one-vs-rest"}
    known |= set(get_args(LossName))
    for kind in (*CHOICES.values(), *KERNELS.values(), Stopping):
        known |= {field.name.rstrip("_") for field in fields(kind)}
    unknown = {meant for others in _MEANT.values() for meant in others} - known
    assert not unknown


def test_estimator_says_what_was_meant() -> None:
    """For names and for parameters within them."""
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    with pytest.raises(ValueError, match="did you mean `smo` for a model with a kernel"):
        SVMClassifier(solver="svc").fit(X, y)
    with pytest.raises(ValueError, match="did you mean `gaussian`"):
        SVMClassifier(solver="smo", kernel="RBF").fit(X, y)
    with pytest.raises(ValueError, match=r"did you mean `gamma`, which is 1 / \(2 sigma²\)"):
        SVMClassifier(solver="smo", kernel="gaussian").set_params(kernel__sigma=1.0)
