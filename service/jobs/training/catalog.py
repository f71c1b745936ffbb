"""The solvers on offer, told from their dataclasses: `/v1/solvers`."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, TypeAdapter

from service.errors import NotFound
from service.jobs.read_schemas import READ
from service.web.access.routing import Routes
from service.web.problems import responses
from svm.solvers import CHOICES
from svm.solvers.protocol import HasDualCoefficients

SolverName = Annotated[str, Path(description="Name of a solver.", examples=["pegasos"])]


class WarmStartRead(BaseModel):
    """What a job with `warm_start_from` begins with."""

    model_config = READ

    goes_on_from: list[str]
    """Solvers whose models it can begin at."""
    takes: str
    """What it takes over."""
    needs_rows: bool
    """Whether the dataset must be the model's, or made from it by `append`."""


class SolverRead(BaseModel):
    """What a solver minimizes, and what it takes."""

    model_config = READ

    name: str
    description: str
    objective: str
    """In the solver's own constants; a job's certificate gives it as `solver_objective`."""
    cost_per_epoch: str
    """With n rows and d features."""
    reference: str
    warm_start: WarmStartRead
    parameters: dict[str, Any]
    """JSON Schema of the job's field `solver`: types, ranges, defaults and their meaning."""


class SolverList(BaseModel):
    solvers: list[SolverRead]


def router() -> Routes:
    """`/v1/solvers`."""
    routes = Routes("/v1/solvers", "solvers")

    @routes.get(
        "",
        operation_id="list_solvers",
        summary="List the solvers",
        description="Each with its objective and the JSON Schema of its parameters.",
    )
    def list_solvers() -> SolverList:
        return SolverList(solvers=[describe(name) for name in CHOICES])

    @routes.get(
        "/{name}",
        operation_id="get_solver",
        summary="Get a solver",
        description="Its objective and the JSON Schema of its parameters.",
        responses=responses("not-found"),
    )
    def get_solver(name: SolverName) -> SolverRead:
        if name not in CHOICES:
            raise NotFound("not-found", f"no such solver; there are {', '.join(CHOICES)}")
        return describe(name)

    return routes


def warm_up() -> None:
    """Make now what the first requests would wait for."""
    for name in CHOICES:
        describe(name)


@cache
def describe(name: str) -> SolverRead:
    """What `/v1/solvers` says of a solver that exists."""
    solver = CHOICES[name]
    return SolverRead(
        name=name,
        description=inspect.getdoc(solver) or "",
        objective=solver.objective,
        cost_per_epoch=solver.cost_per_epoch,
        reference=solver.reference,
        warm_start=WarmStartRead(
            goes_on_from=list(solver.starts_from),
            takes=solver.inherits,
            needs_rows=issubclass(solver, HasDualCoefficients),
        ),
        parameters=TypeAdapter(solver).json_schema(),
    )
