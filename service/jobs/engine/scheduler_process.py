"""Dask's scheduler for workers on several machines: `svm-service scheduler`.

It keeps nothing: workers and replicas of the service come back to it when it is started again.
"""

# mypy: disallow-untyped-calls=False
# Dask is typed in part.

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading

from distributed import Scheduler

from service.jobs.engine.child import end_within, stop_requested
from service.settings import Settings
from service.web.server.logs import configure_logging

LOOK_S = 0.2
CLOSE_S = 3.0

logger = logging.getLogger(__name__)


def main(host: str, port: int) -> None:
    """Run until standard input closes or SIGTERM comes."""
    configure_logging(Settings().log_level)
    stop = stop_requested()
    asyncio.run(_run(host, port, stop))
    os._exit(0 if stop.is_set() else 1)


async def _run(host: str, port: int, stop: threading.Event) -> None:
    scheduler = await Scheduler(host=host, port=port, dashboard=False)
    logger.info("scheduler at %s", scheduler.address)
    while not stop.is_set():
        await asyncio.sleep(LOOK_S)
    end_within(CLOSE_S)
    await scheduler.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
