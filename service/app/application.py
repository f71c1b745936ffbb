"""Builds the service from its settings: the only module that imports all packages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from anyio.to_thread import current_default_thread_limiter, run_sync
from fastapi import FastAPI

from service import __version__
from service.addresses import ANY, host_names
from service.app.background import (
    has_models,
    keep_reserve_forever,
    prepare,
    prune_forever,
    return_memory_forever,
    shorten_leases,
    warm_up,
    warm_up_for_first_model,
)
from service.common.event_stream import EventStreams, Health
from service.common.keys import Keys
from service.dashboard import routes as dashboard
from service.dashboard.charts import Distributions
from service.dashboard.page import PageContext, render_framed
from service.datasets import routes as datasets
from service.datasets.contents import Contents
from service.datasets.store import DatasetStore
from service.jobs import routes as jobs
from service.jobs.callbacks import Deliveries, Destinations, Sender
from service.jobs.collection.routes import JobAccess
from service.jobs.collection.submission import Stores
from service.jobs.comparisons.submission import Comparisons
from service.jobs.core.events import EventLog, Watcher
from service.jobs.core.metrics import JobMetrics
from service.jobs.core.store import JobStore, job_with_dataset, job_with_model
from service.jobs.engine.child import Child, Forked
from service.jobs.evaluations.routes import Evaluations
from service.jobs.kinds import KINDS, TRAINING
from service.jobs.training import routes as solvers
from service.jobs.training.submission import Trainings
from service.models import routes as models
from service.models.derived import routes as derived
from service.models.derived.files import DerivedFiles
from service.models.derived.renderer import Renderer
from service.models.registry import ModelRegistry
from service.predictions import inference_routes as inference
from service.predictions import routes as predictions
from service.predictions.loaded_models import LoadedModels
from service.predictions.predictor import Predictor
from service.predictions.predictor import warm_up as warm_up_predictions
from service.rows.parser import Parser
from service.settings import Settings, callback_secrets
from service.storage.blobs import open_blobs
from service.storage.database import Database
from service.storage.database.audit import AuditLog
from service.storage.database.idempotency import Reservations
from service.storage.disk import private_folder
from service.storage.machine_code import keep_machine_code
from service.storage.ownership import Sweeper, secret_of
from service.web import audit, docs, health, problem_pages, problems
from service.web.access import login
from service.web.access.authenticator import Authenticator, Hosts
from service.web.access.scopes import EVERY_ROUTE, Admission
from service.web.bodies.body_budget import BodyBudget, BodyShares
from service.web.bodies.control_bodies import LIMIT_BYTES
from service.web.bodies.idempotency import RESERVATIONS
from service.web.http.compression import Compression
from service.web.http.headers import HeadAsGet
from service.web.http.pagination import SECRET
from service.web.server.connections import ConnectionLimits
from service.web.server.http_protocol import ServiceProtocol
from service.web.server.observability import Metrics, Observability
from service.web.server.server_context import ServerContext

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


class Application(docs.DocumentedAPI):
    """The service, and what the process that serves it needs."""

    http_protocol: partial[ServiceProtocol]
    connection_limits: ConnectionLimits
    health: Health
    first_key: Path | None = None
    """The file of the first API key, once the service has started and requires keys."""


def create_app(
    settings: Settings,
    own_names: Collection[str] = (ANY,),
    shared_parser: Parser | None = None,
    warm: bool = False,
    supervisor: Forked | None = None,
) -> Application:
    """The application. Its lifespan migrates the database and runs the engine.

    `own_names`: allowed host names in addition to those of the settings; any without a server.
    `shared_parser`: used by several applications in this process; this one does not close it.
    `warm`: do at start what the first requests would wait for.
    `supervisor`: the first one of the engine, which is started here otherwise.
    """
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
    engine = Child("service.jobs.engine.supervisor", settings, supervisor, sender.wake)
    queued = limits.queued_jobs, limits.queued_jobs_per_caller
    job_store = JobStore(database, blobs, *queued, engine.wake, sender.wake)
    registry = ModelRegistry(database, blobs, job_with_model)
    stores = Stores(job_store, dataset_store, registry, limits, destinations)
    renderer = Renderer(DerivedFiles(database, blobs), settings)
    loaded_models = LoadedModels(database, registry, settings.loaded_models_bytes)
    predictor = Predictor(loaded_models, limits, parser, blobs)
    sweeper = Sweeper(database, blobs)
    reservations = Reservations(database, settings.lease_s)
    keys = Keys(database)
    hosts = Hosts((*host_names(settings.hosts), *own_names))
    authenticator = Authenticator(keys, settings.auth, limits.requests_per_s, hosts)
    state = Health()
    event_log, audit_log = EventLog(database), AuditLog(database)
    watcher = Watcher(event_log, state)
    streams = EventStreams(limits.event_streams)
    access = JobAccess(job_store, event_log, watcher, streams, deliveries)
    metrics = Metrics()
    metrics.registry.register(JobMetrics(job_store, database))
    metrics.registry.register(predictor.metrics)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        current_default_thread_limiter().total_tokens = THREADS
        with database.reserve_released():
            await run_sync(prepare, database, blobs)
            if settings.sqlite_file is not None:
                await run_sync(shorten_leases, database, settings.lease_s)
            if settings.auth == "on":
                app.first_key = await run_sync(keys.ensure_first, settings.data_dir)
            secret = await run_sync(secret_of, database)
        await authenticator.refresh()
        if settings.workers > 0:
            engine.start()
        sweeper.start()
        tasks: list[asyncio.Task[None]] = []
        if warm:
            look_up = partial(registry.find_all, [("", None)])  # the first query is slow
            steps = (lambda: app.document, solvers.warm_up, dashboard.warm_up, look_up)
            if await run_sync(has_models, registry):
                await warm_up((*steps, warm_up_predictions), state)
            else:
                await warm_up(steps, state)
                tasks.append(asyncio.create_task(warm_up_for_first_model(registry, state)))
        tasks += [
            asyncio.create_task(
                prune_forever(
                    partial(event_log.prune, limits.history_s),
                    partial(reservations.prune, limits.history_s),
                    partial(audit_log.prune, limits.audit_s),
                    partial(deliveries.prune, limits.history_s),
                )
            ),
            asyncio.create_task(keep_reserve_forever(database, limits)),
            asyncio.create_task(return_memory_forever(metrics)),
            asyncio.create_task(watcher.run()),
            asyncio.create_task(sender.run()),
            asyncio.create_task(authenticator.refresh_forever()),
        ]
        try:
            yield {
                SECRET: secret,
                LIMIT_BYTES: limits.control_body_bytes,
                RESERVATIONS: reservations,
            }
        finally:
            state.draining = True
            await run_sync(engine.stop)
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
    bodies = BodyBudget(max(limits.bodies_bytes, largest))
    connections = ConnectionLimits(
        settings.header_s, settings.body_idle_s, settings.connections, metrics, bodies
    )
    app.connection_limits = connections
    app.http_protocol = partial(
        ServiceProtocol, ServerContext(predictor, authenticator, metrics, connections)
    )
    app.add_middleware(Compression)
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
    app.add_routes(audit.router(audit_log))
    app.add_routes(health.router(state, database, metrics.registry, settings))
    docs.mount(app)
    app.add_routes(problem_pages.router(render_framed))
    dashboard.mount(
        app,
        PageContext(
            datasets=dataset_store,
            parser=parser,
            blobs=blobs,
            limits=limits,
            jobs=job_store,
            trainings=Trainings(stores),
            evaluations=Evaluations(stores),
            comparisons=Comparisons(stores),
            renderer=renderer,
            models=registry,
            loaded_models=loaded_models,
            predictor=predictor,
            distributions=Distributions(dataset_store),
        ),
    )
    login.mount(app, authenticator)
    return app
