"""A worker process: takes one job after the other."""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from typing import Any

import psutil
import structlog

from service.common.malloc import bound_free_memory, return_free_memory
from service.datasets.store import KeptDatasets
from service.errors import StorageFull
from service.jobs.context import RunContext
from service.jobs.core.attempts import PASSING, Attempt, Command, keep_lease
from service.jobs.core.job import State
from service.jobs.core.leases import CANCELED, LeaseLost, Leases, Outcome, error_of
from service.jobs.engine.compiling import report_compiling
from service.jobs.kinds import KINDS
from service.jobs.parts.leases import Kept, PartLeases, PartWork, carry_out_part
from service.jobs.parts.lending import Offers
from service.jobs.spread import connection
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import WORK, Database, listen
from service.storage.database.audit import Actor, acting
from service.subprocesses.working import step_back
from svm.data.executors import one_blas_thread
from svm.errors import Interrupted

LOOK_S = 5.0
"""How often an idle worker looks for a job without a byte from the supervisor: another machine may
have queued one, or lost one."""
IDLE_S = 60.0
"""A worker without a job ends after this time, so that its memory is free."""
SAVE_S = 12.0
"""How long the job may take to be saved at a stop."""
RETRY_S = 5.0
"""Pause after an error of files or the database."""
NICENESS = 10
"""Worker processes and their session have it: requests get the processor first."""

WAKE = b"\xff"
"""No number of a signal: those are written to the same pipe."""

logger = logging.getLogger(__name__)


def load_all() -> None:
    """Load what the first jobs need, so that forks have it: libraries and compiled loops. Nothing
    is compiled, and there are no threads and connections afterwards."""
    for module in ("scipy.linalg", "joblib"):  # of `newton`, and of files of models
        import_module(module)
    for kind in KINDS.values():
        kind.load()
    import_module("svm.loops").load_compiled()
    with one_blas_thread:  # it looks for the libraries
        pass


def run(
    settings: Settings, name: str, pipe: int, bell: int, dead: Sequence[str], stays: bool
) -> None:
    """Take jobs until `pipe` closes, or, unless it `stays`, until there was none for a while.

    A byte in the pipe says that there may be a job, one in `bell` wakes all workers. The jobs of
    `dead` workers are released first.
    """
    step_back(NICENESS)
    bound_free_memory()
    limit = settings.limits.worker_memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
    stopping, woken = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())

    def work() -> None:
        code = 1
        try:
            with one_blas_thread:  # once, not for every job
                worker = Worker(settings, stopping, name, partial(ring, bell), partial(ring, 1))
                code = 0 if worker.run(woken, dead, stays) else 1
        except BaseException:
            logger.exception("the worker failed")
        finally:
            os._exit(code)  # the main thread is waiting for a byte

    thread = threading.Thread(target=work, name="work")
    thread.start()
    while os.read(pipe, 4096):
        woken.set()
    stopping.set()
    woken.set()
    thread.join(SAVE_S)


def ring(pipe: int) -> None:
    """Wake the process at the other end of a pipe, unless it is awake or has ended."""
    with suppress(BlockingIOError, BrokenPipeError):
        os.write(pipe, WAKE)


KEPT = 1 / 8
"""This part of a worker's memory may stay in use without a job. The plan of the next one does not
count what an earlier one has left."""


class Worker:
    """Takes jobs and runs them, one at a time."""

    def __init__(
        self,
        settings: Settings,
        stopping: threading.Event,
        name: str | None = None,
        wake_others: Callable[[], None] = lambda: None,
        on_jobs_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_jobs_changed` is called after each commit to SQLite by which a job has changed."""
        database = Database(settings.database_url)
        database.on_jobs_changed = on_jobs_changed
        blobs = open_blobs(settings, make=False)
        self._settings = settings
        self._stopping = stopping
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._wake_others = wake_others
        most = settings.limits.running_jobs_per_caller
        self._leases = Leases(database, blobs, most)
        self._part_leases = PartLeases(database, blobs, most)
        self._kept = Kept()
        shared = not settings.sqlite_file
        has_takers = settings.workers != 1 or shared
        dask = None
        if settings.dask_address is not None:
            unencrypted = settings.dask_unencrypted
            dask = connection.Connection(settings.dask_address, unencrypted=unencrypted)
        dask_helpers = (
            None
            if dask is None or settings.sqlite_file
            else connection.DaskHelpers(dask, take_parts)
        )

        def on_offered() -> None:
            wake_others()
            if dask_helpers is not None:
                dask_helpers.ask()

        context = RunContext(
            KeptDatasets(database, blobs),
            ModelRegistry(database, blobs),
            blobs,
            Offers(database, blobs, on_offered, has_takers=has_takers, on_machines=shared),
            settings,
            dask,
        )
        self._runners: dict[str, Callable[[Attempt], None]] = {
            name: partial(kind.run, context) for name, kind in KINDS.items()
        }
        self._helpers: dict[str, Callable[[PartWork], None]] = {
            name: partial(kind.help, context) for name, kind in KINDS.items()
        }

    def run(self, woken: threading.Event, dead: Sequence[str], stays: bool) -> bool:
        """Take jobs until the process stops; True if it ended because there were none, or because
        it keeps too much memory of earlier ones: a new process takes its place."""
        listen(self._settings.database_url, WORK, woken.set, self._stopping)
        if dead:
            with suppress(Exception):  # their leases expire in any case
                self._leases.expire(dead)
        deadline, memory = time.monotonic() + IDLE_S, psutil.Process().memory_info
        most = memory().rss + int(KEPT * self._settings.limits.worker_memory_bytes)
        while not self._stopping.is_set():
            woken.clear()
            pause = LOOK_S
            try:
                if self.take_next_job() or self.take_next_part():
                    deadline = time.monotonic() + IDLE_S
                    continue
                if memory().rss > most:
                    return_free_memory()
                if memory().rss > most:
                    self._wake_others()  # the supervisor, too, which then replaces this process
                    return True
                # The lease of a lost worker may last longer than this one is idle.
                if time.monotonic() > deadline and not stays and not self._leases.any():
                    return True
            except Exception:  # such as no database, or a full disk: both may be temporary
                logger.exception("a job could not be taken, or failed")
                pause, deadline = RETRY_S, time.monotonic() + IDLE_S
            if woken.wait(pause):
                deadline = time.monotonic() + IDLE_S
        return False

    def take_next_job(self) -> bool:
        """Run the next job; returns whether there was one."""
        lease = self._leases.take(self._name, self._settings.lease_s)
        if lease is None:
            return False
        self._kept = Kept()
        by = Actor(lease.job.caller, request_id=lease.job.request_id)
        lost = "the job was canceled, or another attempt took it"
        with acting(by), _logged("job", lost, **lease.job.log_context):
            attempt = Attempt(lease, self._leases, self._settings, self._stopping)
            with keep_lease(attempt), report_compiling(attempt):
                carry_out(self._runners[attempt.job.kind], attempt, self._stopping)
        return True

    def take_next_part(self) -> bool:
        """Do the next part of another worker's job; returns whether there was one."""
        lease = self._part_leases.take(self._name, self._settings.lease_s)
        if lease is None:
            self._kept = Kept()
            return False
        lost = "the part's job has ended, or does it itself"
        with _logged("part", lost, **lease.job.log_context, part=lease.number):
            given = lease, self._part_leases, self._settings, self._stopping
            part = PartWork(*given, kept=self._kept)
            with keep_lease(part):
                carry_out_part(self._helpers[lease.job.kind], part)
        return True


@contextmanager
def _logged(what: str, lost: str, **fields: Any) -> Iterator[None]:
    """Log that leased work is taken and left, or `lost`; `fields` are in all lines of the block."""
    started = time.monotonic()
    with structlog.contextvars.bound_contextvars(**fields):
        logger.info("%s taken", what)
        try:
            yield
        except LeaseLost:
            logger.info(lost)
        logger.info("%s left", what, extra={"seconds": round(time.monotonic() - started, 3)})


def take_parts(expected: str) -> int:
    """Take parts of jobs in this process, a worker of Dask, while there are any; returns how many.
    Raises NoAccess."""
    settings, taken = Settings(), 0
    connection.check_versions(expected)
    connection.check_store(settings)
    connection.check_database(settings)
    worker = _helper_of_this_process()
    while worker.take_next_part():
        taken += 1
    return taken


@cache
def _helper_of_this_process() -> Worker:
    return Worker(Settings(), threading.Event())


def carry_out(run: Callable[[Attempt], None], attempt: Attempt, stopping: threading.Event) -> None:
    """Run a job, and end or release it, whatever happens. Raises LeaseLost, and PASSING errors
    if this process stops before the end could be written."""
    try:
        run(attempt)
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
        attempt.finish(_failed(error))
    except PASSING:
        logger.exception("job released", extra={"job_id": attempt.job.id})
        stopping.wait(RETRY_S)  # other jobs would fail in the same way
        attempt.give_back()
    except Exception as error:
        attempt.finish(_failed(error))


def _failed(error: Exception) -> Outcome:
    return Outcome(state=State.FAILED, stop_reason="error", error=error_of(error))
