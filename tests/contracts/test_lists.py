"""However many rows there are: no list, filter or count reads or sorts all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa

from service.datasets.store import DatasetStore
from service.errors import NotFound
from service.jobs.core.lifecycle import State
from service.jobs.core.store import JobFilter, JobStore
from service.jobs.metrics import JobMetrics
from service.models.registry import ModelRegistry
from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.database.pages import Cursor, PageRequest
from service.storage.database.tables import models
from tests.backends import ON_ALL_BACKENDS
from tests.service.conftest import blobs, database

pytestmark = ON_ALL_BACKENDS
__all__ = ["blobs", "database"]

LABEL = ("team", "x")
FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "kind": {"kind": "train"},
    "state": {"state": State.FAILED},
    "model": {"model_name": "m"},
    "dataset": {"dataset_id": "ds_1"},
    "label": {"label": LABEL},
    "kind and state": {"kind": "train", "state": State.FAILED},
    "model and state": {"model_name": "m", "state": State.FAILED},
    "dataset and kind": {"dataset_id": "ds_1", "kind": "train"},
    "label and kind": {"label": LABEL, "kind": "train"},
}
Read = Callable[["Stores", PageRequest], object]


class Stores:
    """What lists come from."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.datasets = DatasetStore(database, blobs)
        self.jobs = JobStore(database, blobs, 10)
        self.models = ModelRegistry(database, blobs)
        self.metrics = JobMetrics(self.jobs, database)


def _jobs(filter: JobFilter) -> Read:
    return lambda stores, page: stores.jobs.page(filter, page)


LISTS: dict[str, Read] = {
    "datasets": lambda stores, page: stores.datasets.page(page),
    "datasets, label": lambda stores, page: stores.datasets.page(page, LABEL),
    "datasets, latest": lambda stores, _: stores.datasets.find("latest"),
    **{f"jobs, {name}": _jobs(JobFilter(**filter)) for name, filter in FILTERS.items()},
    "models": lambda stores, page: stores.models.page(page),
    "versions": lambda stores, page: stores.models.versions("m", page),
    "aliases": lambda stores, _: stores.models.aliases("m"),
}
UNFILTERED = ("datasets", "datasets, latest", "jobs, all", "models")
COUNTS: dict[str, Read] = {
    "counts": lambda stores, _: stores.jobs.counts(),
    "metrics": lambda stores, _: list(stores.metrics.collect()),
}


@pytest.fixture
def plans(database: Database, blobs: Blobs) -> Iterator[Callable[[Read, PageRequest], list[str]]]:
    """The steps by which a list's statements are carried out."""
    stores, seen = Stores(database, blobs), list[tuple[str, Any]]()
    with database.write() as connection:
        connection.execute(models.insert().values(name="m", created_at=0, last_version=0))

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        if statement.startswith("SELECT"):
            seen.append((statement, parameters))

    def steps(read: Read, page: PageRequest) -> list[str]:
        seen.clear()
        with suppress(NotFound):
            read(stores, page)
        statements = list(seen)
        assert statements
        with database.read() as connection:
            return [step for one in statements for step in _explained(connection, *one)]

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    yield steps
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


def _explained(connection: sa.Connection, statement: str, parameters: Any) -> list[str]:
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return [row[3] for row in rows]
    for avoidable in ("seqscan", "sort"):  # which suit tables with few rows
        connection.exec_driver_sql(f"SET LOCAL enable_{avoidable} = off")
    return [row[0] for row in connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)]


def _reads_all(step: str) -> bool:
    return (
        (step.startswith("SCAN") and "INDEX" not in step and "CONSTANT" not in step)
        or "TEMP B-TREE" in step
        or "Seq Scan" in step
        or "Sort  (" in step
    )


def _passes_over(step: str) -> bool:
    """Whether rows are read that the list does not show."""
    return step.startswith("SCAN") or "Filter:" in step


@pytest.mark.parametrize("name", LISTS)
def test_list_is_read_in_the_order_of_an_index(
    plans: Callable[[Read, PageRequest], list[str]], name: str
) -> None:
    """Its first page, and one after it; with a filter, that of the filter."""
    id: str | int = 1 if name == "versions" else "x"
    for page in (PageRequest(), PageRequest(after=Cursor(1.0, id))):
        steps = plans(LISTS[name], page)
        assert [step for step in steps if _reads_all(step)] == []
        if name not in UNFILTERED and " and " not in name:
            assert [step for step in steps if _passes_over(step)] == []


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_read_from_an_index(
    plans: Callable[[Read, PageRequest], list[str]], name: str
) -> None:
    """Never from the rows."""
    assert [step for step in plans(COUNTS[name], PageRequest()) if _reads_all(step)] == []
