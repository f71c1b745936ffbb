"""However many rows there are: no list, filter or count reads or sorts all of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from benchmarks.lists import BUSY, fill
from service.datasets.store import BY, DatasetStore
from service.jobs.core.job import State
from service.jobs.core.metrics import JobMetrics
from service.jobs.core.store import JobFilter, JobStore
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.blobs import Blobs, open_blobs
from service.storage.database import Database
from service.storage.database.audit import AuditLog, ChangeFilter
from service.storage.database.pages import Cursor, PageRequest
from tests.backends import emptied

ROWS = 1200
"""Of each table; a tag of this many rows is a common one."""
DATASET = f"ds_{7:032x}"
FEW, ALL = ("team", "t7"), ("project", "churn")
FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "kind": {"kind": "compare"},
    "state": {"state": State.FAILED},
    "model": {"model_name": BUSY},
    "dataset": {"dataset_id": DATASET},
    "tag of few": {"tag": FEW},
    "tag of all": {"tag": ALL},
    "kind and state": {"kind": "train", "state": State.FAILED},
    "model and state": {"model_name": BUSY, "state": State.FAILED},
    "dataset and kind": {"dataset_id": DATASET, "kind": "train"},
    "tag of few and kind": {"tag": FEW, "kind": "train"},
    "tag of all and kind": {"tag": ALL, "kind": "train"},
}
Read = Callable[["Stores", PageRequest], object]


CHANGES = {
    "all": ChangeFilter(),
    "key": ChangeFilter(key="key_1"),
    "name": ChangeFilter(key="ci"),
    "action": ChangeFilter(action="key.revoke"),
    "model": ChangeFilter(resource="models/iris"),
    "time": ChangeFilter(since=1e9, until=2e9),
    "alias and key": ChangeFilter(resource="models/iris/aliases/champion", key="ci"),
}


class Stores:
    """What lists come from."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self.datasets = DatasetStore(database, blobs)
        self.jobs = JobStore(database, blobs, 10)
        self.models = ModelRegistry(database, blobs)
        self.audit = AuditLog(database)
        self.metrics = JobMetrics(self.jobs, database)


def _jobs(filter: JobFilter) -> Read:
    return lambda stores, page: stores.jobs.page(filter, page)


def _ascending(page: PageRequest) -> PageRequest:
    return replace(page, ascending=True)


def _changes(filter: ChangeFilter) -> Read:
    return lambda stores, page: stores.audit.page(filter, page)


LISTS: dict[str, Read] = {
    "datasets": lambda stores, page: stores.datasets.page(page),
    "datasets, oldest first": lambda stores, page: stores.datasets.page(_ascending(page)),
    "datasets, part of a name": lambda stores, page: stores.datasets.page(page, name="clouds"),
    "datasets, tag of few": lambda stores, page: stores.datasets.page(page, FEW),
    "datasets, tag of all": lambda stores, page: stores.datasets.page(page, ALL),
    "datasets, latest": lambda stores, _: stores.datasets.find("latest"),
    **{f"jobs, {name}": _jobs(JobFilter(**filter)) for name, filter in FILTERS.items()},
    "jobs, part of a name": _jobs(JobFilter(name="busy")),
    "models": lambda stores, page: stores.models.page(page),
    "models, part of a name": lambda stores, page: stores.models.page(page, BUSY),
    "models, by name": lambda stores, page: stores.models.page(replace(page, by="name")),
    "versions": lambda stores, page: stores.models.versions(BUSY, page),
    "aliases": lambda stores, _: stores.models.aliases(BUSY),
    **{f"changes, {name}": _changes(filter) for name, filter in CHANGES.items()},
}
UNFILTERED = (
    *("datasets", "datasets, latest", "datasets, oldest first", "jobs, all"),
    *("models", "models, by name", "changes, all"),
)
SEARCHED = ", part of a name"
"""Of the newest rows of a fixed number, those are read that the list does not show."""
COUNTS: dict[str, Read] = {
    "counts": lambda stores, _: stores.jobs.counts(),
    "metrics": lambda stores, _: list(stores.metrics.collect()),
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, migrated: Path
) -> Iterator[Database]:
    """With many rows, and with statistics of them: a planner that has none may guess anything."""
    file = shutil.copy(migrated, tmp_path_factory.mktemp("lists"))
    if request.param == "sqlite":
        yield from _filled(f"sqlite:///{file}")
    else:
        with emptied(request.getfixturevalue("postgres_url")) as url:
            yield from _filled(url)


def _filled(url: str) -> Iterator[Database]:
    database = Database(url)
    assert fill(database, ROWS) == DATASET
    if url.startswith("postgresql"):
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            # Rows of other tests have left long indexes, whose costs are others.
            connection.exec_driver_sql("VACUUM FULL")
            connection.exec_driver_sql("VACUUM ANALYZE")  # as it does by itself, within a minute
    yield database
    database.close()


@pytest.fixture(scope="module")
def stores(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    blobs = open_blobs(Settings(data_dir=tmp_path_factory.mktemp("files")))
    return Stores(database, blobs)


@pytest.fixture
def plans(database: Database, stores: Stores) -> Iterator[Callable[[Read, PageRequest], list[str]]]:
    """The steps by which a list's statements are carried out."""
    seen = list[tuple[str, Any]]()

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        if statement.startswith("SELECT"):
            seen.append((statement, parameters))

    def steps(read: Read, page: PageRequest) -> list[str]:
        seen.clear()
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
        or ("Sort  (" in step and "Incremental" not in step)  # of equal ones
    )


def _passes_over(step: str) -> bool:
    """Whether rows are read that the list does not show. A model is read by its name, deleted or
    not."""
    return step.startswith("SCAN") or ("Filter:" in step and "deleted_at" not in step)


@pytest.mark.parametrize("name", LISTS)
def test_list_is_read_in_the_order_of_an_index(
    plans: Callable[[Read, PageRequest], list[str]], name: str
) -> None:
    """Its first page, and one after it; with a filter, that of the filter."""
    middle: Cursor = (ROWS // 2, "x")
    if name == "versions":
        middle = (1,)
    elif name == "models, by name":
        middle = ("x",)
    elif name == "changes, time":
        middle = (1e9 + ROWS / 2, "x")
    for page in (PageRequest(), PageRequest(after=middle)):
        steps = plans(LISTS[name], page)
        assert [step for step in steps if _reads_all(step)] == []
        if name not in UNFILTERED and " and " not in name and not name.endswith(SEARCHED):
            assert [step for step in steps if _passes_over(step)] == []


@pytest.mark.parametrize("by", BY)
def test_data_in_another_order_are_the_newest(
    plans: Callable[[Read, PageRequest], list[str]], by: str
) -> None:
    """Those are sorted, of a fixed number: no step reads all."""
    after: Cursor = ("clouds" if by == "name" else 3, ROWS // 2, "x")
    for page in (PageRequest(by=by), PageRequest(by=by, after=after)):
        steps = plans(lambda stores, page: stores.datasets.page(page), page)
        read = [one for one in steps if _reads_all(one)]
        assert [one for one in read if "TEMP B-TREE" not in one and "Sort  (" not in one] == []


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_read_from_an_index(
    plans: Callable[[Read, PageRequest], list[str]], name: str
) -> None:
    """Never from the rows."""
    assert [step for step in plans(COUNTS[name], PageRequest()) if _reads_all(step)] == []


OF_COLUMNS = {"statistics", "columns", "table", "ignored", "reading"}
"""A thousand columns are 100 kB of each row."""


@pytest.mark.parametrize("name", [name for name in LISTS if name.startswith("datasets")])
def test_list_of_data_reads_nothing_of_columns(stores: Stores, name: str) -> None:
    """Of each row, that is; `latest` is one dataset, not a list."""
    read = set[str]()

    def note(_: object, cursor: Any, statement: str, *___: object) -> None:
        if statement.startswith("SELECT"):
            read.update(column[0] for column in cursor.description)

    sa.event.listen(sa.Engine, "after_cursor_execute", note)
    try:
        LISTS[name](stores, PageRequest())
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", note)
    assert read & OF_COLUMNS == (OF_COLUMNS if name == "datasets, latest" else set())
