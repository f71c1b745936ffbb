"""The OpenAPI document, the page that shows it, and the documentation site at `/guide`.

The page is a list of links. Its script loads Swagger UI, the largest part by far, when
an operation is chosen, and makes it accessible. Swagger UI's files come with `fastapi-offline`:
nothing is loaded from another host.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastapi_offline
import orjson
from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.routing import iter_route_contexts
from starlette.responses import HTMLResponse, RedirectResponse, Response

from service.web import problems
from service.web.access.scopes import SCHEME, Routes, requires_scope, scopes_of
from service.web.frame import ASSETS as OWN_ASSETS
from service.web.frame import asset, bar, frame_files
from service.web.http.compression import CompressedFiles, versioned
from service.web.http.headers import FOREVER
from service.web.problems import MEDIA_TYPE, PROBLEMS, ProblemRead, responses
from service.web.repetitions import COMPONENTS, objects, shorten

ASSETS = Path(fastapi_offline.__file__).parent / "static"
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
_MARKDOWN = {
    r"\n\n+": "</p>\n<p>",
    r"`(.+?)`": r"<code>\1</code>",
    r"\*\*(.+?)\*\*": r"<strong>\1</strong>",
    r"\[(.+?)\]\((.+?)\)": r'<a href="\2">\1</a>',
}
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

    @app.get("/openapi.json", include_in_schema=False)
    @requires_scope(None)
    def openapi_json() -> Response:  # in a thread: creating it takes a while
        return Response(app.document, media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    @requires_scope(None)
    def docs() -> HTMLResponse:
        return HTMLResponse(_page(app.document))


@lru_cache(maxsize=1)
def _page(document: bytes) -> str:
    """Every operation as a link, by tags; `docs.js` loads Swagger UI when one is followed."""
    content = json.loads(document)
    info, sections = content["info"], {tag["name"]: "" for tag in content["tags"]}
    for path, methods in content["paths"].items():
        for method, operation in methods.items():
            for tag in operation["tags"]:
                sections[tag] += _row(quote(tag), method, path, operation)
    title = escape(info["title"])
    bundle, theme = (
        versioned(f"/docs/assets/swagger-ui{end}", ASSETS / f"swagger-ui{end}")
        for end in ("-bundle.js", ".css")
    )
    contents = "\n".join(f'<a href="#{quote(tag)}">{escape(tag)}</a>' for tag in sections)
    lists = "\n".join(
        f'<h2 id="{quote(tag["name"])}">{escape(tag["name"])}</h2>\n'
        f"{_paragraphs(tag['description'])}\n<ul>\n{sections[tag['name']]}</ul>"
        for tag in content["tags"]
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: documentation</title>
{frame_files()}
<link rel="stylesheet" href="{asset("docs.css")}">
</head>
<body>
{bar("docs")}
<main id="main">
<p class="own" role="status"></p>
<div class="own" id="listed">
<h1>{title} <small>{escape(info["version"])}</small></h1>
{_paragraphs(info["description"])}
<p>Choose an operation to read all about it and to execute it. At its right is the scope that a key
needs; <a href="#/">authorize</a> with a key if the service requires one. Generators of clients read
<a href="/openapi.json">/openapi.json</a>.</p>
<noscript><p>Without scripts this page lists the operations, and executes none.</p></noscript>
<nav aria-label="Sections">
{contents}
</nav>
{lists}
</div>
<div id="tried" hidden>
<p class="own"><a href="#">All operations</a></p>
<div id="swagger-ui" data-bundle="{bundle}" data-theme="{theme}"></div>
</div>
</main>
<script src="{asset("docs.js")}"></script>
</body>
</html>
"""


def _row(tag: str, method: str, path: str, operation: Mapping[str, Any]) -> str:
    place = f"/{tag}/{operation['operationId']}"
    scopes = " or ".join(one["key"][0] for one in operation["security"]) or "no key"
    return (
        f'<li id="{place}"><a href="#{place}"><b class="{method}">{method.upper()}</b> '
        f"<code>{escape(path)}</code> <span>{escape(operation['summary'])}</span></a> "
        f"<small>{scopes}</small></li>\n"
    )


def _paragraphs(markdown: str) -> str:
    """Paragraphs with code, strong words and links, which is what our descriptions have."""
    text = escape(markdown.strip())
    for pattern, replacement in _MARKDOWN.items():
        text = re.sub(pattern, replacement, text)
    return f"<p>{text}</p>"


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
    """The pages of the site, which `make site` builds and installed packages contain."""

    def __init__(self) -> None:
        super().__init__(directory=SITE, html=True)

    def headers_of(self, file: Path) -> dict[str, str]:
        return {"Cache-Control": FOREVER} if _HASHED.search(file.name) else {}
