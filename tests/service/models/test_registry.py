from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from service.errors import Conflict, Corrupt, InvalidContent, NotFound, ServiceError
from service.jobs.core.store import JobStore
from service.models.files import SMALL_BYTES
from service.storage.database.pages import PageRequest
from service.storage.database.tables import IN_ROWS, Alias, ModelOrigin, model_files
from service.storage.ownership import sweep
from tests.backends import ON_ALL_BACKENDS
from tests.service.changes import reported
from tests.service.jobs.rows import add_dataset, queue
from tests.service.models.registered_models import RESULT, RegisteredModels, Source, fitted_pipeline

pytestmark = ON_ALL_BACKENDS


def anything(_: Alias | None) -> None:
    """A precondition that always holds."""


def test_versions_are_numbered_from_one(registered: RegisteredModels) -> None:
    """Each model has its own numbers."""
    assert [registered.add("iris").version for _ in range(3)] == [1, 2, 3]
    assert registered.add("digits").version == 1


def test_workers_that_end_together_get_different_numbers(registered: RegisteredModels) -> None:
    """Four threads, ten times each, beginning with a new model."""
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: registered.add("iris").version, range(40)))
    assert sorted(made) == list(range(1, 41))


def test_version_stores_its_origin(registered: RegisteredModels) -> None:
    """Lineage, result and both digests are in the row."""
    fitted = fitted_pipeline(("a", "b"))
    version = registered.add("iris", fitted, columns=["x", "y", "z"])
    assert (version.job_id, version.dataset_id) == ("job_" + "1".zfill(32), Source.id)
    assert (version.dataset_digest, version.seed) == (Source.matrix_digest, 42)
    assert (version.result, version.columns) == (RESULT, ["x", "y", "z"])
    assert (version.classes, version.n_features) == (["a", "b"], 3)
    assert version.size_bytes == len(registered.content(version))


def test_equal_models_have_equal_digests(registered: RegisteredModels) -> None:
    """The digest is of the content; the files are different."""
    first, second = registered.add("iris"), registered.add("digits")
    other = registered.add("iris", fitted_pipeline(seed=1))
    assert first.digest == second.digest != other.digest
    assert first.artifact_key != second.artifact_key


def test_register_is_part_of_the_callers_transaction(registered: RegisteredModels) -> None:
    """If it rolls back, there is no version and no alias, and no number is skipped."""
    registered.add("iris")
    prepared = registered.registry.files.prepare(fitted_pipeline(), None)

    def fail_after_registering() -> None:
        with registered.database.write() as connection:
            registered.registry.register(
                connection,
                "iris",
                prepared,
                ModelOrigin(
                    job_id="job_1",
                    dataset_id=Source.id,
                    dataset_digest=Source.matrix_digest,
                    spec={},
                    seed=0,
                    result={},
                ),
                set_alias="default",
            )
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_registering()
    assert registered.registry.get("iris").latest_version == 1
    assert registered.registry.aliases("iris") == []
    assert registered.add("iris").version == 2


def test_numbers_are_never_used_again(registered: RegisteredModels) -> None:
    """Not after a version or the whole model was deleted."""
    registered.add("iris")
    registered.registry.delete_version("iris", registered.add("iris").version)
    assert registered.add("iris").version == 3
    registered.registry.delete("iris")
    with pytest.raises(NotFound):
        registered.registry.get("iris")
    assert registered.add("iris").version == 4
    assert registered.registry.get("iris").latest_version == 4


def test_files_are_deleted_with_their_version(registered: RegisteredModels) -> None:
    """Deleting a version or a model removes their files, and no others."""
    versions = [registered.add("iris") for _ in range(3)]
    other = registered.add("digits")
    registered.registry.delete_version("iris", 2)
    assert [registered.has_file(version) for version in versions] == [True, False, True]
    registered.registry.delete("iris")
    assert not any(registered.has_file(version) for version in versions)
    assert registered.has_file(other)


def test_reference_finds_its_version(registered: RegisteredModels) -> None:
    """By number, alias, or `latest`; without one, the alias `default`, else the latest."""
    for _ in range(3):
        registered.add("iris")
    get = registered.registry.get_version
    assert get("iris").version == 3
    registered.registry.set_alias("iris", "default", 1, anything)
    registered.registry.set_alias("iris", "candidate", 2, anything)
    assert get("iris").version == 1
    assert get("iris", "candidate").version == 2
    assert get("iris", "latest").version == 3
    assert get("iris", 2).version == 2


@pytest.mark.parametrize("reference", [None, 9, "candidate", "latest", "default"])
def test_unknown_reference_is_not_found(
    registered: RegisteredModels, reference: int | str | None
) -> None:
    """An unknown model, an empty model, an unknown version or alias."""
    with pytest.raises(NotFound):
        registered.registry.get_version("unknown", reference)
    registered.add("iris")
    registered.registry.delete_version("iris", 1)
    with pytest.raises(NotFound):
        registered.registry.get_version("iris", reference)


def test_alias_keeps_its_version_from_deletion(registered: RegisteredModels) -> None:
    """A version or model in use stays; forcing a model's deletion takes the aliases along."""
    version = registered.add("iris", set_alias="default")
    with pytest.raises(Conflict, match="resource-in-use"):
        registered.registry.delete_version("iris", 1)
    with pytest.raises(Conflict, match="resource-in-use"):
        registered.registry.delete("iris")
    assert registered.has_file(version)
    registered.registry.delete("iris", force=True)
    registered.add("iris")
    assert registered.registry.aliases("iris") == []


def test_alias_points_only_to_sound_versions(registered: RegisteredModels) -> None:
    """Not to one that does not exist or whose file is damaged."""
    with pytest.raises(NotFound):
        registered.registry.set_alias("iris", "default", 1, anything)
    damaged = registered.add("iris")
    with pytest.raises(InvalidContent, match="version 2"):
        registered.registry.set_alias("iris", "default", 2, anything)
    registered.replace_file(damaged, b"")
    with pytest.raises(Corrupt):
        registered.registry.files.load(damaged)
    with pytest.raises(Conflict, match="invalid-state"):
        registered.registry.set_alias("iris", "default", 1, anything)


def truncate(content: bytes) -> bytes:
    return content[:-3]


def flip_a_bit(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def remove(_: bytes) -> None:
    return None


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, remove])
def test_damaged_version_is_quarantined(
    registered: RegisteredModels, damage: Callable[[bytes], bytes | None]
) -> None:
    """It is refused, even if the file is restored; other versions can be loaded."""
    version, other = registered.add("iris"), registered.add("iris")
    content = registered.content(version)
    registered.replace_file(version, damage(content))
    with pytest.raises(Corrupt, match="model-corrupt"):
        registered.registry.files.load(version)
    registered.replace_file(version, content)
    version = registered.registry.get_version("iris", 1)
    assert version.quarantined_at is not None
    for refused in (registered.registry.files.load, registered.registry.files.open_artifact):
        with pytest.raises(Corrupt, match="model-corrupt"):
            refused(version)
    assert registered.registry.files.load(other).n_features == 3


def test_version_deleted_during_load_is_not_found(registered: RegisteredModels) -> None:
    """A missing file of a deleted version is not damage."""
    version = registered.add("iris")
    registered.registry.delete_version("iris", 1)
    registered.replace_file(version, None)
    with pytest.raises(NotFound):
        registered.registry.files.load(version)


def test_one_of_many_threads_moves_an_alias(registered: RegisteredModels) -> None:
    """If all threads have read the same alias, exactly one moves it."""
    n = 8
    for _ in range(n):
        registered.add("iris")
    seen = registered.registry.set_alias("iris", "default", 1, anything)
    start = threading.Barrier(n)
    won: list[int] = []

    def move(version: int) -> None:
        def unmoved(present: Alias | None) -> None:
            if present != seen:
                raise ServiceError("precondition-failed", "moved")

        start.wait()
        try:
            registered.registry.set_alias("iris", "default", version, unmoved)
        except ServiceError:
            return
        won.append(version)

    threads = [threading.Thread(target=move, args=(version,)) for version in range(1, n + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [registered.registry.alias("iris", "default").version] == won
    assert registered.registry.alias("iris", "default").revision == 2


def test_pages_are_newest_first(registered: RegisteredModels) -> None:
    """Inserts do not change the pages of models and versions."""
    for _ in range(5):
        registered.add("iris")
    first = registered.registry.versions("iris", PageRequest(3))
    registered.add("iris")
    second = registered.registry.versions("iris", PageRequest(3, first.next))
    assert [v.version for v in first.items + second.items] == [5, 4, 3, 2, 1]
    registered.add("digits", set_alias="default")
    models = registered.registry.page(PageRequest(10)).items
    assert [(model.name, model.latest_version) for model in models] == [("digits", 1), ("iris", 6)]
    assert models[0].aliases == {"default": 1}


@pytest.mark.parametrize(
    "spec", [{"warm_start_from": "iris/1"}, {"model": {"name": "iris", "version": 1}}]
)
def test_version_of_a_queued_job_is_not_deleted(
    registered: RegisteredModels, spec: dict[str, Any]
) -> None:
    """Nor its model: the version of a warm start, or the version that the job predicts with."""
    registered.add("iris")
    registered.add("iris")
    jobs = JobStore(registered.database, registered.blobs, queue_limit=10)
    job = queue(jobs, add_dataset(registered.database), spec=spec, needs_version=("iris", 1))
    with pytest.raises(Conflict, match=job.id):
        registered.registry.delete_version("iris", 1)
    with pytest.raises(Conflict, match=job.id):
        registered.registry.delete("iris", force=True)
    registered.registry.delete_version("iris", 2)
    jobs.cancel(job.id, keep_model=False)
    registered.registry.delete("iris")


def test_version_of_a_warm_start_is_used_or_deleted(registered: RegisteredModels) -> None:
    """If a job is queued and the version deleted at once, one of the two is refused."""
    jobs = JobStore(registered.database, registered.blobs, queue_limit=100)
    dataset_id = add_dataset(registered.database)
    for _ in range(8):
        version = registered.add("iris").version
        start: dict[str, Any] = {
            "spec": {"warm_start_from": f"iris/{version}"},
            "needs_version": ("iris", version),
        }
        with ThreadPoolExecutor(2) as threads:
            futures = (
                threads.submit(queue, jobs, dataset_id, **start),
                threads.submit(registered.registry.delete_version, "iris", version),
            )
        refusals = [error for future in futures if (error := future.exception()) is not None]
        assert [type(error) for error in refusals] in ([Conflict], [NotFound])


def test_warm_start_files_are_deleted_with_their_version(registered: RegisteredModels) -> None:
    """Their arrays are the same after a load, and the sweep keeps them."""
    arrays = {"steps": np.array([3, 4]), "rows": np.empty(0, dtype=np.int64)}
    versions = [registered.add("iris", warm_start=arrays) for _ in range(3)]
    assert registered.add("iris").warm_start_key is None
    loaded = registered.registry.files.load_warm_start(versions[0])
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array, strict=True)
    keys = [version.warm_start_key for version in versions]
    sweep(registered.database, registered.blobs, min_age_s=0)
    assert set(keys) <= set(registered.blobs.keys())
    registered.registry.delete_version("iris", 1)
    assert keys[0] not in list(registered.blobs.keys())
    registered.registry.delete("iris")
    assert not set(keys) & set(registered.blobs.keys())


def test_small_files_of_a_training_are_stored_with_their_row(registered: RegisteredModels) -> None:
    """They load as from files, a damaged one is noticed, and they are deleted with the version.
    Larger ones are files."""
    arrays, fitted = {"steps": np.array([3, 4])}, fitted_pipeline()
    large = {"steps": np.zeros(SMALL_BYTES // 8)}
    for warm_start in (arrays, large):
        registered.add("iris", fitted, warm_start=warm_start, small_in_rows=True)
    files, first = registered.registry.files, registered.registry.get_version("iris", 1)
    second = registered.registry.get_version("iris", 2)
    of_models = ("models", "warm-starts", IN_ROWS)
    stored = [key for key in list(registered.blobs.keys()) if key.startswith(of_models)]
    assert stored == [second.warm_start_key]
    with files.open_artifact(first) as file:
        content = os.pread(file.fileno(), first.size_bytes + 1, 0)
    assert hashlib.sha256(content).hexdigest() == first.artifact_sha256
    for version, expected in ((first, arrays), (second, large)):
        np.testing.assert_array_equal(
            files.load(version).coefficients, fitted.coefficients, strict=True
        )
        steps = files.load_warm_start(version)["steps"]
        np.testing.assert_array_equal(steps, expected["steps"], strict=True)
    with registered.database.write() as connection:
        of_first = model_files.c.version == 1
        connection.execute(model_files.update().where(of_first).values(content=b"damaged"))
    for read in (files.load_warm_start, files.open_artifact, files.load):
        with pytest.raises(Corrupt):
            read(first)
    registered.registry.delete_version("iris", 1)
    registered.registry.delete("iris")
    with registered.database.read() as connection:
        assert connection.execute(sa.select(model_files)).all() == []


def test_index_has_the_same_order_on_every_database(registered: RegisteredModels) -> None:
    """By code points, then by number, with the damaged files."""
    for name in ("b", "a2", "a-b", "ab", "a", "a"):
        version = registered.add(name)
    registered.replace_file(version, b"")
    with pytest.raises(Corrupt):
        registered.registry.files.load(version)
    rows = [tuple(row) for batch in registered.registry.index() for row in batch]
    names = [("a", 1, True), ("a", 2, False), ("a-b", 1, True), ("a2", 1, True), ("ab", 1, True)]
    assert rows == [*names, ("b", 1, True)]


def test_every_change_of_a_model_is_reported(registered: RegisteredModels) -> None:
    """Only of this model; refused changes and reads are not reported."""
    registry = registered.registry
    file = registry.files.prepare(fitted_pipeline(), None)

    def damage_and_load() -> None:
        version = registry.get_version("iris", 2)
        registered.replace_file(version, b"")
        with pytest.raises(Corrupt):
            registry.files.load(version)

    def refuse() -> None:
        with pytest.raises(Conflict):
            registry.delete("iris")

    changes: list[tuple[Callable[[], object], set[str]]] = [
        (lambda: registered.add("digits"), {"digits"}),
        (lambda: registered.add("iris", set_alias="default"), {"iris"}),
        (lambda: registry.add_imported(file, "iris", {}), {"iris"}),
        (lambda: registry.set_alias("iris", "default", 2, anything), {"iris"}),
        (refuse, set()),
        (lambda: registry.get("iris"), set()),
        (lambda: registry.delete_version("iris", 1), {"iris"}),
        (damage_and_load, {"iris"}),
        (lambda: registry.remove_alias("iris", "default", anything), {"iris"}),
        (lambda: registry.delete("iris"), {"iris"}),
    ]
    reported(registered.database)
    for change, names in changes:
        change()
        assert reported(registered.database) == names
