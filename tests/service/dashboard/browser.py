"""A browser without scripts: reads pages, follows links, fills in forms and sends them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from httpx2 import Response
from starlette.testclient import TestClient

VOID = {"meta", "link", "input", "img", "br"}


@dataclass
class Form:
    method: str
    action: str
    multipart: bool
    fields: dict[str, list[str]] = field(default_factory=dict)
    """What the form would send: values, checked boxes and chosen buttons."""
    choices: dict[str, set[str]] = field(default_factory=dict)
    """Values offered by buttons and lists, by the name of the input."""


class Page(HTMLParser):
    """The content of a page."""

    def __init__(self, reply: Response) -> None:
        super().__init__()
        self.status = reply.status_code
        self.path = reply.url.path
        self.query = reply.url.query.decode()
        self.html = reply.text
        self.headers = reply.headers
        self.forms: list[Form] = []
        self.links: dict[str, str] = {}
        """Text of a link → its address."""
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.inputs: dict[str, str | None] = {}
        """Name of a visible input → its id; None inside of a label."""
        self.open: list[str] = []
        self.words: list[str] = []
        self._link: list[str] | None = None
        self._href = ""
        self._select: str | None = None
        self._area: tuple[str, list[str]] | None = None
        self.feed(self.html)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def form(self, action: str) -> Form:
        """The form that is sent to an address."""
        return next(form for form in self.forms if form.action.partition("#")[0] == action)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        assert "style" not in given, f"an inline style: {given}"
        assert not [name for name in given if name.startswith("on")], f"a script inline: {given}"
        match tag:
            case "form":
                multipart = given.get("enctype") == "multipart/form-data"
                self.forms.append(Form(given.get("method", "get"), given["action"], multipart))
            case "a":
                self._link, self._href = [], given["href"]
            case "label":
                self.labelled.add(given.get("for", ""))
            case "input" if "name" in given:  # others are for scripts
                self._input(given)
            case "select" if "name" in given:
                self._select = given["name"]
                self.inputs[given["name"]] = given.get("id")
            case "option" if self._select is not None:
                self._option(given)
            case "textarea":
                self.inputs[given["name"]] = given.get("id")
                self._area = (given["name"], [])
            case "script":
                assert given.get("src", "").startswith("/assets/") or (
                    given.get("type") == "application/json"
                )

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element in {self.path}"
        match tag:
            case "form" if self.forms[-1].action == "/search":
                self.forms.pop()  # every page has it
            case "a":
                assert self._link is not None
                self.links[" ".join("".join(self._link).split())] = self._href
                self._link = None
            case "select":
                self._select = None
            case "textarea":
                assert self._area is not None
                self.forms[-1].fields[self._area[0]] = ["".join(self._area[1])]
                self._area = None

    def handle_data(self, data: str) -> None:
        if self._link is not None:
            self._link.append(data)
        if self._area is not None:
            self._area[1].append(data)
        if self._select is not None and self.open[-1] == "option" and data.strip():
            self._unnamed(data.strip())
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def _input(self, given: Mapping[str, str]) -> None:
        kind, name = given.get("type", "text"), given["name"]
        form = self.forms[-1]
        if kind != "hidden":
            self.inputs[name] = None if "label" in self.open else given.get("id", "")
        if kind in ("checkbox", "radio"):
            value = given.get("value", "on")
            form.choices.setdefault(name, set()).add(value)
            if "checked" in given:
                form.fields.setdefault(name, []).append(value)
        elif kind != "file":
            form.fields.setdefault(name, []).append(given.get("value", ""))

    def _option(self, given: Mapping[str, str]) -> None:
        assert self._select is not None
        self._selected = "selected" in given
        self._valued = "value" in given
        if self._valued:
            self._offer(given["value"])

    def _unnamed(self, text: str) -> None:
        if not self._valued:
            self._valued = True
            self._offer(text)

    def _offer(self, value: str) -> None:
        assert self._select is not None
        form = self.forms[-1]
        first = self._select not in form.choices
        form.choices.setdefault(self._select, set()).add(value)
        if first or self._selected:
            form.fields[self._select] = [value]


class Browser:
    """Opens one page at a time, and checks each."""

    def __init__(self, client: TestClient) -> None:
        self._client = client
        self.page: Page
        self.go("/")

    def go(self, path: str) -> Page:
        return self._see(self._client.get(urljoin(getattr(self, "_path", "/"), path)))

    def follow(self, text: str) -> Page:
        """Follow the link with this text."""
        return self.go(self.page.links[text])

    def send(self, action: str, files: Mapping[str, Any] | None = None, **changes: Any) -> Page:
        """Send the form of this address, with some inputs changed; None leaves one out. Where it
        would let the service draw a seed, with one: no test may depend on its luck."""
        form = self.page.form(action)
        if form.fields.get("seed") == [""]:
            changes.setdefault("seed", "1")
        data = form.fields | {
            name: value if isinstance(value, list) else [value]
            for name, value in changes.items()
            if value is not None
        }
        for name, value in changes.items():
            if value is None:
                data.pop(name, None)
        origin = {"Origin": str(self._client.base_url)}
        assert form.multipart == (files is not None)
        send = self._client.post if form.method == "post" else self._client.get
        arguments: dict[str, Any] = {"data": data} if form.method == "post" else {"params": data}
        if files is not None:
            arguments["files"] = files
        return self._see(send(form.action.partition("#")[0], headers=origin, **arguments))

    def _see(self, reply: Response) -> Page:
        page = Page(reply)
        self.page, self._path = page, page.path
        if reply.headers["content-type"].startswith("text/html"):
            assert page.open == [], f"left open: {page.open}"
            assert len(page.ids) == len(set(page.ids)), "an id is not unique"
            unlabelled = [
                n for n, id in page.inputs.items() if id is not None and id not in page.labelled
            ]
            assert unlabelled == [], f"without a label: {unlabelled}"
        return page
