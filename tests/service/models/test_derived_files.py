"""Derived files as rows and blobs, on each kind of database."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.models.derived.files import DerivedFiles
from service.models.registry import ModelRegistry
from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.database.tables import ModelOrigin, ModelVersion, datasets
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.rows import add_dataset
from tests.service.models.registered_models import RESULT, Source, fitted_pipeline

pytestmark = ON_ALL_BACKENDS


@pytest.fixture
def files(database: Database, blobs: Blobs) -> DerivedFiles:
    return DerivedFiles(database, blobs)


@pytest.fixture
def version(database: Database, blobs: Blobs) -> ModelVersion:
    registry = ModelRegistry(database, blobs)
    prepared = registry.files.prepare(fitted_pipeline(), None)
    with database.write() as connection:
        registry.register(
            connection,
            "iris",
            prepared,
            ModelOrigin(
                job_id="job_00000000000000000000000000000001",
                dataset_id=Source.id,
                dataset_digest=Source.matrix_digest,
                spec={},
                seed=1,
                result=RESULT,
            ),
        )
    return registry.get_version("iris", 1)


def keep(
    files: DerivedFiles, version: ModelVersion, name: str, dataset_id: str | None = None
) -> None:
    with files.blobs.temporary() as path:
        Path(path).write_text(f"content of {name}")
        files.keep(version, name, path, dataset_id=dataset_id, about={"rows": 3})


def test_stored_file_is_found(files: DerivedFiles, version: ModelVersion) -> None:
    """With its facts; another name is not found."""
    keep(files, version, "a.svg")
    file = files.find(version, "a.svg")
    assert file is not None
    assert file.about == {"rows": 3}
    content = files.open(file)
    assert content is not None
    with content:
        assert content.read() == b"content of a.svg"
    assert files.find(version, "b.svg") is None


def test_of_two_equal_files_one_is_kept(files: DerivedFiles, version: ModelVersion) -> None:
    """Replicas can render the same file at once; the second file is deleted."""
    keep(files, version, "a.svg")
    keep(files, version, "a.svg")
    file = files.find(version, "a.svg")
    assert file is not None
    assert list(files.blobs.keys("derived")) == [file.file_key]


def test_files_are_deleted_with_their_data(
    files: DerivedFiles, version: ModelVersion, database: Database
) -> None:
    """Only files that show the data; later ones are not stored."""
    dataset_id = add_dataset(database)
    keep(files, version, "shows.svg", dataset_id)
    keep(files, version, "without.svg")
    with database.write() as connection:
        connection.execute(datasets.delete().where(datasets.c.id == dataset_id))
    keep(files, version, "late.svg", dataset_id)
    names = ("shows.svg", "without.svg", "late.svg")
    assert [files.find(version, name) is not None for name in names] == [False, True, False]


def test_files_are_deleted_with_their_version(
    files: DerivedFiles, version: ModelVersion, database: Database
) -> None:
    """A model can be deleted while its file is rendered."""
    keep(files, version, "a.svg")
    ModelRegistry(database, files.blobs).delete_version("iris", 1)
    assert files.find(version, "a.svg") is None
    keep(files, version, "b.svg")
    assert files.find(version, "b.svg") is None
