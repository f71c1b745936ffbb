"""`/v1/solvers`: the solvers, as described by their dataclasses."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, TypeAdapter

from service.common.schemas import ReadModel
from service.errors import NotFound
from service.web.access.scopes import Routes
from service.web.problems import responses
from svm.solvers import CHOICES, sources_of
from svm.solvers.protocol import HasDualCoefficients

SolverName = Annotated[str, Path(description="Name of a solver.", examples=["pegasos"])]


class WarmStartRead(ReadModel):
    """What a job with `warm_start_from` inherits."""

    continues_from: list[str]
    """Solvers with whose models it can begin."""
    takes: str
    """What it inherits."""
    needs_rows: bool
    """Whether the dataset must be the model's, or made from it by `append`."""


class SolverRead(ReadModel):
    """What a solver minimizes, and its parameters."""

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
            raise NotFound(
                "not-found", f"there is no such solver; the solvers are {', '.join(CHOICES)}"
            )
        return describe(name)

    return routes


def warm_up() -> None:
    """Describe all solvers now, so that the first request does not wait."""
    for name in CHOICES:
        describe(name)


@cache
def describe(name: str) -> SolverRead:
    """The reply for a solver that exists."""
    solver = CHOICES[name]
    return SolverRead(
        name=name,
        description=inspect.getdoc(solver) or "",
        objective=solver.objective,
        cost_per_epoch=solver.cost_per_epoch,
        reference=solver.reference,
        warm_start=WarmStartRead(
            continues_from=list(sources_of(solver)),
            takes=solver.inherits,
            needs_rows=issubclass(solver, HasDualCoefficients),
        ),
        parameters=TypeAdapter(solver).json_schema(),
    )
