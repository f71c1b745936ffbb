"""Pages for records of an earlier release, which do not have everything that is recorded today."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.storage.database import Database
from service.storage.database.tables import jobs, model_versions
from tests.service.dashboard.browser import Browser

pytestmark = [pytest.mark.one_application, pytest.mark.long]

COLUMNS = (
    *((model_versions, name) for name in ("result", "spec")),
    *((jobs, name) for name in ("result", "spec", "progress")),
)
ALWAYS_THERE = {"spec/model", "spec/model/name", "spec/model/version", "spec/model_name"}
"""What a job is about."""


def without_one(record: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Copies of a record, each without one of its entries, at any depth; of lists, the first."""
    if isinstance(record, dict):
        for name, value in record.items():
            rest = {other: record[other] for other in record if other != name}
            yield f"{path}/{name}", rest
            for place, copy in without_one(value, f"{path}/{name}"):
                yield place, {**record, name: copy}
    elif isinstance(record, list) and record:
        for place, copy in without_one(record[0], f"{path}/0"):
            yield place, [copy, *record[1:]]


@pytest.mark.timeout(300)
def test_no_page_fails_for_a_record_without_an_entry(
    browser: Browser, client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Whichever it is: the page shows the rest."""
    browser.send("/samples/moons")
    body: dict[str, Any] = {"dataset_id": "latest", "model_name": "moons"}
    checked = {"validation": {"fraction": 0.25}, "calibration": "sigmoid"}
    for path, job in (
        ("/v1/jobs", {**body, "solver": {"name": "newton"}, **checked}),
        ("/v1/evaluations", {"dataset_id": "latest", "model": "moons", "importance": True}),
        (
            "/v1/comparisons",
            {"dataset_id": "latest", "grid": {"solver": [{"name": "newton"}], "C": [1.0]}},
        ),
    ):
        reply = client.post(path, json=job)
        assert reply.status_code == 202, reply.text
        assert worker.take_next_job()
    ids = [job["id"] for job in client.get("/v1/jobs").json()["jobs"]]
    version = "/models/moons/versions/1"
    pages = {
        model_versions: ["/", version, f"{version}/card", "/train?like=moons/1"],
        jobs: ["/", *(f"/jobs/{id}" for id in ids), f"/compare?jobs={ids[-1]}"],
    }
    failed: set[str] = set()
    tried = 0
    database = Database(settings.database_url)
    for table, name in COLUMNS:
        column = table.c[name]
        key = sa.tuple_(*table.primary_key.columns)
        with database.read() as connection:
            rows = connection.execute(sa.select(*table.primary_key.columns, column)).all()
        for *own, record in rows:
            here = table.update().where(key == tuple(own))
            for place, copy in without_one(record):
                if f"{name}{place}" in ALWAYS_THERE:
                    continue
                with database.write() as connection:
                    connection.execute(here.values({name: copy}))
                for page in pages[table]:
                    if page.startswith("/jobs/") and page != f"/jobs/{own[0]}":
                        continue
                    tried += 1
                    if client.get(page).status_code >= 500:
                        failed.add(f"{page} without {name}{place}")
            with database.write() as connection:
                connection.execute(here.values({name: record}))
    database.close()
    assert tried > 300
    assert sorted(failed) == []
