"""The OpenAPI document, the page that shows it, and the documentation site at `/guide`.

Swagger UI's files come with `fastapi-offline`: nothing is loaded from another host. A stylesheet
and a script of our own make the page accessible.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Any

import fastapi_offline
import orjson
from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.routing import iter_route_contexts
from starlette.responses import HTMLResponse, RedirectResponse, Response

from service.web import problems
from service.web.access.scopes import SCHEME, Routes, requires_scope, scopes_of
from service.web.http.compression import CompressedFiles, versioned
from service.web.http.headers import CSP, FOREVER, policy_with_scripts
from service.web.problems import MEDIA_TYPE, PROBLEMS, ProblemRead, responses
from service.web.repetitions import COMPONENTS, objects, shorten

ASSETS = Path(fastapi_offline.__file__).parent / "static"
OWN_ASSETS = Path(__file__).parent / "assets"
REPLIES = OWN_ASSETS / "replies.json"
"""An example reply for each schema; `make docs` writes them."""
_AUTHENTICATION = ("unauthorized", "forbidden", "rate-exceeded")
"""Problems of every route that requires a key."""
_BODY = (
    *("malformed-request", "invalid-header", "digest-mismatch", "body-too-large"),
    *("unsupported-format", "format-mismatch", "decompression-limit"),
)
"""Problems of every route with a body."""
_JSON_BODY = ("malformed-json", "bad-encoding", "invalid-field")
_GENERAL = {"invalid-parameter", "invalid-name", *_BODY, *_JSON_BODY}
"""Problems that a reply names last, after those of the route."""
SITE = Path(__file__).parent / "site"
SEARCH_STYLE = "sha256-NwSx/R2V/U4jnW0Tq5pQ53Y/rzPVJ4dqE7D6UTA/J1k="
"""The style that a script of Zensical 0.0.73 inserts for its search; a test compares it."""
_HASHED = re.compile(r"\.[0-9a-f]{8}\.min\.(js|css)$")


class DocumentedAPI(FastAPI):
    """FastAPI with bodies and problems in its OpenAPI document."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lock = threading.Lock()

    def add_routes(self, routes: Routes) -> None:
        """Add the routes of a package."""
        self.routes.extend(routes.routes)

    def openapi(self) -> dict[str, Any]:
        """The whole document, repetitions included; creating it takes a quarter of a second."""
        with self._lock:
            return self._openapi()

    @cached_property
    def document(self) -> bytes:
        """What is served: the document without repetitions, as JSON.

        Its objects, some 3 MB, are not kept.
        """
        with self._lock:
            self.openapi_schema = None  # the one that others may have is not changed
            document = self._openapi()
            self.openapi_schema = None
        shorten(document)
        return orjson.dumps(document)

    def _openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            replies = json.loads(REPLIES.read_text())
            examples = {name: {"value": reply} for name, reply in replies.items()}
            document.setdefault("components", {})["examples"] = examples | problems.examples()
            components = document["components"].setdefault("schemas", {})
            problem = jsonable_encoder(ProblemRead.model_json_schema(), exclude_none=True)
            _move_to_components(problem, components)  # as FastAPI would write it
            document["components"]["securitySchemes"] = {"key": SCHEME}
            functions = {
                (route.path_format, method.lower()): route.endpoint
                for route in iter_route_contexts(self.routes)
                for method in route.methods or ()
            }
            for template, path in document["paths"].items():
                for method, operation in path.items():
                    scopes = scopes_of(functions[template, method], method.upper())
                    operation["security"] = [{"key": [scope]} for scope in scopes]
                    _add_problems(operation, template)
                    for status, reply in operation["responses"].items():
                        if reply["description"] == "Successful Response":  # of FastAPI
                            reply["description"] = HTTPStatus(int(status)).phrase
                        _show_example(reply.get("content", {}), replies)
                    for parameter in operation.get("parameters", ()):
                        if examples := parameter["schema"].get("examples"):
                            parameter["example"] = examples[0]  # Swagger UI fills it in
                    for body in operation.get("requestBody", {}).get("content", {}).values():
                        if "title" in body.get("schema", {}):
                            body["schema"] = _move_to_components(body["schema"], components)
            _describe_defaults(components)
            self.openapi_schema = document
        return self.openapi_schema


def mount(app: DocumentedAPI) -> None:
    """Add `/docs`, its assets, and the site `/guide`, if it was built."""
    if SITE.exists():
        app.mount("/guide", Guide())

        @app.get("/guide", include_in_schema=False)
        @requires_scope(None)
        async def guide() -> RedirectResponse:
            return RedirectResponse("/guide/")

    app.mount("/docs/assets/own", CompressedFiles(directory=OWN_ASSETS))
    app.mount("/docs/assets", CompressedFiles(directory=ASSETS))
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title=f"{app.title}: documentation",
        swagger_js_url=_versioned("swagger-ui-bundle.js"),
        swagger_css_url=_versioned("swagger-ui.css"),
        swagger_favicon_url="/docs/assets/favicon.png",
        swagger_ui_parameters={
            "docExpansion": "none",  # our script opens the first sections
            "tryItOutEnabled": True,
            "displayRequestDuration": True,
            "defaultModelsExpandDepth": 0,
            "persistAuthorization": True,
            "validatorUrl": None,  # no badge from another host
        },
    )
    content = _with_own_parts(bytes(page.body).decode(), app.title, app.openapi_tags or ())
    policy = {CSP: policy_with_scripts(content.encode())}

    @app.get("/openapi.json", include_in_schema=False)
    @requires_scope(None)
    def openapi_json() -> Response:  # in a thread: creating it takes a while
        return Response(app.document, media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    @requires_scope(None)
    async def docs() -> HTMLResponse:
        return HTMLResponse(content, headers=policy)


def _versioned(name: str) -> str:
    return versioned(f"/docs/assets/{name}", ASSETS / name)


def _with_own_parts(page: str, title: str, sections: Sequence[Mapping[str, Any]]) -> str:
    """Our stylesheet and script, and what is shown until Swagger UI has been loaded."""
    names = "".join(f"<li>{escape(one['name'])}</li>" for one in sections)
    first = f'<div class="first"><h1>{escape(title)}</h1><p>Loading …</p><ul>{names}</ul></div>'
    css, script = (
        versioned(f"/docs/assets/own/{name}", OWN_ASSETS / name) for name in ("docs.css", "docs.js")
    )
    for place, addition in (
        ("<html>", '<html lang="en">'),
        ("</head>", f'<link rel="stylesheet" href="{css}"></head>'),
        ('<div id="swagger-ui">', f'<div id="swagger-ui">{first}'),
        ("</body>", f'<script src="{script}"></script></body>'),
    ):
        assert page.count(place) == 1
        page = page.replace(place, addition)
    return page


def _add_problems(operation: dict[str, Any], path: str) -> None:
    """Add problems that follow from a route's parameters, body and key to its own."""
    codes = ["invalid-parameter", "invalid-name"] if "{" in path else ["invalid-parameter"]
    if operation["security"]:
        codes += _AUTHENTICATION
    if any(parameter["in"] == "header" for parameter in operation.get("parameters", ())):
        codes.append("invalid-header")
    if formats := operation.get("requestBody", {}).get("content", {}):
        codes += _BODY
        if "application/json" in formats:
            codes += _JSON_BODY
    # The Open Inference Protocol defines its own format of errors.
    media_type = "application/json" if path.startswith("/v2") else MEDIA_TYPE
    for status, added in responses(*dict.fromkeys(codes)).items():
        (content,) = added["content"].values()
        reply = operation["responses"].setdefault(
            str(status), {"description": "", "content": {media_type: {**content, "examples": {}}}}
        )
        examples = reply["content"][media_type]["examples"]
        new = [code for code in content["examples"] if code not in examples]
        examples |= {code: content["examples"][code] for code in new}
        in_order = sorted(examples, key=lambda code: (code in _GENERAL, code))
        reply["description"] = "; ".join(f"`{code}`: {PROBLEMS[code].title}" for code in in_order)


def _show_example(content: dict[str, Any], replies: Collection[str]) -> None:
    """Add the example to a JSON reply whose schema has one."""
    reply = content.get("application/json", {})
    name = reply.get("schema", {}).get("$ref", "").removeprefix(COMPONENTS)
    if name in replies:
        reply["examples"] = {"reply": {"$ref": f"{problems.EXAMPLES}{name}"}}


def _describe_defaults(schemas: dict[str, Any]) -> None:
    """Move defaults that are objects into descriptions: client generators support only plain
    defaults, and leave out properties with others."""
    for schema in objects(schemas):
        if isinstance(schema.get("default"), dict) and {"$ref", "anyOf", "oneOf"} & schema.keys():
            default = f"Default: `{json.dumps(schema.pop('default'))}`."
            schema["description"] = f"{schema.get('description', '')} {default}".strip()


def _move_to_components(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, str]:
    """Move a schema and its `$defs` to `components`; returns a reference to it.

    Raises ValueError if another schema has the same name.
    """
    title = schema["title"]
    parts = {**schema.get("$defs", {}), title: {k: v for k, v in schema.items() if k != "$defs"}}
    moved = json.loads(json.dumps(parts).replace('"#/$defs/', f'"{COMPONENTS}'))
    for name, part in moved.items():
        if components.setdefault(name, part) != part:
            raise ValueError(f"two schemas are called {name}")
    return {"$ref": COMPONENTS + title}


class Guide(CompressedFiles):
    """The pages of the site, which `make site` builds and installed packages contain; only their
    own inline scripts and styles apply."""

    def __init__(self) -> None:
        super().__init__(directory=SITE, html=True)

    def headers_of(self, file: Path) -> dict[str, str]:
        if file.suffix == ".html":
            return {CSP: _policy(file)}
        return {"Cache-Control": FOREVER} if _HASHED.search(file.name) else {}


@cache
def _policy(page: Path) -> str:
    return f"{policy_with_scripts(page.read_bytes())}; style-src 'self' '{SEARCH_STYLE}'"
