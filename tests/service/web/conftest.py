"""A small application with a route for each feature of `service.web`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import pytest
from fastapi import APIRouter, Depends, FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from service.common.names import JobId, ModelName
from service.errors import Corrupt, Fault, InvalidContent, Unavailable
from service.web import problems
from service.web.bodies.control_bodies import LIMIT_BYTES, json_body, json_request
from service.web.bodies.validation import known_query_parameters
from service.web.docs import DocumentedAPI
from service.web.http.headers import HeadAsGet, check_if_match, etag, not_modified
from service.web.http.pagination import SECRET, PageParams
from service.web.server.observability import Metrics, Observability


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Circle(Strict):
    name: Literal["circle"]
    radius: Annotated[float, Field(gt=0)]


class Square(Strict):
    name: Literal["square"]
    side: float


class Drawing(Strict):
    title: str
    shape: Annotated[Circle | Square, Field(discriminator="name")]
    model_name: ModelName = "iris"
    tags: dict[str, int] = {}
    points: list[tuple[float, float]] = []


EXAMPLE = {"title": "one", "shape": {"name": "circle", "radius": 1.5}}
ReadDrawing = Annotated[Drawing, Depends(json_body(Drawing))]


def _routes() -> APIRouter:
    routes = APIRouter(dependencies=[Depends(known_query_parameters)])

    @routes.post("/drawings", openapi_extra=json_request(Drawing, EXAMPLE))
    def draw(drawing: ReadDrawing) -> dict[str, str]:
        return {"shape": drawing.shape.name}

    @routes.get("/drawings/first")
    def first() -> Drawing:
        return Drawing.model_validate(EXAMPLE)

    @routes.get("/things")
    def things(
        page: PageParams, state: Annotated[Literal["queued", "running"] | None, Query()] = None
    ) -> dict[str, Any]:
        return {"size": page.size, "after": page.after, "state": state}

    @routes.get("/models/{name}")
    def model(name: ModelName, request: Request) -> Response:
        return not_modified(request, etag(name)) or Response(headers={"ETag": etag(name)})

    @routes.put("/models/{name}")
    def put_model(name: ModelName, request: Request) -> Response:
        # The model "new" does not exist yet.
        check_if_match(request, None if name == "new" else etag(name), required=True)
        return Response(status_code=204)

    @routes.get("/jobs/{id}")
    def job(id: JobId) -> dict[str, str]:
        return {"id": id}

    @routes.get("/fail/{how}")
    def fail(how: str) -> None:
        if how == "many":
            faults = tuple(
                Fault(code="not-a-number", message="no", row=row, column="age", value="x" * 100)
                for row in range(1, 151)
            )
            raise InvalidContent("not-a-number", "150 cells are not numbers", faults)
        if how == "busy":
            raise Unavailable("queue-full", "too many jobs", retry_after_s=2.2)
        if how == "damaged":
            raise Corrupt("model-corrupt", "damaged")
        raise RuntimeError("/secret/path")

    return routes


@pytest.fixture
def probe() -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        yield {LIMIT_BYTES: 2000, SECRET: b"a secret"}

    app = DocumentedAPI(redirect_slashes=False, lifespan=lifespan)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Observability, metrics=Metrics())
    problems.install(app)
    app.routes.extend(_routes().routes)
    return app


@pytest.fixture
def caller(probe: FastAPI) -> Iterator[TestClient]:
    with TestClient(probe) as caller:
        yield caller
