"""The engine process: a local Dask cluster whose workers take the next job, again and again.

Dask starts the worker processes, starts them again when they die, and ends those that take too
much memory. It knows nothing of jobs: a task means "take the next job", so a lost task, or one too
many, harms nothing. Each task is pinned to one worker, so that none waits behind a long job.
"""

# mypy: disallow-untyped-calls=False, disallow-any-generics=False
# Dask is typed in part.

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time

import dask
from distributed import Client, Future, LocalCluster

from service.jobs.worker_process import save_and_stop, take_next_job
from service.settings import Settings
from service.web.logs import configure_logging

LOOK_S = 0.2
"""How often to look for workers without a task."""
SHORT_S = 30.0
"""Fewer workers than wanted for so long, and this process ends for another one to begin."""
SAVE_S = 12.0
"""How long workers have to save their jobs at a stop."""
CLOSE_S = 3.0
"""How long Dask has to close afterwards."""

CONFIG = {
    # A worker is ended at its memory limit. Nothing spills to disk, and none is paused on the way.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    # A nanny starts its worker again however often it dies. Dask would end the nanny of a worker
    # that is away now and was away this long ago.
    "distributed.deploy.lost-worker-timeout": "1000 days",
    # No dashboard, no sampling of stacks.
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}

logger = logging.getLogger(__name__)


def main() -> None:
    """Run until standard input closes or SIGTERM comes."""
    settings_json = sys.stdin.readline()
    settings = Settings.model_validate_json(settings_json)
    configure_logging(settings.log_level)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
    with dask.config.set(CONFIG):
        cluster = LocalCluster(
            n_workers=settings.workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=settings.limits.worker_memory_bytes,
            local_directory=str(settings.data_dir.resolve() / "workers"),
        )
        client = Client(cluster)
        _keep_workers_busy(client, settings_json, settings.workers, stop)
        _end_within(SAVE_S)
        client.run(save_and_stop, on_error="ignore")
        _end_within(CLOSE_S)
        client.close()
        cluster.close()
        os._exit(0 if stop.is_set() else 1)


def _keep_workers_busy(
    client: Client, settings_json: str, wanted: int, stop: threading.Event
) -> None:
    """Keep one task in flight for every worker, by address, until `stop`."""
    tasks: dict[str, Future] = {}
    complete_at = time.monotonic()
    while not stop.wait(LOOK_S):
        addresses = set(client.scheduler_info()["workers"])
        if len(addresses) >= wanted:
            complete_at = time.monotonic()
        elif time.monotonic() - complete_at > SHORT_S:
            logger.error("%s of %s workers are there", len(addresses), wanted)
            return
        for gone in tasks.keys() - addresses:
            del tasks[gone]
        for address in addresses:
            if address in tasks and not tasks[address].done():
                continue
            if address in tasks and tasks[address].status == "error":
                logger.error("a worker's task failed", exc_info=tasks[address].exception())
            tasks[address] = client.submit(
                take_next_job,
                settings_json,
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )


def _end_within(seconds: float) -> None:
    """End this process, and with it the workers, should one of them hang."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


def _stop_at_end_of_input(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main()
