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

from service.jobs.worker_process import stop_taking_jobs, take_next_job
from service.settings import Settings

LOOK_S = 0.2
"""How often to look for workers without a task."""
SAVE_S = 12.0
"""How long workers have to save their jobs at a stop."""
CLOSE_S = 3
"""How long Dask has to close afterwards; then this process ends, and its children with it."""

CONFIG = {
    # A worker is ended at its memory limit. Nothing spills to disk, and none is paused on the way.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
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
    logging.basicConfig(level=settings.log_level.upper(), stream=sys.stderr)
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
        tasks = _keep_workers_busy(client, settings_json, stop)
        _let_workers_save(client, tasks)
        # Closing may hang on a worker that hangs; the jobs are safe by now.
        threading.Timer(CLOSE_S, os._exit, (0,)).start()
        client.close()
        cluster.close()
        os._exit(0)


def _keep_workers_busy(
    client: Client, settings_json: str, stop: threading.Event
) -> dict[str, Future]:
    """Keep one task in flight for every worker, by address, until `stop`."""
    tasks: dict[str, Future] = {}
    while not stop.wait(LOOK_S):
        addresses = set(client.scheduler_info()["workers"])
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
    return tasks


def _let_workers_save(client: Client, tasks: dict[str, Future]) -> None:
    client.run(stop_taking_jobs, on_error="ignore")
    deadline = time.monotonic() + SAVE_S
    while time.monotonic() < deadline and not all(task.done() for task in tasks.values()):
        time.sleep(0.05)


def _stop_at_end_of_input(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main()
