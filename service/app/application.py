"""Builds the service from its settings, with its work at start and in the background: the only
module that imports all packages."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa
import structlog
from anyio.to_thread import current_default_thread_limiter, run_sync
from fastapi import FastAPI

from service import __version__
from service.addresses import ANY, host_names
from service.common.event_stream import EventStreams, Health
from service.common.keys import Keys
from service.common.malloc import return_free_memory
from service.common.shared import Shared
from service.dashboard import routes as dashboard
from service.dashboard.page import PageContext, render_framed
from service.datasets import routes as datasets
from service.datasets.contents import Contents
from service.datasets.distributions import Distributions
from service.datasets.store import DatasetStore
from service.errors import StorageFull, Unavailable
from service.jobs import routes as jobs
from service.jobs.callbacks import Deliveries, Destinations, Sender
from service.jobs.collection.routes import JobAccess
from service.jobs.core.events import EventLog, Watcher
from service.jobs.core.metrics import JobMetrics
from service.jobs.core.store import JobStore, job_with_dataset, job_with_model
from service.jobs.engine.child import Child, Forked
from service.jobs.engine.member import Member
from service.jobs.kinds import KINDS, TRAINING
from service.jobs.training import routes as solvers
from service.models import routes as models
from service.models.derived import routes as derived
from service.models.derived.files import DerivedFiles
from service.models.derived.renderer import Renderer
from service.models.registry import ModelRegistry
from service.predictions import inference_routes as inference
from service.predictions import routes as predictions
from service.predictions.loaded_models import LoadedModels
from service.predictions.predictor import Predictor, warm_up_compiled
from service.predictions.predictor import warm_up as warm_up_predictions
from service.rows.parser import Parser
from service.settings import Limits, Settings, callback_secrets
from service.storage.blobs import Blobs, open_blobs
from service.storage.database import CHANGES, Database, UnusableDatabase, listen, now, tables
from service.storage.database.audit import AuditLog
from service.storage.database.idempotency import Reservations
from service.storage.disk import private_folder
from service.storage.inspection import check_undamaged
from service.storage.machine_code import keep_machine_code
from service.storage.ownership import ForeignFiles, Sweeper, claim, secret_of
from service.web import docs, operations, problems
from service.web.access.authenticator import Authenticator, Hosts
from service.web.access.scopes import EVERY_ROUTE, Admission, mount_login
from service.web.bodies.control_bodies import LIMIT_BYTES
from service.web.bodies.idempotency import RESERVATIONS
from service.web.bodies.receiving import BodyBudget, BodyShares
from service.web.http.compression import Compression
from service.web.http.headers import HeadAsGet
from service.web.http.pagination import SECRET
from service.web.server.http_protocol import ServerContext, ServiceProtocol
from service.web.server.limits import ConnectionLimits
from service.web.server.observability import PREDICTIONS, Metrics, Observability

DESCRIPTION = """\
Upload data, train support vector machines in the background, keep the models, get predictions.

Try it from this page, top to bottom. Every body has an example that works unchanged:
**upload** (`POST /v1/datasets`), **train** (`POST /v1/jobs`, on the dataset uploaded last),
**predict** (`POST /v1/models/{name}/predict`).

Every error is a problem (RFC 9457) with a stable `code`; [/problems](/problems) explains them.
The [dashboard](/) offers the same in a browser; the [guide](/guide/) has it all by task.
"""

SECTIONS = {
    "datasets": (
        "Rows for training and prediction. A dataset never changes.",
        "guide/#upload-data",
    ),
    TRAINING.section: (TRAINING.about, TRAINING.guide),
    "solvers": ("The available solvers, with all parameters and their ranges.", "solvers/"),
    "models": (
        "Trained models in versions, with certificate, metrics, plots, exports and aliases.",
        "models/",
    ),
    "predictions": ("Rows in, labels out, in one request.", "guide/#predict"),
    **{kind.section: (kind.about, kind.guide) for kind in KINDS.values()},
    "open inference protocol": (
        "The same predictions for clients such as `tritonclient.http`.",
        "guide/#predict",
    ),
    "operations": (
        "Health, metrics, limits, the audit trail, and the meaning of errors.",
        "operations/",
    ),
}
"""The sections of the OpenAPI document, in the order of `/docs`, which opens the first three: what
they are about, and where the guide explains it."""
THREADS = 100
"""Most requests that use the database or files at once."""

log = structlog.stdlib.get_logger("service")
START_S = 30.0
"""Timeout for the database and file store, which may start at the same time."""
SOUND_S = 1.0
"""Time limit of the check for damage: enough for some 300 MB of a database in memory."""
CHECK_S = 0.01
MODEL_CHECK_S = 1.0
"""How often to check for the first model."""
PRUNE_S = 3600.0
RESERVE_S = 5.0
COUNT_S = 1.0
QUIET_S = 30.0
FEW = 100
"""Requests in `QUIET_S`, such as those of probes, that are not worth keeping memory for."""
CANNOT_START = (UnusableDatabase, ForeignFiles, StorageFull, Unavailable)
"""What `prepare` raises, after it was logged."""
Steps: TypeAlias = tuple[Callable[[], object], ...]


class Application(docs.DocumentedAPI):
    """The service, and what the process that serves it needs."""

    http_protocol: partial[ServiceProtocol]
    connection_limits: ConnectionLimits
    health: Health
    first_key: Path | None = None
    """The file of the first API key, once the service has started and requires keys."""

    def warm_up(self) -> None:
        """What the first requests would wait for and needs no database. A fork has it, too."""
        _ = self.document
        solvers.warm_up()
        dashboard.warm_up()


def create_app(
    settings: Settings,
    own_names: Collection[str] = (ANY,),
    shared_parser: Parser | None = None,
    warm: bool = False,
    supervisor: Forked | None = None,
    member: Member | None = None,
) -> Application:
    """The application. Its lifespan migrates the database and runs the engine.

    `own_names`: allowed host names in addition to those of the settings; any without a server.
    `shared_parser`: used by several applications in this process; this one does not close it.
    `warm`: do at start what the first requests would wait for.
    `supervisor`: the first one of the engine, which is started here otherwise.
    `member`: this process is one of several, whose parent has the engine.
    """
    shared = Shared() if member is None else member.shared
    limits = settings.limits
    private_folder(settings.data_dir)
    keep_machine_code(settings.data_dir)
    database = Database(settings.database_url)
    blobs = open_blobs(settings)
    parser = shared_parser or Parser()
    dataset_store = DatasetStore(database, blobs, job_with_dataset)
    contents = Contents(dataset_store, parser, blobs)
    destinations, deliveries = Destinations(settings.callback_hosts), Deliveries(database)
    sender = Sender(deliveries, destinations, callback_secrets(settings.callback_secret))
    event_log, audit_log, state = EventLog(database), AuditLog(database), Health()
    watcher = Watcher(event_log, state)

    def on_jobs_changed() -> None:
        watcher.wake()
        sender.wake()

    engine: Child | Member
    if member is None:
        engine = Child("service.jobs.engine.supervisor", settings, supervisor, on_jobs_changed)
        database.on_jobs_changed = on_jobs_changed
    else:
        engine, member.on_told = member, on_jobs_changed
        database.on_jobs_changed = member.changed
    queued = limits.queued_jobs, limits.queued_jobs_per_caller
    job_store = JobStore(database, blobs, *queued, engine.wake)
    registry = ModelRegistry(database, blobs, job_with_model)
    renderer = Renderer(DerivedFiles(database, blobs), settings)
    loaded_models = LoadedModels(
        database, registry, settings.loaded_models_bytes // settings.processes
    )
    predictor = Predictor(loaded_models, limits, parser, blobs, shared)
    stores = PageContext(
        job_store,
        dataset_store,
        registry,
        limits,
        destinations,
        parser=parser,
        blobs=blobs,
        renderer=renderer,
        loaded_models=loaded_models,
        predictor=predictor,
        distributions=Distributions(dataset_store),
        has_workers=settings.workers > 0 or not settings.sqlite_file,
    )
    sweeper = Sweeper(database, blobs)
    reservations = Reservations(database, settings.lease_s)
    keys = Keys(database)
    hosts = Hosts((*host_names(settings.hosts), *own_names))
    authenticator = Authenticator(keys, settings.auth, limits.requests_per_s, hosts, shared.times)
    streams = EventStreams(limits.event_streams, shared.count("streams"))
    access = JobAccess(job_store, event_log, watcher, streams, deliveries)
    metrics = Metrics(shared)
    job_metrics = JobMetrics(job_store, database, shared)
    metrics.registry.register(job_metrics)

    def on_draining() -> None:
        watcher.wake()
        job_metrics.counts = job_metrics.counts and member is None  # another process does it now

    state.on_draining = on_draining
    metrics.registry.register(predictor.metrics)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        current_default_thread_limiter().total_tokens = THREADS
        leads = job_metrics.counts = member is None or member.leads
        with database.reserve_released():
            if member is None or member.first:
                await run_sync(prepare, database, blobs)
                if settings.sqlite_file is not None:
                    await run_sync(shorten_leases, database, settings.lease_s)
                if settings.auth == "on":
                    app.first_key = await run_sync(keys.ensure_first, settings.data_dir)
            secret = await run_sync(secret_of, database)
        await authenticator.refresh()
        if settings.workers > 0 or member is not None:
            engine.start()
        listen(settings.database_url, CHANGES, on_jobs_changed, ended := threading.Event())
        tasks: list[asyncio.Task[None]] = []
        if warm:
            look_up = partial(registry.find_all, [("", None)])  # the first query is slow
            steps: Steps = (app.warm_up, look_up)
            for exists, step in (
                (registry.has_version, warm_up_predictions),
                (partial(registry.has_version, compiled=True), warm_up_compiled),
            ):
                if await run_sync(exists):
                    steps = (*steps, step)
                else:
                    first = warm_up_for_first(exists, step, registry, state)
                    tasks.append(asyncio.create_task(first))
            await warm_up(steps, state)
        prunes = (
            partial(event_log.prune, limits.history_s),
            partial(reservations.prune, limits.history_s),
            partial(audit_log.prune, limits.audit_s),
            partial(deliveries.prune, limits.history_s),
        )
        endless = [
            return_memory_forever(metrics),
            watcher.run(),
            authenticator.refresh_forever(),
        ]
        if leads:
            sweeper.start()
            endless += prune_forever(*prunes), keep_reserve_forever(database, limits), sender.run()
        if leads and member is not None:
            endless.append(count_jobs_forever(job_metrics))
        tasks += map(asyncio.create_task, endless)
        try:
            yield {
                SECRET: secret,
                LIMIT_BYTES: limits.control_body_bytes,
                RESERVATIONS: reservations,
            }
        finally:
            state.drain()
            await run_sync(engine.stop)
            ended.set()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await run_sync(sweeper.stop)
            if shared_parser is None:
                await run_sync(parser.close)
            await run_sync(renderer.close)
            contents.close()
            database.close()

    app = Application(
        title="svm-service",
        version=__version__,
        description=DESCRIPTION,
        openapi_tags=[
            {"name": name, "description": f"{about} [Guide](/guide/{place})"}
            for name, (about, place) in SECTIONS.items()
        ],
        lifespan=lifespan,
        openapi_url=None,  # `docs` adds it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        **EVERY_ROUTE,
    )
    app.health = state
    largest = max(limits.predict_body_bytes, limits.control_body_bytes)
    bodies = BodyBudget(max(limits.bodies_bytes, largest), shared.count("body bytes"))
    opened, timeouts = shared.count("connections"), (settings.header_s, settings.body_idle_s)
    connections = ConnectionLimits(*timeouts, settings.connections, metrics, bodies, opened)
    app.connection_limits = connections
    app.http_protocol = partial(
        ServiceProtocol, ServerContext(predictor, authenticator, metrics, connections)
    )
    app.add_middleware(Compression, plain=PREDICTIONS)
    app.add_middleware(Admission, authenticator=authenticator)
    app.add_middleware(BodyShares, budget=bodies)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Observability, metrics=metrics)
    problems.install(app, render_framed)
    app.add_routes(datasets.router(dataset_store, contents, parser, blobs, limits))
    app.add_routes(predictions.router(predictor))
    for kind in KINDS.values():
        app.add_routes(kind.routes.router(stores, access))
    app.add_routes(jobs.router(access))
    app.add_routes(inference.router(predictor, registry, state))
    app.add_routes(models.router(registry, dataset_store))
    app.add_routes(derived.router(registry, renderer, blobs, limits))
    app.add_routes(solvers.solver_router())
    app.add_routes(operations.audit_router(audit_log))
    app.add_routes(operations.router(state, database, metrics.registry, settings))
    docs.mount(app)
    app.add_routes(operations.problem_router(render_framed))
    dashboard.mount(app, stores)
    mount_login(app, authenticator)
    return app


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
        for table in (tables.jobs, tables.job_parts, tables.idempotency_keys):
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


async def warm_up_for_first(
    exists: Callable[[], bool],
    step: Callable[[], object],
    registry: ModelRegistry,
    state: Health,
) -> None:
    """Do the step as soon as there is a model that needs it. Until then the process stays small."""
    found, seen = False, 0
    while not found:
        await asyncio.sleep(MODEL_CHECK_S)
        with suppress(Unavailable):
            count = await run_sync(registry.count_versions)
            found = count != seen and await run_sync(exists)
            seen = count
    await warm_up((step, gc.freeze), state)  # as after the start


async def prune_forever(*prunes: Callable[[], None]) -> None:
    """Remove what is old, once an hour."""
    while True:
        for prune in prunes:
            try:
                await run_sync(prune)
            except Exception:
                log.exception("removing old rows failed")
        await asyncio.sleep(PRUNE_S)


async def count_jobs_forever(metrics: JobMetrics) -> None:
    """Count them for the processes that only show the counts."""
    while metrics.counts:
        await asyncio.sleep(COUNT_S)
        with suppress(Unavailable):
            await run_sync(metrics.catch_up)


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
