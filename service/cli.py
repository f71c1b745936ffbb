"""The command line: `svm-service serve`, and what a service on several machines needs beside it."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Annotated, NoReturn

import typer
import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from threadpoolctl import threadpool_limits

from service import __version__
from service.app import create_app
from service.errors import ServiceError
from service.jobs.child import Child
from service.settings import Settings
from service.storage.database import Database
from service.storage.lock import DataDirInUse, exclusive
from service.web.logs import configure_logging

GRACE_S = 5
"""How long open requests may take after SIGTERM; the workers then have 25 s to save their jobs."""

cli = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def main() -> None:
    cli()


@cli.callback()
def about() -> None:
    """Train, keep and serve support vector machines over HTTP.

    Everything but the address is set by environment variables, SVM_DATA_DIR for one.
    """


@cli.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
) -> None:
    """Run the API and its training workers until SIGTERM or Ctrl+C."""
    # Uvicorn raises the signal once more after a clean end: that end is a success.
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, _exit)
    with _data_dir() as settings:
        configure_logging(settings.log_level)
        listener = _listen(host, port)
        # A row's bits must not depend on the number of processors: workers have one thread, too.
        threadpool_limits(limits=1, user_api="blas")
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            http=app.state.conduct.protocol,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACE_S,
        )
        _Server(config, app, host, listener.getsockname()[1]).run([listener])


@cli.command()
def worker() -> None:
    """Train for a service on other machines, until SIGTERM or Ctrl+C.

    SVM_DASK_ADDRESS tells the scheduler. Everything else a worker needs to know stands in its own
    environment too, as for the service: the database, the files, and limits.
    """
    with _data_dir() as settings:
        if settings.dask_address is None:
            print("SVM_DASK_ADDRESS: set it to the address of the scheduler", file=sys.stderr)
            raise typer.Exit(2)
        if settings.workers == 0:
            print("SVM_WORKERS: set it to the number of worker processes", file=sys.stderr)
            raise typer.Exit(2)
        _keep(Child("service.jobs.worker_host", settings), settings)


@cli.command()
def scheduler(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.", min=1, max=65535)] = 8786,
) -> None:
    """Bring services and workers on several machines together, until SIGTERM or Ctrl+C.

    Whoever reaches the port can run programs as its user: keep it on a private network.
    """
    settings = _settings()
    _keep(Child("service.jobs.scheduler_process", settings, host, str(port)), settings)


@cli.command()
def migrate() -> None:
    """Bring the database to this version's schema."""
    with _data_dir() as settings:
        database = Database(settings.database_url)
        try:
            database.migrate()
        except ServiceError as error:
            print(f"{error.detail}: {error.__cause__}", file=sys.stderr)
            raise typer.Exit(1) from None
        database.close()
        print("the database is up to date")


class _Server(uvicorn.Server):
    """Says where it is once it serves, and tells the application when it begins to end."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, host: str, port: int) -> None:
        super().__init__(config)
        self._app = app
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        at = self._address
        print(f"svm-service {__version__} at {at}, documentation at {at}/docs", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.state.health.draining = True
        super().handle_exit(sig, frame)


def _keep(child: Child, settings: Settings) -> None:
    """Keep the child running until a signal tells this process to end."""
    configure_logging(settings.log_level)
    # Python's own handlers run between two of its steps: a signal just before a wait would only be
    # seen after it. The byte is written at once.
    told, tell = socket.socketpair()
    tell.setblocking(False)
    signal.set_wakeup_fd(tell.fileno())
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: None)
    child.start()
    told.recv(1)
    child.stop()


def _settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        for fault in error.errors():
            name = "__".join(str(part) for part in fault["loc"]).upper()
            print(f"SVM_{name}: {fault['msg']}", file=sys.stderr)
        raise typer.Exit(2) from None


@contextmanager
def _data_dir() -> Iterator[Settings]:
    """The settings; the folder of an SQLite database is held, since one service may use it."""
    settings = _settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    held = exclusive(settings.sqlite_file.parent) if settings.sqlite_file else nullcontext()
    try:
        with held:
            yield settings
    except DataDirInUse as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        print(f"cannot listen on {host} port {port}: {error.strerror}", file=sys.stderr)
        raise typer.Exit(1) from None


def _exit(_: int, __: FrameType | None) -> NoReturn:
    raise SystemExit(0)
