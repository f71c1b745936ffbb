"""Hyperparameters are frozen dataclasses whose ranges are written once, in the annotations.

`Hyperparameters.__post_init__` checks the ranges for Python callers. The same annotations become
the JSON schema of the service, which needs nothing but `__pydantic_config__`, a plain dict.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from annotated_types import Ge, Gt, Le, Lt, Predicate

from svm.errors import InvalidHyperparameter

Positive = Annotated[float, Gt(0), Predicate(math.isfinite)]
Moderate = Annotated[float, Ge(1e-100), Le(1e100)]
"""Positive, and of a size that can be inverted, multiplied and squared: between the largest allowed
data value (`svm.data.matrices.LARGEST`) and its inverse."""
NonNegative = Annotated[float, Ge(0), Le(1e100)]
Fraction = Annotated[float, Ge(0), Lt(1)]
PositiveInt = Annotated[int, Ge(1)]

Intercept = Literal["free", "augmented", "none"]
"""`free`: not penalized. `augmented`: the weight of a constant feature, penalized in ‖w‖².
`none`: the hyperplane passes through the origin."""

Effort = Literal["quick", "balanced", "thorough"]
"""Of a comparison of settings."""
LossName = Literal["hinge", "squared-hinge", "epsilon-insensitive", "squared-epsilon-insensitive"]
"""What a row costs: `svm.problem.losses`. The last two are for numeric targets."""
NUMERIC_LOSSES: tuple[LossName, ...] = "epsilon-insensitive", "squared-epsilon-insensitive"

Dtype = Literal["float64", "float32"]


@dataclass(frozen=True, slots=True)
class Doc:
    """The description of a field that subclasses inherit.

    Pydantic reads the docstring below a field only in the class that defines the field.
    """

    text: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> Any:
        return {**handler(core_schema), "description": self.text}


@dataclass(frozen=True, eq=False)
class ByName:
    """JSON may have a name in place of an object of that name, and names that are used elsewhere.

    Pydantic calls the method, as that of `Doc`, on the type that is annotated.
    """

    others: Mapping[str, str]
    """The name here, by that elsewhere."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        function = {"type": "no-info", "function": self._as_object}
        return {"type": "function-before", "function": function, "schema": handler(source)}

    def _as_object(self, given: Any) -> Any:
        if isinstance(given, str):
            given = {"name": given}
        name = given.get("name") if isinstance(given, dict) else None
        return {**given, "name": self.others.get(name, name)} if isinstance(name, str) else given


DEFAULT_C = 1.0
"""If neither C nor λ is given."""
_LOSSES = Doc(
    "Of classes `hinge`, max(0, 1 - y f(x)), the default but for texts. Of numbers "
    "`epsilon-insensitive`, max(0, |t - f(x)| - ε), the default. `squared-…` are their squares."
)
Loss = Annotated[LossName | None, _LOSSES]
"""The field of a solver that solves all of them."""
UnsquaredLoss = Annotated[Literal["hinge", "epsilon-insensitive"] | None, _LOSSES]
"""The field of one that takes sub-gradient steps."""


def _public_name(name: str) -> str:
    """`lambda_` is `lambda` in JSON."""
    return name.rstrip("_")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A frozen dataclass that checks its fields against their annotations.

    Numbers of NumPy become Python's.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "strict": True,
        "alias_generator": _public_name,
        "use_attribute_docstrings": True,
    }

    def __post_init__(self) -> None:
        cls: Any = type(self)
        hints = _hints(cls)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):  # such as an entry of an array of values to try
                value = value.item()
                object.__setattr__(self, field.name, value)
            if not _fits(hints[field.name], value):
                expected = _describe(hints[field.name])
                raise InvalidHyperparameter(_public_name(field.name), value, expected)


@dataclass(frozen=True, kw_only=True)
class Hyperparameters(Checked):
    """What every solver takes. One of λ and C sets the regularization; without either, C = 1."""

    objective: ClassVar[str]
    """The objective that the solver states, in its own constants."""
    states_common_form: ClassVar[bool] = False
    """If it is λ/2 ‖w‖² + the mean hinge loss; else ½‖w‖² + C Σ hinge: that over λ."""
    cost_per_epoch: ClassVar[str]
    reference: ClassVar[str]
    suggestion: ClassVar[str]
    """What to try if the training diverges."""
    starts_from: ClassVar[tuple[str, ...] | Literal["linear"]]
    """Names of the solvers whose models a warm start can begin from, its own among them; `linear`:
    all that have no kernel (see `svm.solvers.sources_of`)."""
    inherits: ClassVar[str]
    """What it takes from such a model, in words."""
    tests_every_update: ClassVar[bool] = False
    """Whether the solver tests the cost-change rule itself; if not, it is tested every epoch."""
    traces_updates: ClassVar[bool] = False
    """Whether the weights are known after every update, so that a trace may have a point there."""
    needs_certifier: ClassVar[bool] = True
    """Whether another solver may find a better bound after this one has stopped."""
    row_values: ClassVar[tuple[int, int]] = (12, 8)
    """Most numbers in memory, kept or temporary, for each row: norms, scores, losses, a dual point;
    and for each row of each binary problem: number, label, weight, order, state and certifier."""
    kept_vectors: ClassVar[int] = 5
    """Vectors of the length of a mapped row for each binary problem: state, certifier and model."""
    passing_vectors: ClassVar[int] = 12
    """The same for each problem that is being trained, temporary."""
    samples_rows: ClassVar[bool] = True
    """Whether all of these may have a sample of the rows, as newton takes; else one at a time."""
    own_loops: ClassVar[tuple[Mapping[str, Any], ...]] = ({"loss": "epsilon-insensitive"},)
    """Settings other than the defaults that have compiled loops of their own."""
    streaming_option: ClassVar[str] = ""
    """The setting with which this solver reads rows from files, if it needs one."""

    lambda_: Annotated[
        Moderate | None, Doc("Weight λ of ½‖w‖² against the mean loss; give this or C.")
    ] = None
    C: Annotated[
        Moderate | None,
        Doc(
            "Weight of the losses: λ = 1/(nC), of `subgradient` 2/(nC), with n rows in a "
            "binary problem. 1 without λ."
        ),
    ] = None
    dtype: Annotated[
        Dtype,
        Doc("Precision of the training data; objective values have float64."),
    ] = "float64"
    epsilon: Annotated[
        NonNegative | None,
        Doc(
            "ε of numeric targets, in their unit (or their logarithm's): smaller errors cost "
            "nothing. Default: half the robust spread of those of a first fit."
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lambda_ is not None and self.C is not None:
            raise InvalidHyperparameter("C", self.C, "either lambda or C, not both")
        loss = getattr(self, "loss", None)
        if self.epsilon is not None and loss is not None and not self.predicts_numbers:
            raise InvalidHyperparameter("epsilon", self.epsilon, f"no epsilon with the {loss} loss")

    @property
    def streams(self) -> bool:
        """Whether the rows may stay in files (`svm.data.stored_rows`): the solver reads them in an
        order that allows reading block by block."""
        return False

    def trained_by(self, n_features: int) -> type[Hyperparameters]:
        """The solver that trains on this many features, as far as that is known."""
        return type(self)

    @property
    def search_effort(self) -> Effort:
        """How much is compared before the training; `quick` is nothing."""
        return "quick"

    def without_search(self) -> Self:
        """The same, comparing nothing."""
        return self

    @property
    def loss_name(self) -> LossName:
        """The loss that it minimizes."""
        return getattr(self, "loss", None) or "hinge"

    @property
    def predicts_numbers(self) -> bool:
        """Whether its loss is one of numeric targets."""
        return self.loss_name in NUMERIC_LOSSES

    @property
    def computes_kernel(self) -> bool:
        """Whether it computes inner products of all pairs of rows, whose number grows with n²."""
        return getattr(self, "kernel", None) is not None

    @property
    def warm_start_obstacle(self) -> str:
        """Why these hyperparameters do not allow a warm start; empty if they do."""
        return ""

    def advice(self, problem: Any) -> str:
        """What to try if the training of a problem diverges."""
        return self.suggestion

    def visits(self, problem: Any, state: Any) -> float:
        """Rows read by all updates so far."""
        return float(state.updates)

    def stated(self, problem: Any, primal: float) -> float:
        """The primal value of the common form, in the constants of the solver's own objective."""
        return primal if self.states_common_form else float(primal / problem.regularization)

    def regularization(self, n_samples: float) -> float:
        """λ of a binary problem with `n_samples` rows, or that total weight of rows (see
        `svm.problem.objectives`)."""
        if self.lambda_ is not None:
            return float(self.lambda_)
        return 1.0 / (n_samples * (DEFAULT_C if self.C is None else self.C))


def by_name(union: Any) -> dict[str, Any]:
    """The classes of a union by the default of their field `name`."""
    return {kind.__dataclass_fields__["name"].default: kind for kind in get_args(union)}


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _fits(annotation: Any, value: object) -> bool:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        base, *constraints = arguments
        return _fits(base, value) and all(_holds(c, value) for c in constraints)
    if origin is Literal:
        return value in arguments
    if origin in (Union, types.UnionType):
        return any(_fits(member, value) for member in arguments)
    if origin is list:
        return isinstance(value, list) and all(_fits(arguments[0], part) for part in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            _fits(arguments[0], k) and _fits(arguments[1], v) for k, v in value.items()
        )
    if annotation in (float, int) and isinstance(value, bool):  # True is not 1
        return False
    return isinstance(value, int | float if annotation is float else annotation)


BOUNDS: dict[type, tuple[str, str, Callable[[Any, Any], bool]]] = {
    Gt: (">", "gt", operator.gt),
    Ge: (">=", "ge", operator.ge),
    Le: ("<=", "le", operator.le),
    Lt: ("<", "lt", operator.lt),
}


def _holds(constraint: object, value: Any) -> bool:
    if bound := BOUNDS.get(type(constraint)):
        return bool(bound[2](value, getattr(constraint, bound[1])))
    if isinstance(constraint, Predicate):
        try:
            return bool(constraint.func(value))
        except OverflowError:  # an integer beyond all floating-point numbers
            return False
    if isinstance(constraint, Doc | ByName):
        return True
    raise TypeError(f"unknown constraint {constraint!r}")


def _describe(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *constraints = get_args(annotation)
        words = [
            f"{bound[0]} {getattr(c, bound[1])}" if (bound := BOUNDS.get(type(c))) else "finite"
            for c in constraints
            if not isinstance(c, Doc | ByName)
        ]
        return " ".join([_describe(base), *words])
    if origin is Literal:
        return " | ".join(repr(choice) for choice in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(member) for member in get_args(annotation))
    if origin is dict:
        return f"an object of values {_describe(get_args(annotation)[1])}"
    names = {float: "number", int: "integer", type(None): "null"}
    if is_dataclass(annotation):
        return f"an object ({', '.join(_public_name(f.name) for f in fields(annotation))})"
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))
