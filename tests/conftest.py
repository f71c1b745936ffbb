"""The real application on real files, as every room's tests use it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.app import create_app
from service.datasets.parsing.parser import Parser
from service.settings import Settings
from service.storage.database import Database
from tests.backends import backend, postgres_database_url, postgres_url, s3, s3_url

__all__ = ["backend", "postgres_database_url", "postgres_url", "s3", "s3_url"]

# A busy machine is no failure: pytest's own time limit is enough.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shared",
        action="store_true",
        help="keep rows and files in PostgreSQL and S3 instead of SQLite and a directory",
    )


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


@pytest.fixture
def settings(tmp_path: Path, backend: dict[str, str], migrated: Path) -> Settings:
    """A data directory of its own, and no engine: jobs stay queued."""
    settings = Settings(data_dir=tmp_path / "var", workers=0)
    settings.data_dir.mkdir()
    shutil.copyfile(migrated, settings.data_dir / "service.db")
    return settings.model_copy(update=backend)


@pytest.fixture(scope="session")
def shared_parser() -> Iterator[Parser]:
    """Its processes are started once for all applications of the tests."""
    parser = Parser()
    yield parser
    parser.close()


@pytest.fixture
def no_other_readers(shared_parser: Parser) -> None:
    """For tests that look at the processes of a parser of their own."""
    shared_parser.close()


@pytest.fixture
def app(settings: Settings, shared_parser: Parser) -> FastAPI:
    return create_app(settings, shared_parser=shared_parser)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """Speaks to the running application in this process."""
    with TestClient(app) as client:
        yield client


@pytest.fixture(scope="session")
def compiled(pytestconfig: pytest.Config) -> Iterator[None]:
    """Loops are compiled once for all engines of the tests, and kept for the next run."""
    assert pytestconfig.cache is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(pytestconfig.cache.mkdir("numba")))
        yield
