"""What the dashboard, `/docs` and the guide have in common: their files, and the bar above them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from service.web.http.compression import versioned

ASSETS = Path(__file__).parent / "assets"
LINKS = {
    "datasets": "Data",
    "train": "Train",
    "jobs": "Jobs",
    "models": "Models",
    "compare": "Compare",
    "docs": "API",
    "guide/": "Guide",
}
"""Names of links by their paths."""


@cache
def asset(name: str) -> str:
    """The address of a file that all of them have."""
    return versioned(f"/docs/assets/own/{name}", ASSETS / name)


def frame_files() -> str:
    """Of the head of a page: its icon, and the stylesheet with the tokens and the bar."""
    return (
        f'<link rel="icon" href="{asset("icon.svg")}" type="image/svg+xml">\n'
        f'<link rel="stylesheet" href="{asset("frame.css")}">'
    )


def brand() -> str:
    """The name of the service, which leads to the first page."""
    image = f'<img src="{asset("icon.svg")}" alt="" width="24" height="24">'
    return f'<a class="brand" href="/">{image}svm-service</a>'


def bar(current: str = "", words: str = "", main: str = "main") -> str:
    """The bar: the link `current` is marked, `words` are in the search, and the first link skips
    to the element with the id `main`."""
    mark = {current: ' aria-current="page"'}
    links = "\n".join(
        f'<a href="/{path}"{mark.get(path, "")}>{name}</a>' for path, name in LINKS.items()
    )
    return f"""<a class="skip" href="#{main}">Skip to the content</a>
<header class="top"><div>
{brand()}
<nav aria-label="Pages">
{links}
</nav>
</div></header>"""
