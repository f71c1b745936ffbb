"""`svm-service worker` and `scheduler`, for a service on several machines."""

from __future__ import annotations

import signal
import socket

from service.cli.environment import locked_data_dir, read_settings
from service.cli.output import USAGE, fail
from service.jobs.engine.child import Child
from service.settings import Settings
from service.web.server.logs import configure_logging


def worker() -> None:
    with locked_data_dir() as settings:
        if settings.dask_address is None:
            raise fail("SVM_DASK_ADDRESS: set it to the address of the scheduler", USAGE)
        if settings.workers == 0:
            raise fail("SVM_WORKERS: set it to the number of worker processes", USAGE)
        _keep(Child("service.jobs.engine.worker_host", settings), settings)


def scheduler(host: str, port: int) -> None:
    settings = read_settings()
    _keep(Child("service.jobs.engine.scheduler_process", settings, host, str(port)), settings)


def _keep(child: Child, settings: Settings) -> None:
    """Run the child until SIGTERM or SIGINT."""
    configure_logging(settings.log_level)
    # Python runs its handlers between two bytecodes, so a signal just before a wait would only be
    # seen after it. The wake-up byte is written at once.
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno())
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: None)
    child.start()
    receiver.recv(1)
    child.stop()
