"""Work of the service at start and in the background."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import sqlalchemy as sa
import structlog
from anyio.to_thread import run_sync

from service.common.event_stream import Health
from service.common.malloc import return_free_memory
from service.errors import StorageFull, Unavailable
from service.models.registry import ModelRegistry
from service.predictions.predictor import warm_up as warm_up_predictions
from service.settings import Limits
from service.storage.blobs import Blobs
from service.storage.database import Database, UnusableDatabase, now
from service.storage.database.pages import PageRequest
from service.storage.database.tables import idempotency_keys, job_parts, jobs
from service.storage.inspection import check_undamaged
from service.storage.ownership import ForeignFiles, claim
from service.web.server.observability import Metrics

START_S = 30.0
"""Timeout for the database and file store, which may start at the same time."""
SOUND_S = 1.0
"""Time limit of the check for damage: enough for some 300 MB of a database in memory."""
CHECK_S = 0.01
MODEL_CHECK_S = 1.0
"""How often to check for the first model."""
PRUNE_S = 3600.0
RESERVE_S = 5.0
QUIET_S = 30.0
FEW = 100
"""Requests in `QUIET_S`, such as those of probes, that are not worth keeping memory for."""

CANNOT_START = (UnusableDatabase, ForeignFiles, StorageFull, Unavailable)
"""What `prepare` raises, after it was logged."""

Steps: TypeAlias = tuple[Callable[[], object], ...]

log = structlog.stdlib.get_logger("service")


def prepare(database: Database, blobs: Blobs) -> None:
    """Migrate the database and check that the files belong to it; retry while one is missing."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            check_undamaged(database, SOUND_S)
            database.migrate()
            return claim(database, blobs)
        except (UnusableDatabase, ForeignFiles, StorageFull) as error:
            log.critical("cannot start", reason=str(error))
            raise
        except Unavailable as error:
            if error.code == "storage-damaged":  # its cause is in the log
                raise
            if time.monotonic() > deadline:
                log.critical("cannot start", reason=error.detail, cause=str(error.__cause__)[:300])
                raise
            log.warning(
                "waiting for storage", reason=error.detail, cause=str(error.__cause__)[:300]
            )
        time.sleep(1)


def shorten_leases(database: Database, lease_s: float) -> None:
    """Let every lease end in at most `lease_s` seconds, as one that begins now.

    For the start of the only service of a database: its processes may have died with their leases,
    and the clock may have been wrong. Raises Unavailable.
    """
    latest = now() + lease_s
    with database.write() as connection:
        for table in (jobs, job_parts, idempotency_keys):
            later = table.c.lease_expires_at > latest
            connection.execute(sa.update(table).where(later).values(lease_expires_at=latest))


async def warm_up(steps: Steps, state: Health) -> None:
    """Run the steps in a thread; a shutdown does not wait for them."""
    done = threading.Event()

    def run_steps() -> None:
        for step in steps:
            try:
                step()
            except Exception:  # the request that needs it reports the failure
                log.exception("warm-up failed")
        done.set()

    threading.Thread(target=run_steps, name="warm-up", daemon=True).start()
    while not done.is_set() and not state.draining:
        await asyncio.sleep(CHECK_S)


async def warm_up_for_first_model(registry: ModelRegistry, state: Health) -> None:
    """Warm up predictions as soon as there is a model. Until then the process stays small."""
    exists = False
    while not exists:
        await asyncio.sleep(MODEL_CHECK_S)
        with suppress(Unavailable):
            exists = await run_sync(has_models, registry)
    await warm_up((warm_up_predictions,), state)


def has_models(registry: ModelRegistry) -> bool:
    return bool(registry.page(PageRequest(size=1)).items)


async def prune_forever(*prunes: Callable[[], None]) -> None:
    """Remove what is old, once an hour."""
    while True:
        for prune in prunes:
            try:
                await run_sync(prune)
            except Exception:
                log.exception("removing old rows failed")
        await asyncio.sleep(PRUNE_S)


async def return_memory_forever(metrics: Metrics) -> None:
    """Once there are few requests, return the memory that many have used."""
    seen, returned = 0, -1
    while True:
        await asyncio.sleep(QUIET_S)
        answered = metrics.answered
        if answered - seen < FEW and answered != returned:
            await run_sync(return_free_memory)
            returned = answered
        seen = answered


async def keep_reserve_forever(database: Database, limits: Limits) -> None:
    while database.reserve is not None:
        try:
            await run_sync(database.reserve.keep, limits)
        except OSError as error:
            log.warning("reserving disk space failed", cause=str(error))
        await asyncio.sleep(RESERVE_S)
