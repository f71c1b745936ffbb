"""Watches jobs, which other processes change: one task polls the table ten times a second while
requests wait for changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import anyio
from anyio.to_thread import run_sync

from service.common.event_stream import Health
from service.jobs.core.events import Batch, EventLog, Snapshot

POLL_S = 0.1
GROUP = 8
"""Waiting requests that continue in one turn of the event loop: other requests come between."""
TURN_S = 2e-3
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
        self._wanted = asyncio.Event()
        """There are waiters."""
        self._reading: dict[tuple[str, int, int], asyncio.Task[Batch]] = {}

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
        self._wanted.set()
        try:
            with anyio.move_on_after(timeout_s):
                await waiter.woken.wait()
        finally:
            self._waiters.discard(waiter)
        return waiter.woken.is_set()

    async def read(self, job_id: str, after: int, limit: int) -> Batch:
        """As `EventLog.read`; those who ask for the same at the same time share one query."""
        key = job_id, after, limit
        reading = self._reading.get(key)
        if reading is None:
            reading = asyncio.create_task(run_sync(self._log.read, *key))
            self._reading[key] = reading
            reading.add_done_callback(lambda _: self._reading.pop(key))
        return await asyncio.shield(reading)  # one of them may be canceled

    async def run(self) -> None:
        """Poll until canceled."""
        while True:
            await self._wanted.wait()
            await anyio.sleep(POLL_S)
            if not self._waiters:
                self._wanted.clear()
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
        for number, waiter in enumerate(waiters, 1):
            waiter.woken.set()
            if number % GROUP == 0:
                await anyio.sleep(TURN_S)


class _Waiter:
    def __init__(self, job_id: str, condition: Condition) -> None:
        self.job_id = job_id
        self.woken = anyio.Event()
        self._condition = condition

    def is_met(self, job: Snapshot | None) -> bool:
        return job is None or self._condition(job)
