"""Jobs change in other processes: here one task looks for all that wait, ten times a second."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
from anyio.to_thread import run_sync

from service.jobs.core.events import EventLog, Sighting
from service.web.health import Health

LOOK_S = 0.1
FAILED_S = 1.0
"""Time between two looks while the database does not answer."""

logger = logging.getLogger(__name__)

Condition = Callable[[Sighting], bool]


class Watcher:
    """Wakes the long polls and event streams of this process. Belongs to one event loop.

    A look is one query for the jobs that somebody waits for, however many wait; while nobody does,
    there is none.
    """

    def __init__(self, log: EventLog, health: Health) -> None:
        self._log = log
        self._health = health
        self._waiters: set[_Waiter] = set()

    @property
    def closing(self) -> bool:
        """This process is on its way out: nobody shall wait any longer."""
        return self._health.draining

    async def until(self, job_id: str, condition: Condition, timeout_s: float) -> bool:
        """Wait until the job meets the condition or is gone; False where time ran out.

        Ends early, as if the condition were met, once the process is on its way out.
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
        """Look again and again until canceled."""
        while True:
            await anyio.sleep(LOOK_S)
            if not self._waiters:
                continue
            try:
                await self._look()
            except Exception:  # whatever it is, those who wait must not wait for ever
                logger.exception("cannot look for changes of jobs")
                await anyio.sleep(FAILED_S)

    async def _look(self) -> None:
        waiters = tuple(self._waiters)  # others may come while the database is asked
        if not self.closing:
            job_ids = list({waiter.job_id for waiter in waiters})
            seen = await run_sync(self._log.sightings, job_ids)
            waiters = tuple(waiter for waiter in waiters if waiter.is_met(seen.get(waiter.job_id)))
        for waiter in waiters:
            waiter.woken.set()


class _Waiter:
    def __init__(self, job_id: str, condition: Condition) -> None:
        self.job_id = job_id
        self.woken = anyio.Event()
        self._condition = condition

    def is_met(self, job: Sighting | None) -> bool:
        return job is None or self._condition(job)
