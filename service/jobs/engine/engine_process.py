"""The engine process: gives every worker of a Dask cluster the task to take the next job.

The cluster is its own, on this machine, or one that runs already (`SVM_DASK_ADDRESS`). Dask starts
the worker processes, starts them again when they die, and ends those that take too much memory. It
knows nothing of jobs: a task means "take the next job", so a lost task, or one too many, harms
nothing. Each task is pinned to one worker, so that none waits behind a long job while another
worker is free. If several replicas of the service share a cluster, each worker has one task of
each of them, and runs one at a time.
"""

# mypy: disallow-untyped-calls=False, disallow-any-generics=False
# Dask is typed in part.

from __future__ import annotations

import logging
import os
import sys
import threading
import time

from distributed import Client, Future, LocalCluster

from service.jobs.engine.child import end_within, stop_requested
from service.jobs.engine.versions import versions
from service.jobs.engine.worker_process import save_and_stop, take_next_job
from service.settings import Settings
from service.web.server.logs import configure_logging

LOOK_S = 0.2
"""How often to look for workers without a task."""
SHORT_S = 30.0
"""After this time with too few workers this process ends and is started again."""
SAVE_S = 12.0
"""How long workers have to save their jobs at a stop."""
CLOSE_S = 5.0
"""How long Dask has to close afterwards."""
CONNECT_S = 10.0
RETRY_S = 1.0
"""Pause before the next try to connect."""
REFUSED_S = 30.0
"""Pause before the next task for a worker that refused one."""

logger = logging.getLogger(__name__)


def main() -> None:
    """Run until standard input closes or SIGTERM comes."""
    settings = Settings()
    configure_logging(settings.log_level)
    stop = stop_requested()
    if settings.dask_address is None:
        _own_cluster(settings, stop)
    else:
        _existing_cluster(settings.dask_address, stop)


def _own_cluster(settings: Settings, stop: threading.Event) -> None:
    cluster = LocalCluster(
        n_workers=0,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=settings.limits.worker_memory_bytes,
        local_directory=str(settings.data_dir.resolve() / "workers"),
    )
    client = Client(cluster)
    cluster.scale(settings.workers)  # does not wait for them: a stop may come first
    _keep_workers_busy(client, stop, settings.workers)
    end_within(SAVE_S)
    client.run(save_and_stop, on_error="ignore")
    end_within(CLOSE_S)
    client.close()
    cluster.close()
    # Not by `os._exit`: what runs at the exit gives back the semaphores of Dask's nannies.
    sys.exit(0 if stop.is_set() else 1)


def _existing_cluster(address: str, stop: threading.Event) -> None:
    """Running jobs continue after the stop: the workers are not ours."""

    def end_soon() -> None:
        stop.wait()
        end_within(CLOSE_S)  # Dask may be waiting for a reply

    threading.Thread(target=end_soon, daemon=True).start()
    reached = True
    while not stop.is_set():
        try:
            with Client(address, timeout=CONNECT_S, set_as_default=False) as client:
                reached = True
                logger.info("connected to the scheduler at %s", address)
                _keep_workers_busy(client, stop)
        except Exception as error:  # Dask raises many types of errors for a lost scheduler
            if reached:
                logger.warning(
                    "no scheduler at %s (%s); trying again until there is one", address, error
                )
            reached = False
        stop.wait(RETRY_S)
    os._exit(0)


def _keep_workers_busy(client: Client, stop: threading.Event, wanted: int = 0) -> None:
    """Keep one task in flight for every worker, by address, until `stop`, or until fewer than
    `wanted` workers have been running for SHORT_S."""
    tasks: dict[str, Future] = {}
    refused_until: dict[str, float] = {}
    complete_at = time.monotonic()
    while not stop.wait(LOOK_S):
        addresses = set(client.scheduler_info(n_workers=-1)["workers"])
        now = time.monotonic()
        if len(addresses) >= wanted:
            complete_at = now
        elif now - complete_at > SHORT_S:
            logger.error("only %s of %s workers are running", len(addresses), wanted)
            return
        for gone in tasks.keys() - addresses:
            del tasks[gone]
        for address in addresses:
            task = tasks.get(address)
            if task is not None:
                if not task.done():
                    continue
                del tasks[address]
                if task.status == "finished":
                    refusal = task.result(timeout=CONNECT_S)
                else:
                    refusal = repr(task.exception()) if task.status == "error" else None
                if refusal is not None:
                    logger.error("the worker at %s refused a task: %s", address, refusal)
                    refused_until[address] = now + REFUSED_S
            if refused_until.get(address, 0.0) <= now:
                tasks[address] = client.submit(
                    take_next_job,
                    versions(),
                    workers=[address],
                    allow_other_workers=False,
                    pure=False,
                )


if __name__ == "__main__":
    main()
