"""`/guide`: the documentation as a site. `make site` builds it; installed packages contain it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from service.web.docs import DocumentedAPI
from service.web.http.headers import CSP, policy_with_scripts

SITE = Path(__file__).parent / "site"
SEARCH_STYLE = "sha256-NwSx/R2V/U4jnW0Tq5pQ53Y/rzPVJ4dqE7D6UTA/J1k="
"""The style that a script of Zensical 0.0.73 inserts for its search; a test compares it."""


class Guide(StaticFiles):
    """The pages of the site; only their own inline scripts and styles apply."""

    def __init__(self) -> None:
        super().__init__(directory=SITE, html=True)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if isinstance(response, FileResponse) and response.media_type == "text/html":
            response.headers[CSP] = _policy(Path(response.path))
        return response


@cache
def _policy(page: Path) -> str:
    return f"{policy_with_scripts(page.read_bytes())}; style-src 'self' '{SEARCH_STYLE}'"


def mount(app: DocumentedAPI) -> None:
    """Add the site to the application, if it was built."""
    if SITE.exists():
        app.mount("/guide", Guide())
