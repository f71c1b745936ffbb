"""`svm-service serve`: the API and its training workers."""

from __future__ import annotations

import gc
import ipaddress
import signal
import socket
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer
import uvicorn
from threadpoolctl import threadpool_limits

from service import __version__
from service.addresses import proxy_addresses
from service.cli.environment import held_data_dir
from service.web.server.logs import configure_logging
from service.web.server.malloc import keep_freed_memory

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE_S = 5
"""How long open requests may take after SIGTERM; the workers then have 25 s to save their jobs."""


def serve(host: str, port: int) -> None:
    # Uvicorn raises the signal once more after a clean end: that end is a success.
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, _exit)
    gc.disable()  # until the end of the start, whose objects stay
    with held_data_dir() as settings:
        # Imported here: what is wrong with the settings is said at once.
        from service.app import create_app

        configure_logging(settings.log_level)
        listener = _listen(host, port)
        own_machine = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
        if settings.auth == "auto" and not own_machine:
            settings = settings.model_copy(update={"auth": "on"})
        # A row's bits must not depend on the number of processors: workers have one thread, too.
        threadpool_limits(limits=1, user_api="blas")
        keep_freed_memory()
        app = create_app(settings, _own_names(host, own_machine), warm=True)
        config = uvicorn.Config(
            app,
            http=app.state.conduct.protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=proxy_addresses(settings.proxies),
            timeout_graceful_shutdown=GRACE_S,
        )
        _Server(config, app, host, listener.getsockname()[1]).run([listener])


class _Server(uvicorn.Server):
    """Says where it is once it serves, and tells the application when it begins to end."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, host: str, port: int) -> None:
        super().__init__(config)
        self._app = app
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # a full collection looks at what comes from here on: milliseconds of the loop
        gc.enable()
        at = self._address
        print(f"svm-service {__version__} at {at}, documentation at {at}/docs", flush=True)
        if self._app.state.first_key is not None:
            print(f"callers need an API key; one is in {self._app.state.first_key}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.state.health.draining = True
        super().handle_exit(sig, frame)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        print(f"cannot listen on {host} port {port}: {error.strerror}", file=sys.stderr)
        raise typer.Exit(1) from None


def _own_names(host: str, own_machine: bool) -> set[str]:
    """What it listens on, and what the machine calls itself if others can reach it."""
    return {host.lower()} | (set() if own_machine else {socket.gethostname().lower()})


def _exit(_: int, __: FrameType | None) -> NoReturn:
    raise SystemExit(0)
