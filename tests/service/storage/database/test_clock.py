"""Lists, `latest` and the queue have the order of insertion, whatever the clock says."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.common.keys import Keys
from service.jobs.core.leases import waiting_jobs
from service.models.versions import next_version
from service.storage.database import Database
from service.storage.database.tables import jobs, metadata
from tests.backends import ON_ALL_BACKENDS

# Keys of its own must not make callers need one.
pytestmark = [ON_ALL_BACKENDS, pytest.mark.one_application(auth="off")]


def _work(client: TestClient, database: Database, name: str) -> None:
    content = f"{name},k\n1,a\n2,b\n"
    uploaded = client.post("/v1/datasets", content=content, headers={"Content-Type": "text/csv"})
    path, tags = f"/v1/datasets/{uploaded.json()['id']}", {"team": "x", "name": name}
    assert client.patch(path, json={"name": name, "tags": tags}).status_code == 200
    job = {
        "dataset_id": "latest",
        "solver": {"name": "newton", "C": 1},
        "model_name": name,
        "tags": tags,
    }
    queued = client.post("/v1/jobs", json=job)
    assert queued.status_code == 202, queued.text
    with database.write() as connection:
        next_version(connection, name)
    Keys(database).create(name, ["read"])


def _set_clock_back(database: Database) -> None:
    """By an hour, seen from the rows."""
    with database.write() as connection:
        for table in metadata.sorted_tables:
            times = [column for column in table.c if column.name.endswith("_at")]
            if times:
                connection.execute(table.update().values({each: each + 3600 for each in times}))


def test_order_does_not_depend_on_the_clock(client: TestClient, database: Database) -> None:
    """Of lists, with a filter and without, and on their second page, too."""
    _work(client, database, "first")
    _set_clock_back(database)
    _work(client, database, "second")
    assert client.get("/v1/datasets/latest").json()["name"] == "second"
    for query in ("datasets?", "datasets?tag=team=x&", "jobs?", "jobs?tag=team=x&", "models?"):
        kind = query.partition("?")[0]
        listed, token = [], ""
        for _ in range(2):
            page = client.get(f"/v1/{query}page_size=1{token}").json()
            listed += [item.get("tags", item)["name"] for item in page[kind]]
            token = f"&page_token={page['next_page_token']}"
        assert listed == ["second", "first"], query
    changes = client.get("/v1/audit").json()["changes"]
    actions = ["dataset.create", "dataset.update", "job.create", "key.create"]
    assert [change["action"] for change in changes] == 2 * actions[::-1]
    assert [key.name for key in Keys(database).all()] == ["first", "second"]


def test_queue_does_not_depend_on_the_clock(client: TestClient, database: Database) -> None:
    """The job that was queued first starts first; jobs of one request in its order."""
    _work(client, database, "first")
    _set_clock_back(database)
    _work(client, database, "second")
    job = {"dataset_id": "latest", "solver": {"name": "newton", "C": 1}}
    batch = {"jobs": [{**job, "model_name": name} for name in ("third", "fourth")]}
    assert client.post("/v1/jobs:batch", json=batch).is_success
    _, ids = waiting_jobs(running_per_caller=None)
    names = dict[str, str]()
    with database.read() as connection:
        for row in connection.execute(sa.select(jobs.c.id, jobs.c.model_name)):
            names[row.id] = row.model_name
        order = [names[job_id] for job_id in connection.scalars(ids)]
    assert order == ["first", "second", "third", "fourth"]
