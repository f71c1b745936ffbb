"""`svm-service worker` and `scheduler`: what a service on several machines needs beside it."""

from __future__ import annotations

import signal
import socket
import sys

import typer

from service.cli.environment import held_data_dir, read_settings
from service.jobs.engine.child import Child
from service.settings import Settings
from service.web.server.logs import configure_logging


def worker() -> None:
    with held_data_dir() as settings:
        if settings.dask_address is None:
            print("SVM_DASK_ADDRESS: set it to the address of the scheduler", file=sys.stderr)
            raise typer.Exit(2)
        if settings.workers == 0:
            print("SVM_WORKERS: set it to the number of worker processes", file=sys.stderr)
            raise typer.Exit(2)
        _keep(Child("service.jobs.engine.worker_host", settings), settings)


def scheduler(host: str, port: int) -> None:
    settings = read_settings()
    _keep(Child("service.jobs.engine.scheduler_process", settings, host, str(port)), settings)


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
