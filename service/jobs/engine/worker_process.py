"""A worker process: takes one job after the other."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import structlog

from service.datasets.store import DatasetStore
from service.errors import ServiceError, StorageFull
from service.jobs.core.attempts import PASSING, Attempt, Command, attempting
from service.jobs.core.kind import RunContext
from service.jobs.core.leases import LeaseLost, Leases, Outcome
from service.jobs.core.lifecycle import State
from service.jobs.engine.versions import difference
from service.jobs.kinds import KINDS
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from service.storage.lock import DataDirInUse, exclusive
from service.web.server.logs import configure_logging
from svm.errors import Diverged, Interrupted, InvalidData

LOOK_S = 0.2
"""How often an idle worker looks for a job."""
IDLE_S = 10.0
"""How long it looks before it returns to Dask, which then asks again."""
RETRY_S = 5.0
"""Pause after an error of files or the database."""

NICENESS = 10
"""Of the threads that train: requests get the processor first."""

CANCELED = Outcome(state=State.CANCELED, stop_reason="canceled")

logger = logging.getLogger(__name__)

_stopping = threading.Event()
"""This process must save its job and take no other one."""
_at_work = threading.Event()
"""A job is running, or being looked for."""
_warm = threading.Event()
"""The compiled loops are loaded."""


def take_next_job(required: dict[str, str]) -> str | None:
    """Wait a while for a job and run it: the task that every worker always has.

    `required` are the versions of the sender; if they differ from ours the task is refused and
    the reason returned. Settings and secrets of the worker are in its environment and are never
    sent through Dask.
    """
    if unequal := difference(required):
        logger.error("task refused: %s", unequal)
        return unequal
    step_back()
    worker = _worker()
    deadline = time.monotonic() + IDLE_S
    while time.monotonic() < deadline:
        _at_work.set()  # before looking at `_stopping`: see `save_and_stop`
        try:
            if _stopping.is_set() or worker.take_next_job():
                break
        except Exception:  # such as no database, or a full disk: both may be temporary
            logger.exception("a job could not be taken, or failed")
            _stopping.wait(RETRY_S)
        finally:
            _at_work.clear()
        _warm_up()
        _stopping.wait(LOOK_S)
    return None


def step_back() -> None:
    """Give this thread, and those that it starts, a lower priority."""
    thread = threading.get_native_id()
    niceness = max(
        NICENESS, os.getpriority(os.PRIO_PROCESS, thread)
    )  # never a higher priority than now
    os.setpriority(os.PRIO_PROCESS, thread, niceness)


async def save_and_stop() -> None:
    """Save and release the job of this process, take no other one, and wait for that."""
    _stopping.set()
    logging.getLogger("distributed").setLevel(logging.ERROR)  # it warns of tasks that end early
    while _at_work.is_set():
        await asyncio.sleep(0.02)


def _warm_up() -> None:
    """Compile the loops before a job needs them; other processes load them from disk."""
    if _warm.is_set():
        return
    # A disk that is full or fails is no reason to take no jobs.
    with suppress(DataDirInUse, OSError), exclusive(Path(os.environ["NUMBA_CACHE_DIR"])):
        # One worker compiles at a time: the others stay free for jobs.
        _warm.set()
        # Numba, which the engine process does not need
        from svm.training.warm_up import warm_up

        warm_up(_stopping.is_set)


@cache
def _worker() -> Worker:
    settings = Settings()
    configure_logging(settings.log_level)
    return Worker(settings, _stopping)


class Worker:
    """Takes jobs and runs them, one at a time."""

    def __init__(self, settings: Settings, stopping: threading.Event) -> None:
        database = Database(settings.database_url)
        blobs = open_blobs(settings, make=False)
        self._settings = settings
        self._stopping = stopping
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._leases = Leases(database, blobs, settings.limits.running_jobs_per_caller)
        context = RunContext(
            DatasetStore(database, blobs), ModelRegistry(database, blobs), blobs, settings
        )
        self._runners: dict[str, Callable[[Attempt], None]] = {
            name: partial(kind.run, context) for name, kind in KINDS.items()
        }

    def take_next_job(self) -> bool:
        """Run the next job; returns whether there was one."""
        if not self._leases.work_waits():
            return False
        lease = self._leases.take(self._name, self._settings.lease_s)
        if lease is None:
            return False
        started = time.monotonic()
        with structlog.contextvars.bound_contextvars(**lease.job.log_context):
            logger.info("job taken")
            with attempting(lease, self._leases, self._settings, self._stopping) as attempt:
                try:
                    self._run(attempt)
                except LeaseLost:
                    logger.info("the job was canceled, or another attempt took it")
            logger.info("job left", extra={"seconds": round(time.monotonic() - started, 3)})
        return True

    def _run(self, attempt: Attempt) -> None:
        try:
            self._runners[attempt.job.kind](attempt)
        except Interrupted:
            match attempt.command:
                case Command.DROP:
                    raise LeaseLost(attempt.job.id) from None
                case Command.KEEP_AND_END if not attempt.has_checkpoint:
                    attempt.finish(CANCELED)
                case _:
                    # Also if the command changed while the checkpoint was saved. The next
                    # attempt makes the model from it, if one is requested.
                    attempt.give_back()
        except LeaseLost:
            raise
        except StorageFull as error:  # for the model's file; a full database is tried again
            hint = "free disk space where the workers keep their files, then train again"
            attempt.finish(_failed(error.code, error.detail, hint))
        except PASSING:
            logger.exception("job released", extra={"job_id": attempt.job.id})
            self._stopping.wait(RETRY_S)  # other jobs would fail in the same way
            attempt.give_back()
        except InvalidData as error:
            attempt.finish(_failed(error.code, error.message))
        except Diverged as error:
            attempt.finish(_failed("diverged", error.message, error.suggestion))
        except ServiceError as error:
            attempt.finish(_failed(error.code, error.detail))
        except MemoryError:
            hint = "send less data at once, or raise the memory limit of workers"
            attempt.finish(_failed("out-of-memory", "a worker's memory is too small", hint))
        except Exception:
            logger.exception("job failed")
            detail = "an unexpected error; it was logged under the job's id"
            attempt.finish(_failed("internal-error", detail))


def _failed(code: str, detail: str, hint: str | None = None) -> Outcome:
    error = {"code": code, "detail": detail, "hint": hint}
    return Outcome(state=State.FAILED, stop_reason="error", error=error)
