"""`/guide`: the documentation as a site. `make site` builds it; installed packages contain it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from service.web.docs import DocumentedAPI
from service.web.http.compression import CompressedFiles
from service.web.http.headers import CSP, FOREVER, policy_with_scripts

SITE = Path(__file__).parent / "site"
SEARCH_STYLE = "sha256-NwSx/R2V/U4jnW0Tq5pQ53Y/rzPVJ4dqE7D6UTA/J1k="
"""The style that a script of Zensical 0.0.73 inserts for its search; a test compares it."""

_HASHED = re.compile(r"\.[0-9a-f]{8}\.min\.(js|css)$")


class Guide(CompressedFiles):
    """The pages of the site; only their own inline scripts and styles apply."""

    def __init__(self) -> None:
        super().__init__(directory=SITE, html=True)

    def headers_of(self, file: Path) -> dict[str, str]:
        if file.suffix == ".html":
            return {CSP: _policy(file)}
        return {"Cache-Control": FOREVER} if _HASHED.search(file.name) else {}


@cache
def _policy(page: Path) -> str:
    return f"{policy_with_scripts(page.read_bytes())}; style-src 'self' '{SEARCH_STYLE}'"


def mount(app: DocumentedAPI) -> None:
    """Add the site to the application, if it was built."""
    if SITE.exists():
        app.mount("/guide", Guide())
