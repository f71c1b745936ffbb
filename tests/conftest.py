"""The real application on real files, as every room's tests use it."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
import structlog
from starlette.testclient import TestClient

from service.app import create_app
from service.app.application import Application
from service.jobs.engine import compiling
from service.rows.parser import Parser
from service.settings import Settings
from service.storage.database import Database
from service.storage.machine_code import keep_machine_code, machine_code_folder
from tests.backends import backend, forget, postgres_database_url, postgres_url, s3, s3_url
from tests.journeys import server as real

__all__ = ["backend", "postgres_database_url", "postgres_url", "s3", "s3_url"]

# Until all tests are collected nothing is garbage, and to look for it takes a third of the time.
gc.disable()
# A busy machine is no failure: pytest's own time limit is enough. With a seed, the same examples.
hypothesis.settings.register_profile("suite", deadline=None, derandomize="FUZZ_SEED" in os.environ)
hypothesis.settings.load_profile("suite")
MEMORY, NEEDED_BYTES = Path("/dev/shm"), 6 << 30
"""Files of tests are in memory if there is room: tens of thousands of times a disk would have to
confirm a write. Kills of processes lose nothing there either."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shared",
        action="store_true",
        help="keep rows and files in PostgreSQL and S3 instead of SQLite and a directory",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Loops are compiled once for all processes of the tests, and kept for the next run: without
    a cache of pytest (`-p no:cacheprovider`) in that of the user."""
    cache = getattr(config, "cache", None)
    if cache is not None:
        os.environ["NUMBA_CACHE_DIR"] = str(machine_code_folder(cache.mkdir("loops") / "numba"))
    else:
        keep_machine_code(Path(tempfile.gettempdir()))
    if config.getoption("numprocesses", None) and not compiling.is_complete():
        # Or each process would compile the same loops and the same tests.
        loops = subprocess.Popen(
            [sys.executable, "-c", f"from {compiling.__name__} import run; run()"]
        )
        collect = ["pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *config.args]
        subprocess.run([sys.executable, "-m", *collect], stdout=subprocess.DEVNULL)
        loops.wait()
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > NEEDED_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark cases beyond a `spread` as `long`. Rooms with long files come first: at the end no
    process works alone."""
    seen: Counter[str] = Counter()
    for item in items:
        if (spread := item.get_closest_marker("spread")) is not None:
            function = item.nodeid.partition("[")[0]
            if seen[function] % spread.args[0]:
                item.add_marker("long")
            seen[function] += 1
    folders = ("torture", "journeys", "docs", "engine", "operations", "client", "cli", "jobs")

    def rank(item: pytest.Item) -> int:
        return min((folders.index(part) for part in item.path.parts if part in folders), default=9)

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Thousands of collected tests: full collections of garbage need not look at them."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Modules in C complain at the end of what is still there, and frozen objects stay."""
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="session")
def plain_logs() -> None:
    """Log through the standard library, where pytest catches it and shows it with a failure."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database with all tables, empty. A copy is there sooner than a migrated one."""
    path = tmp_path_factory.mktemp("migrated") / "service.db"
    database = Database(f"sqlite:///{path}")
    database.migrate()
    database.close()
    return path


@pytest.fixture(scope="session")
def shared_parser() -> Iterator[Parser]:
    """Its processes are started once for all applications of the tests."""
    parser = Parser()
    yield parser
    parser.close()


@pytest.fixture(scope="session")
def server_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[real.Server]:
    """A service in its own process, for all tests that do not stop it."""
    with real.running(tmp_path_factory.mktemp("service") / "var", SVM_WORKERS="1") as server:
        yield server


@pytest.fixture(scope="module")
def server(server_of_session: real.Server) -> Iterator[real.Server]:
    """The same, without rows or files of other modules."""
    yield server_of_session
    forget(Settings(data_dir=server_of_session.data_dir))


@pytest.fixture
def no_other_readers(shared_parser: Parser) -> None:
    """For tests that look at the processes of a parser of their own."""
    shared_parser.close()


@dataclass(frozen=True)
class Running:
    """An application that serves several tests."""

    settings: Settings
    app: Application
    client: TestClient

    def forget(self) -> None:
        """The next test finds a new service."""
        forget(self.settings)
        self.client.cookies.clear()


@pytest.fixture(scope="module")
def settings_of_module(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, migrated: Path
) -> Settings:
    """For what is shared by the tests of a module that is marked with `one_application`: always
    with SQLite and a directory."""
    return new_settings(tmp_path_factory.mktemp("module"), migrated, request.node)


@pytest.fixture(scope="module")
def application_of_module(settings_of_module: Settings, shared_parser: Parser) -> Iterator[Running]:
    """Stays while the tests of a module come and go: to build one costs more than most of them."""
    app = create_app(settings_of_module, shared_parser=shared_parser)
    with TestClient(app) as client:
        yield Running(settings_of_module, app, client)


@pytest.fixture
def running(request: pytest.FixtureRequest, backend: dict[str, str]) -> Iterator[Running | None]:
    """The application of a module that is marked with `one_application`, without rows or files."""
    if request.node.get_closest_marker("one_application") is None or backend:
        yield None
        return
    running: Running = request.getfixturevalue("application_of_module")
    yield running
    running.forget()


def new_settings(folder: Path, migrated: Path, node: pytest.Item | pytest.Module) -> Settings:
    """A data directory of its own, and no engine: jobs stay queued. The mark
    `one_application` can override settings."""
    mark = node.get_closest_marker("one_application")
    changes = {} if mark is None else mark.kwargs
    settings = Settings(data_dir=folder / "var", workers=0, **changes)
    settings.data_dir.mkdir()
    shutil.copyfile(migrated, settings.data_dir / "service.db")
    return settings


@pytest.fixture
def settings(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    backend: dict[str, str],
    migrated: Path,
    running: Running | None,
) -> Settings:
    if running is not None:
        return running.settings
    return new_settings(tmp_path, migrated, request.node).model_copy(update=backend)


@pytest.fixture
def app(settings: Settings, shared_parser: Parser, running: Running | None) -> Application:
    """The module's, or one of its own for a test with settings of its own."""
    if running is not None and settings == running.settings:
        return running.app
    return create_app(settings, shared_parser=shared_parser)


@pytest.fixture
def client(app: Application, running: Running | None) -> Iterator[TestClient]:
    """Speaks to the running application in this process."""
    if running is not None and app is running.app:
        yield running.client
        return
    with TestClient(app) as client:
        yield client
