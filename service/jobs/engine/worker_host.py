"""The worker processes of one machine in a cluster: `svm-service worker`.

Each has a nanny, which starts it again when it dies and enforces its memory limit. If the
scheduler is lost, workers save and release their jobs, and this process ends and is started again.
"""

# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False
# Dask is typed in part.

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time

from distributed import Nanny, Status, WorkerPlugin
from distributed.worker import Worker

from service.jobs.engine.child import end_within, stop_requested
from service.jobs.engine.worker_process import save_and_stop
from service.settings import Settings
from service.web.server.logs import configure_logging

LOOK_S = 0.2
SHORT_S = 30.0
"""After this time with a nanny without a worker this process ends and is started again."""
SAVE_S = 12.0
"""How long workers have to save their jobs at a stop."""

logger = logging.getLogger(__name__)


class SaveAtTheEnd(WorkerPlugin):
    """When Dask's worker closes, its job is saved and released first."""

    async def teardown(self, worker: Worker) -> None:
        await save_and_stop()
        os._exit(0)  # Dask would wait for the task, which may be compiling the loops


def main() -> None:
    """Run until standard input closes or SIGTERM comes."""
    settings = Settings()
    configure_logging(settings.log_level)
    stop = stop_requested()
    asyncio.run(_run(settings, stop))
    os._exit(0 if stop.is_set() else 1)


async def _run(settings: Settings, stop: threading.Event) -> None:
    nannies = [
        Nanny(
            settings.dask_address,
            nthreads=1,
            memory_limit=settings.limits.worker_memory_bytes,
            local_directory=str(settings.data_dir.resolve() / "workers"),
            plugins=[SaveAtTheEnd()],
        )
        for _ in range(settings.workers)
    ]
    logger.info("%s workers for the scheduler at %s", len(nannies), settings.dask_address)
    started = asyncio.gather(*nannies)
    complete_at = time.monotonic()
    while not stop.is_set() and time.monotonic() - complete_at < SHORT_S:
        await asyncio.sleep(LOOK_S)
        if not started.done() or all(nanny.is_alive() for nanny in nannies):
            complete_at = time.monotonic()
        elif error := started.exception():
            logger.warning("no scheduler at %s (%s)", settings.dask_address, error)
            break
        elif any(nanny.status in (Status.closed, Status.failed) for nanny in nannies):
            logger.warning("a nanny ended: the scheduler may be lost")
            break
    if not started.done():  # Dask would keep trying to reach the scheduler
        os._exit(0 if stop.is_set() else 1)
    end_within(SAVE_S + 3)
    # Dask kills a worker after four fifths of the time.
    await asyncio.gather(*(nanny.close(timeout=SAVE_S / 0.8) for nanny in nannies))


if __name__ == "__main__":
    main()
