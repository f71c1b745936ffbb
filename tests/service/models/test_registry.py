from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from service.errors import Conflict, Corrupt, InvalidContent, NotFound, ServiceError
from service.jobs.core.store import JobStore
from service.models.aliases import Alias
from service.storage.database.pages import PageRequest
from service.storage.sweep import sweep
from tests.backends import ON_ALL_BACKENDS
from tests.service.changes import reported
from tests.service.jobs.rows import add_dataset, queue
from tests.service.models.registered_models import RESULT, Shelf, Source, fitted_pipeline

pytestmark = ON_ALL_BACKENDS


def anything(_: Alias | None) -> None:
    """A precondition that always holds."""


def test_versions_are_numbered_from_one(shelf: Shelf) -> None:
    """Each model counts its own versions."""
    assert [shelf.add("iris").version for _ in range(3)] == [1, 2, 3]
    assert shelf.add("digits").version == 1


def test_workers_that_end_together_get_different_numbers(shelf: Shelf) -> None:
    """Four at once, ten times each, beginning with a model that is not there yet."""
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: shelf.add("iris").version, range(40)))
    assert sorted(made) == list(range(1, 41))


def test_version_tells_where_it_comes_from(shelf: Shelf) -> None:
    """Lineage, result and the two digests stand in the row."""
    fitted = fitted_pipeline(("a", "b"))
    version = shelf.add("iris", fitted, columns=["x", "y", "z"])
    assert (version.job_id, version.dataset_id) == ("job_" + "1".zfill(32), Source.id)
    assert (version.dataset_digest, version.seed) == (Source.matrix_digest, 42)
    assert (version.result, version.columns) == (RESULT, ["x", "y", "z"])
    assert (version.classes, version.n_features) == (["a", "b"], 3)
    assert version.size_bytes == len(shelf.content(version))


def test_equal_models_have_equal_digests(shelf: Shelf) -> None:
    """The digest is that of the content; the files are different ones."""
    first, second = shelf.add("iris"), shelf.add("digits")
    other = shelf.add("iris", fitted_pipeline(seed=1))
    assert first.digest == second.digest != other.digest
    assert first.artifact_key != second.artifact_key


def test_registering_is_part_of_the_callers_transaction(shelf: Shelf) -> None:
    """If the end of a job fails, there is neither version nor alias, and no number is lost."""
    shelf.add("iris")
    prepared = shelf.registry.files.prepare(fitted_pipeline(), None)

    def fail_after_registering() -> None:
        with shelf.database.write() as connection:
            shelf.registry.register(
                connection,
                prepared,
                model_name="iris",
                job_id="job_1",
                dataset=Source(),
                spec={},
                seed=0,
                result={},
                set_alias="default",
            )
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_registering()
    assert shelf.registry.get("iris").latest_version == 1
    assert shelf.registry.aliases("iris") == []
    assert shelf.add("iris").version == 2


def test_numbers_are_never_given_again(shelf: Shelf) -> None:
    """Not after a version was deleted, nor after the whole model was."""
    shelf.add("iris")
    shelf.registry.delete_version("iris", shelf.add("iris").version)
    assert shelf.add("iris").version == 3
    shelf.registry.delete("iris")
    with pytest.raises(NotFound):
        shelf.registry.get("iris")
    assert shelf.add("iris").version == 4
    assert shelf.registry.get("iris").latest_version == 4


def test_deleted_files_are_gone(shelf: Shelf) -> None:
    """Deleting a version or a model removes their files, and no others."""
    versions = [shelf.add("iris") for _ in range(3)]
    other = shelf.add("digits")
    shelf.registry.delete_version("iris", 2)
    assert [shelf.has_file(version) for version in versions] == [True, False, True]
    shelf.registry.delete("iris")
    assert not any(shelf.has_file(version) for version in versions)
    assert shelf.has_file(other)


def test_reference_finds_its_version(shelf: Shelf) -> None:
    """By number, by alias, latest; and without one the alias `default`, else the latest."""
    for _ in range(3):
        shelf.add("iris")
    get = shelf.registry.get_version
    assert get("iris").version == 3
    shelf.registry.set_alias("iris", "default", 1, anything)
    shelf.registry.set_alias("iris", "candidate", 2, anything)
    assert get("iris").version == 1
    assert get("iris", "candidate").version == 2
    assert get("iris", "latest").version == 3
    assert get("iris", 2).version == 2


@pytest.mark.parametrize("reference", [None, 9, "candidate", "latest", "default"])
def test_reference_to_nothing_is_not_found(shelf: Shelf, reference: int | str | None) -> None:
    """Whether the model is unknown, or empty, or lacks the version or the alias."""
    with pytest.raises(NotFound):
        shelf.registry.get_version("unknown", reference)
    shelf.add("iris")
    shelf.registry.delete_version("iris", 1)
    with pytest.raises(NotFound):
        shelf.registry.get_version("iris", reference)


def test_alias_keeps_its_version_from_deletion(shelf: Shelf) -> None:
    """A version or model in use stays; forcing a model's deletion takes the aliases along."""
    version = shelf.add("iris", set_alias="default")
    with pytest.raises(Conflict, match="resource-in-use"):
        shelf.registry.delete_version("iris", 1)
    with pytest.raises(Conflict, match="resource-in-use"):
        shelf.registry.delete("iris")
    assert shelf.has_file(version)
    shelf.registry.delete("iris", force=True)
    shelf.add("iris")
    assert shelf.registry.aliases("iris") == []


def test_alias_points_only_to_sound_versions(shelf: Shelf) -> None:
    """Neither to one that does not exist, nor to one whose file is damaged."""
    with pytest.raises(NotFound):
        shelf.registry.set_alias("iris", "default", 1, anything)
    damaged = shelf.add("iris")
    with pytest.raises(InvalidContent, match="version 2"):
        shelf.registry.set_alias("iris", "default", 2, anything)
    shelf.replace_file(damaged, b"")
    with pytest.raises(Corrupt):
        shelf.registry.files.load(damaged)
    with pytest.raises(Conflict, match="invalid-state"):
        shelf.registry.set_alias("iris", "default", 1, anything)


def truncate(content: bytes) -> bytes:
    return content[:-3]


def flip_a_bit(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def remove(_: bytes) -> None:
    return None


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, remove])
def test_damaged_version_is_set_aside(
    shelf: Shelf, damage: Callable[[bytes], bytes | None]
) -> None:
    """It is refused from then on, even if the file came back; other versions serve."""
    version, other = shelf.add("iris"), shelf.add("iris")
    content = shelf.content(version)
    shelf.replace_file(version, damage(content))
    with pytest.raises(Corrupt, match="model-corrupt"):
        shelf.registry.files.load(version)
    shelf.replace_file(version, content)
    version = shelf.registry.get_version("iris", 1)
    assert version.quarantined_at is not None
    for refused in (shelf.registry.files.load, shelf.registry.files.open_artifact):
        with pytest.raises(Corrupt, match="model-corrupt"):
            refused(version)
    assert shelf.registry.files.load(other).n_features == 3


def test_deleted_while_it_was_loaded_is_not_found(shelf: Shelf) -> None:
    """A file that is gone because its version was deleted is no damage."""
    version = shelf.add("iris")
    shelf.registry.delete_version("iris", 1)
    shelf.replace_file(version, None)
    with pytest.raises(NotFound):
        shelf.registry.files.load(version)


def test_one_of_many_movers_wins(shelf: Shelf) -> None:
    """Of threads that all saw the same alias, exactly one moves it."""
    n = 8
    for _ in range(n):
        shelf.add("iris")
    seen = shelf.registry.set_alias("iris", "default", 1, anything)
    start = threading.Barrier(n)
    won: list[int] = []

    def move(version: int) -> None:
        def unmoved(present: Alias | None) -> None:
            if present != seen:
                raise ServiceError("precondition-failed", "moved")

        start.wait()
        try:
            shelf.registry.set_alias("iris", "default", version, unmoved)
        except ServiceError:
            return
        won.append(version)

    threads = [threading.Thread(target=move, args=(version,)) for version in range(1, n + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [shelf.registry.alias("iris", "default").version] == won
    assert shelf.registry.alias("iris", "default").revision == 2


def test_pages_are_newest_first(shelf: Shelf) -> None:
    """Models and versions come in pages that inserts do not disturb."""
    for _ in range(5):
        shelf.add("iris")
    first = shelf.registry.versions("iris", PageRequest(3))
    shelf.add("iris")
    second = shelf.registry.versions("iris", PageRequest(3, first.next))
    assert [v.version for v in first.items + second.items] == [5, 4, 3, 2, 1]
    shelf.add("digits", set_alias="default")
    models = shelf.registry.page(PageRequest(10)).items
    assert [(model.name, model.latest_version) for model in models] == [("digits", 1), ("iris", 6)]
    assert models[0].aliases == {"default": 1}


@pytest.mark.parametrize(
    "spec", [{"warm_start_from": "iris/1"}, {"model": {"name": "iris", "version": 1}}]
)
def test_what_a_waiting_job_needs_stays(shelf: Shelf, spec: dict[str, Any]) -> None:
    """A version that a job is to begin at, or to put rows through, cannot be deleted, nor its
    model; others can."""
    shelf.add("iris")
    shelf.add("iris")
    jobs = JobStore(shelf.database, shelf.blobs, queue_limit=10)
    job = queue(jobs, add_dataset(shelf.database), spec=spec, begins_at=("iris", 1))
    with pytest.raises(Conflict, match=job.id):
        shelf.registry.delete_version("iris", 1)
    with pytest.raises(Conflict, match=job.id):
        shelf.registry.delete("iris", force=True)
    shelf.registry.delete_version("iris", 2)
    jobs.cancel(job.id, keep_model=False)
    shelf.registry.delete("iris")


def test_start_is_deleted_or_begun_at(shelf: Shelf) -> None:
    """Of a job and a deletion at the same moment one is refused: no job waits for what is gone."""
    jobs = JobStore(shelf.database, shelf.blobs, queue_limit=100)
    dataset_id = add_dataset(shelf.database)
    for _ in range(8):
        version = shelf.add("iris").version
        start: dict[str, Any] = {
            "spec": {"warm_start_from": f"iris/{version}"},
            "begins_at": ("iris", version),
        }
        with ThreadPoolExecutor(2) as threads:
            acts = (
                threads.submit(queue, jobs, dataset_id, **start),
                threads.submit(shelf.registry.delete_version, "iris", version),
            )
        refusals = [error for act in acts if (error := act.exception()) is not None]
        assert [type(error) for error in refusals] in ([Conflict], [NotFound])


def test_what_lies_beside_a_model_lives_and_dies_with_it(shelf: Shelf) -> None:
    """Its bytes come back as they were given, the sweep lets them be, and a deletion takes them."""
    arrays = {"steps": np.array([3, 4]), "rows": np.empty(0, dtype=np.int64)}
    versions = [shelf.add("iris", warm_start=arrays) for _ in range(3)]
    assert shelf.add("iris").warm_start_key is None
    found = shelf.registry.files.load_warm_start(versions[0])
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    keys = [version.warm_start_key for version in versions]
    sweep(shelf.database, shelf.blobs, min_age_s=0)
    assert set(keys) <= set(shelf.blobs.keys())
    shelf.registry.delete_version("iris", 1)
    assert keys[0] not in list(shelf.blobs.keys())
    shelf.registry.delete("iris")
    assert not set(keys) & set(shelf.blobs.keys())


def test_index_has_the_same_order_on_every_database(shelf: Shelf) -> None:
    """By code points, then by number; it tells which files are damaged."""
    for name in ("b", "a2", "a-b", "ab", "a", "a"):
        version = shelf.add(name)
    shelf.replace_file(version, b"")
    with pytest.raises(Corrupt):
        shelf.registry.files.load(version)
    rows = [tuple(row) for batch in shelf.registry.index() for row in batch]
    names = [("a", 1, True), ("a", 2, False), ("a-b", 1, True), ("a2", 1, True), ("ab", 1, True)]
    assert rows == [*names, ("b", 1, True)]


def test_every_change_of_a_model_is_reported(shelf: Shelf) -> None:
    """Of this model alone; what is refused, or only read, changes nothing."""
    registry = shelf.registry
    file = registry.files.prepare(fitted_pipeline(), None)

    def damage_and_load() -> None:
        version = registry.get_version("iris", 2)
        shelf.replace_file(version, b"")
        with pytest.raises(Corrupt):
            registry.files.load(version)

    def refuse() -> None:
        with pytest.raises(Conflict):
            registry.delete("iris")

    changes: list[tuple[Callable[[], object], set[str]]] = [
        (lambda: shelf.add("digits"), {"digits"}),
        (lambda: shelf.add("iris", set_alias="default"), {"iris"}),
        (lambda: registry.add_imported(file, "iris", {}), {"iris"}),
        (lambda: registry.set_alias("iris", "default", 2, anything), {"iris"}),
        (refuse, set()),
        (lambda: registry.get("iris"), set()),
        (lambda: registry.delete_version("iris", 1), {"iris"}),
        (damage_and_load, {"iris"}),
        (lambda: registry.remove_alias("iris", "default", anything), {"iris"}),
        (lambda: registry.delete("iris"), {"iris"}),
    ]
    reported(shelf.database)
    for change, names in changes:
        change()
        assert reported(shelf.database) == names
