"""`svm-service worker`, for a service on several machines."""

from __future__ import annotations

import signal
import socket

from service.cli.environment import locked_data_dir
from service.cli.output import USAGE, fail
from service.common.logs import configure_logging
from service.jobs.engine.child import Child
from service.settings import Settings


def worker() -> None:
    """Run the workers of this machine until SIGTERM or SIGINT."""
    with locked_data_dir() as settings:
        if settings.sqlite_file is not None:
            raise fail(
                "SVM_DATABASE_URL: workers on other machines cannot share SQLite; set it to the "
                "PostgreSQL database of the service, and SVM_BLOB_URL to its file store",
                USAGE,
            )
        if settings.workers == 0:
            raise fail("SVM_WORKERS: set it to the number of worker processes", USAGE)
        _keep(settings)


def _keep(settings: Settings) -> None:
    child = Child("service.jobs.engine.supervisor", settings)
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
