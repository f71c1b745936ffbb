"""Models over HTTP: versions, aliases, and the file of a version."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from service.common.content_negotiation import choose
from service.common.names import AliasName, ModelName
from service.datasets.store import DatasetStore
from service.errors import InvalidRequest
from service.models import schemas
from service.models.card import as_markdown, card_of, training_data
from service.models.registry import ModelRegistry
from service.models.schemas import MAX_VERSION, AliasUpdate
from service.models.versions import LATEST
from service.storage.database.tables import Alias
from service.web.access.scopes import Routes, requires_scope
from service.web.bodies.control_bodies import json_body, json_request
from service.web.http import headers as etags
from service.web.http.downloads import RANGE_PARAMETERS, download, downloads
from service.web.http.headers import check_if_match, etag, not_modified
from service.web.http.pagination import PageParams, next_page_token
from service.web.problems import responses

Version = Annotated[
    int, Path(ge=1, le=MAX_VERSION, description="Number of the version.", examples=[1])
]
ARTIFACT = "application/octet-stream"
MARKDOWN = "text/markdown"
AliasBody = Annotated[AliasUpdate, Depends(json_body(AliasUpdate))]

Read = TypeVar("Read", bound=BaseModel)

_NAMED = ("invalid-name", "invalid-parameter", "not-found")
_WITH_ETAG = (*_NAMED, *etags.PROBLEMS)
_SET = ("malformed-json", "precondition-required", "invalid-field", "invalid-state")


def router(registry: ModelRegistry, datasets: DatasetStore) -> Routes:
    """`/v1/models` and the routes below it."""
    routes = Routes("/v1/models", "models")
    _add_models(routes, registry)
    _add_versions(routes, registry)
    _add_card(routes, registry, datasets)
    _add_aliases(routes, registry)
    return routes


def _add_models(routes: APIRouter, registry: ModelRegistry) -> None:
    @routes.get(
        "",
        operation_id="list_models",
        summary="List models",
        description="Models that have not been deleted, newest first.",
        responses=responses("invalid-parameter"),
    )
    def list_models(page: PageParams) -> schemas.ModelPage:
        models = registry.page(page)
        return schemas.ModelPage(
            models=[schemas.ModelRead.model_validate(model) for model in models.items],
            next_page_token=next_page_token(page, models),
        )

    @routes.get(
        "/{name}",
        operation_id="get_model",
        summary="Get a model",
        description="A model's latest version and its aliases.",
        response_model=schemas.ModelRead,
        responses=responses(*_WITH_ETAG),
    )
    def get_model(
        request: Request, response: Response, name: ModelName
    ) -> schemas.ModelRead | Response:
        return _with_etag(request, response, schemas.ModelRead.model_validate(registry.get(name)))

    @routes.delete(
        "/{name}",
        status_code=204,
        operation_id="delete_model",
        summary="Delete a model",
        description="Deletes all versions. If a model of this name is trained again, also by a job "
        "that waits or runs now, its version numbers continue. Refused if there are aliases, "
        "unless forced.",
        responses=responses(*_WITH_ETAG, "resource-in-use"),
    )
    def delete_model(
        request: Request,
        name: ModelName,
        force: Annotated[bool, Query(description="Also delete the aliases.")] = False,
    ) -> None:
        registry.delete(
            name,
            force,
            lambda model: check_if_match(request, etag_of(schemas.ModelRead.model_validate(model))),
        )


def _add_versions(routes: APIRouter, registry: ModelRegistry) -> None:
    @routes.get(
        "/{name}/versions",
        operation_id="list_model_versions",
        summary="List a model's versions",
        description="Versions with their metrics, certificates and lineage, newest first.",
        responses=responses(*_NAMED),
    )
    def list_versions(name: ModelName, page: PageParams) -> schemas.ModelVersionPage:
        versions = registry.versions(name, page)
        return schemas.ModelVersionPage(
            versions=[schemas.ModelVersionRead.of(version) for version in versions.items],
            next_page_token=next_page_token(page, versions),
        )

    @routes.get(
        "/{name}/versions/{version}",
        operation_id="get_model_version",
        summary="Get a version of a model",
        description="Metrics, certificate and lineage of one version.",
        response_model=schemas.ModelVersionRead,
        responses=responses(*_WITH_ETAG),
    )
    def get_version(
        request: Request, response: Response, name: ModelName, version: Version
    ) -> schemas.ModelVersionRead | Response:
        read = schemas.ModelVersionRead.of(registry.get_version(name, version))
        return _with_etag(request, response, read)

    @routes.delete(
        "/{name}/versions/{version}",
        status_code=204,
        operation_id="delete_model_version",
        summary="Delete a version of a model",
        description="Refused if an alias points to it. Its number is not used again.",
        responses=responses(*_WITH_ETAG, "resource-in-use"),
    )
    def delete_version(request: Request, name: ModelName, version: Version) -> None:
        registry.delete_version(
            name,
            version,
            lambda current: check_if_match(request, etag_of(schemas.ModelVersionRead.of(current))),
        )

    @routes.get(
        "/{name}/versions/{version}/artifact",
        operation_id="download_artifact",
        summary="Download a version's file",
        description="A joblib dump of a dict of plain arrays, numbers and strings. "
        "`Repr-Digest` is its sha-256 (RFC 9530).",
        response_class=Response,
        responses={
            **downloads(ARTIFACT),
            **responses(*_WITH_ETAG, "range-not-satisfiable", "model-corrupt"),
        },
        openapi_extra=RANGE_PARAMETERS,
    )
    def download_artifact(request: Request, name: ModelName, version: Version) -> Response:
        model_version = registry.get_version(name, version)
        return download(
            request,
            registry.files.open_artifact(model_version),
            size_bytes=model_version.size_bytes,
            sha256=model_version.artifact_sha256,
            media_type=ARTIFACT,
            filename=f"{name}-{version}.joblib",
        )


def _add_card(routes: APIRouter, registry: ModelRegistry, datasets: DatasetStore) -> None:
    @routes.get(
        "/{name}/versions/{version}/card",
        operation_id="get_model_card",
        summary="Get the card of a version",
        description="Summary, intended use, quality and limits of the version, in plain sentences "
        "generated from records. JSON, or Markdown with `Accept: text/markdown`.",
        response_model=schemas.ModelCardRead,
        responses={
            200: {
                "description": "The card.",
                "content": {
                    MARKDOWN: {
                        "schema": {"type": "string"},
                        "example": "# iris version 1\n\nA linear classifier for …\n",
                    }
                },
            },
            **responses(*_WITH_ETAG, "not-acceptable"),
        },
    )
    def get_card(
        request: Request, response: Response, name: ModelName, version: Version
    ) -> schemas.ModelCardRead | Response:
        media_type = choose(request, ("application/json", MARKDOWN))
        model_version = registry.get_version(name, version)
        card = card_of(model_version, training_data(datasets, model_version))
        response.headers["Vary"] = "Accept"
        if media_type == "application/json":
            return _with_etag(request, response, card)
        text = as_markdown(card, model_version)
        current = etag(hashlib.sha256(text.encode()).hexdigest()[:32])
        headers = {"ETag": current, "Vary": "Accept", "Content-Type": f"{MARKDOWN}; charset=utf-8"}
        return not_modified(request, current, headers) or Response(text, headers=headers)


def _add_aliases(routes: APIRouter, registry: ModelRegistry) -> None:
    @routes.put(
        "/{name}/aliases/{alias}",
        operation_id="set_alias",
        summary="Create or move an alias",
        description="Send `If-None-Match: *` to create, `If-Match` with the alias's ETag to move "
        "it. The next prediction by this alias uses the new version.",
        response_model=schemas.AliasRead,
        responses={
            201: {"model": schemas.AliasRead, "description": "Created."},
            **responses(*_WITH_ETAG, *_SET),
        },
        openapi_extra={
            "parameters": [etags.IF_NONE_MATCH, etags.IF_MATCH],
            **json_request(AliasUpdate, {"version": 1}),
        },
    )
    @requires_scope("train")
    def set_alias(
        request: Request, response: Response, name: ModelName, alias: AliasName, body: AliasBody
    ) -> schemas.AliasRead:
        _refuse_latest(alias)
        check = partial(_check_alias, request)
        moved = registry.set_alias(name, alias, body.version, check)
        response.status_code = 201 if moved.revision == 1 else 200
        response.headers["ETag"] = etag(moved.etag)
        return schemas.AliasRead.model_validate(moved)

    @routes.get(
        "/{name}/aliases",
        operation_id="list_aliases",
        summary="List a model's aliases",
        description="Aliases by name, without `latest`, which is always the highest version.",
        responses=responses(*_NAMED),
    )
    def list_aliases(name: ModelName) -> schemas.AliasPage:
        return schemas.AliasPage(
            aliases=[schemas.AliasRead.model_validate(alias) for alias in registry.aliases(name)]
        )

    @routes.get(
        "/{name}/aliases/{alias}",
        operation_id="get_alias",
        summary="Get an alias",
        description="Its `ETag` is required to move or remove it.",
        response_model=schemas.AliasRead,
        responses=responses(*_WITH_ETAG),
    )
    def get_alias(
        request: Request, response: Response, name: ModelName, alias: AliasName
    ) -> schemas.AliasRead | Response:
        row = registry.alias(name, alias)
        present = response.headers["ETag"] = etag(row.etag)
        return not_modified(request, present) or schemas.AliasRead.model_validate(row)

    @routes.delete(
        "/{name}/aliases/{alias}",
        status_code=204,
        operation_id="remove_alias",
        summary="Remove an alias",
        description="The version is kept. `If-Match` is required, with the alias's ETag or `*`.",
        responses=responses(*_WITH_ETAG, "precondition-required"),
        openapi_extra={"parameters": [etags.REQUIRED_IF_MATCH]},
    )
    @requires_scope("train")
    def remove_alias(request: Request, name: ModelName, alias: AliasName) -> None:
        _refuse_latest(alias)
        registry.remove_alias(name, alias, partial(_check_alias, request))


def etag_of(read: BaseModel) -> str:
    """The ETag of a model or a version."""
    return etag(hashlib.sha256(read.model_dump_json().encode()).hexdigest()[:32])


def _with_etag(request: Request, response: Response, read: Read) -> Read | Response:
    response.headers["ETag"] = etag_of(read)
    return not_modified(request, etag_of(read), response.headers) or read


def _check_alias(request: Request, current: Alias | None) -> None:
    present = None if current is None else etag(current.etag)
    check_if_match(request, present, required=True)


def _refuse_latest(alias: str) -> None:
    if alias == LATEST:
        detail = "`latest` is always the highest version; choose another name for an alias"
        raise InvalidRequest("invalid-name", detail)
