"""Watches jobs, which other processes change: one task polls the table ten times a second."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
from anyio.to_thread import run_sync

from service.jobs.core.events import EventLog, Snapshot
from service.web.health import Health

POLL_S = 0.1
FAILED_S = 1.0
"""Time between two polls while the database does not answer."""

logger = logging.getLogger(__name__)

Condition = Callable[[Snapshot], bool]


class Watcher:
    """Wakes the long polls and event streams of this process. Belongs to one event loop.

    A poll is one query for all jobs that are waited for; if there are none, there is no query.
    """

    def __init__(self, log: EventLog, health: Health) -> None:
        self._log = log
        self._health = health
        self._waiters: set[_Waiter] = set()

    @property
    def closing(self) -> bool:
        """This process shuts down: waiting ends early."""
        return self._health.draining

    async def until(self, job_id: str, condition: Condition, timeout_s: float) -> bool:
        """Wait until the job meets the condition or is deleted; False after the timeout.

        Returns True early when the process shuts down.
        """
        waiter = _Waiter(job_id, condition)
        self._waiters.add(waiter)
        try:
            with anyio.move_on_after(timeout_s):
                await waiter.woken.wait()
        finally:
            self._waiters.discard(waiter)
        return waiter.woken.is_set()

    async def run(self) -> None:
        """Poll until canceled."""
        while True:
            await anyio.sleep(POLL_S)
            if not self._waiters:
                continue
            try:
                await self._poll()
            except Exception:  # any error: waiting requests must not hang
                logger.exception("changes of jobs cannot be read")
                await anyio.sleep(FAILED_S)

    async def _poll(self) -> None:
        waiters = tuple(self._waiters)  # others may be added during the query
        if not self.closing:
            job_ids = list({waiter.job_id for waiter in waiters})
            snapshots = await run_sync(self._log.snapshots, job_ids)
            waiters = tuple(
                waiter for waiter in waiters if waiter.is_met(snapshots.get(waiter.job_id))
            )
        for waiter in waiters:
            waiter.woken.set()


class _Waiter:
    def __init__(self, job_id: str, condition: Condition) -> None:
        self.job_id = job_id
        self.woken = anyio.Event()
        self._condition = condition

    def is_met(self, job: Snapshot | None) -> bool:
        return job is None or self._condition(job)
