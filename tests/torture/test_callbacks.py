"""Callbacks of jobs that end while the service is killed again and again."""

from __future__ import annotations

import base64
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa
from standardwebhooks import Webhook

from service.storage.database import Database, now
from service.storage.database.tables import audit, deliveries, jobs
from tests.journeys.server import Server, ok, running
from tests.servers import postgres
from tests.service.jobs.core.receiver import Reply, receiving, status
from tests.service.jobs.data import csv_of, job_body

SECRET = f"whsec_{base64.b64encode(b'0123456789abcdef0123456789abcdef').decode()}"
AT_ONCE = 250
LIFE_S = (0.5, 2.5)
"""From a start to the next kill."""
LONG = (pytest.mark.torture, pytest.mark.timeout(900))
"""Ten parts of two minutes each: 10,000 deliveries and 100 kills in all."""


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.torture)],
)
def environment(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    variables = {
        "SVM_CALLBACK_HOSTS": "127.0.0.0/8",
        "SVM_CALLBACK_SECRET": SECRET,
        "SVM_WORKERS": "0",
    }
    if request.param == "sqlite":
        yield variables
        return
    with postgres() as url:
        yield variables | {"SVM_DATABASE_URL": url}


def unreliable(draws: random.Random) -> Reply:
    accepts, fails = status(204), status(500)

    def reply(handler: BaseHTTPRequestHandler) -> None:
        draw = draws.random()
        if draw < 0.1:
            return  # closes the connection
        if draw < 0.2:
            time.sleep(0.3)
        (fails if draw > 0.9 else accepts)(handler)

    return reply


def end_jobs(server: Server, url: str, wanted: int) -> None:
    """Queue jobs with a callback, and cancel them, until there are `wanted`."""
    while True:
        queued = ok(server.http.get("/v1/jobs?state=queued&page_size=1000"), 200)["jobs"]
        for job in queued:
            ok(server.http.post(f"/v1/jobs/{job['id']}/cancel"), 202, 200)
        metrics = server.http.get("/metrics").text
        ended = int(float(metrics.partition('svm_jobs{state="canceled"} ')[2].split()[0]))
        if ended >= wanted:
            return
        batch = [job_body(callback=url)] * min(AT_ONCE, wanted - ended)
        ok(server.http.post("/v1/jobs:batch", json={"jobs": batch}), 200)


def unsent(database: Database) -> int:
    """How many deliveries wait; pauses, and leases of the dead, are over at once."""
    waits = deliveries.c.next_at.is_not(None)
    with database.write() as connection:
        later = deliveries.c.next_at > now() + 1
        connection.execute(sa.update(deliveries).where(later).values(next_at=now() + 1))
        return connection.scalar(sa.select(sa.func.count()).where(waits)) or 0


@pytest.mark.parametrize(
    ("wanted", "kills", "seed"),
    [
        pytest.param(30, 1, 0, marks=pytest.mark.long),
        *(pytest.param(1000, 10, seed, marks=LONG) for seed in range(1, 11)),
    ],
)
def test_every_end_is_delivered_under_one_id(
    tmp_path: Path, environment: dict[str, str], wanted: int, kills: int, seed: int
) -> None:
    """At least once each, whatever is killed; no job has two ids, and every request is signed."""
    draws, data_dir = random.Random(seed), tmp_path / "var"
    url = environment.get("SVM_DATABASE_URL", f"sqlite:///{data_dir / 'service.db'}")
    with receiving(unreliable(draws)) as receiver:
        for number in range(kills):
            with running(data_dir, **environment) as server:
                if number == 0:
                    server.upload(csv_of().encode())
                threading.Timer(draws.uniform(*LIFE_S), server.process.kill).start()
                with suppress(httpx2.TransportError):
                    end_jobs(server, receiver.url("/"), wanted)
                server.process.wait(60)
        with running(data_dir, **environment) as server:
            end_jobs(server, receiver.url("/"), wanted)
            database = Database(url)
            while unsent(database):
                time.sleep(0.5)
    with database.read() as connection:
        ended = set(connection.scalars(sa.select(jobs.c.id)))
        rows = connection.execute(sa.select(deliveries)).all()
        changes = connection.execute(sa.select(audit.c.action, audit.c.resource)).all()
    database.close()
    assert len(ended) >= wanted
    assert sorted(row.job_id for row in rows) == sorted(ended)
    assert all(row.delivered_at is not None for row in rows)
    ids = defaultdict(set)
    for request in receiver.requests:
        body = json.loads(request.body)
        ids[body["data"]["id"]].add(request.headers["webhook-id"])
    for request in receiver.requests[-50:]:  # older ones are too old for the library by now
        Webhook(SECRET).verify(request.body, request.headers)
    assert dict(ids) == {row.job_id: {row.id} for row in rows}
    for action in ("job.create", "job.cancel"):
        audited = [change.resource for change in changes if change.action == action]
        assert sorted(audited) == sorted(f"jobs/{id}" for id in ended)
    print(f"{len(rows):,} deliveries, {len(receiver.requests):,} requests, {kills} kills")
