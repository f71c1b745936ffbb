"""The store of datasets on a real database and real files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from service.datasets.dataset import Dataset, Origin
from service.datasets.store import DatasetStore
from service.errors import Conflict, Corrupt, NotFound
from service.jobs.core.store import JobStore, job_with_dataset
from service.rows.parsing_process import read
from service.rows.spec import CSV, LIBSVM, Parsed
from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.database.pages import PageRequest
from service.storage.database.tables import datasets, jobs
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.rows import queue
from tests.service.rows.reading import make_spec

pytestmark = ON_ALL_BACKENDS

IRIS = "a,b,k\n1,2,x\n3,4,y\n5,6,x\n"


@pytest.fixture
def store(database: Database, blobs: Blobs) -> DatasetStore:
    return DatasetStore(database, blobs, job_with_dataset)


@contextmanager
def parsed(blobs: Blobs, text: str, media_type: str) -> Iterator[tuple[Parsed, Path]]:
    with blobs.temporary_folder() as folder:
        yield read(make_spec(folder, text, media_type)), folder


def add(
    store: DatasetStore, blobs: Blobs, text: str = IRIS, media_type: str = CSV, name: str = "d"
) -> tuple[Dataset, bool]:
    with parsed(blobs, text, media_type) as (result, folder):
        return store.add(result, folder, name=name, media_type=media_type)


def test_what_was_added_is_read_back(store: DatasetStore, blobs: Blobs) -> None:
    """Row and arrays."""
    dataset, created = add(store, blobs)
    assert created
    assert store.get(dataset.id) == dataset
    assert (dataset.n_samples, dataset.n_features, dataset.sparse) == (3, 2, False)
    assert (dataset.columns, dataset.target, dataset.classes) == (["a", "b"], "k", ["x", "y"])
    assert (dataset.class_counts, dataset.n_distinct_labels) == ([2, 1], 2)
    data = store.load(dataset)
    assert isinstance(data.X, np.ndarray)
    assert data.X.flags.c_contiguous
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.codes is not None
    assert data.codes.tolist() == [0, 1, 0]
    assert data.codes.dtype == np.int32
    assert blobs.sweep_scratch(0) == []


def test_sparse_arrays_come_back_as_csr(store: DatasetStore, blobs: Blobs) -> None:
    """In canonical form."""
    dataset, _ = add(store, blobs, "1 1:5 3:6\n2\n1 2:7\n", LIBSVM)
    X = store.load(dataset).X
    assert isinstance(X, csr_array)
    assert X.has_canonical_format
    assert X.toarray().tolist() == [[5, 0, 6], [0, 0, 0], [0, 7, 0]]


@pytest.mark.parametrize(
    "text",
    [IRIS, "a,k\n1,0.5\n2,1.5\n3,1.5\n", "a\n1\n2\n", "1 1:5 3:6\n2\n1 2:7\n"],
    ids=["classes", "numbers", "no labels", "sparse"],
)
def test_list_shows_what_the_dataset_itself_does(
    store: DatasetStore, blobs: Blobs, text: str
) -> None:
    """Without its columns: what its labels are does not need them."""
    media_type, target = LIBSVM if ":" in text else CSV, "none" if text.startswith("a\n") else None
    with blobs.temporary_folder() as folder:
        result = read(make_spec(folder, text, media_type, target=target))
        dataset, _ = store.add(result, folder, name="d", media_type=media_type)
    [listed] = store.page(PageRequest()).items
    same = {one.name for one in fields(listed)} - {"statistics"}
    for name in same | {"n_distinct_labels", "target_kind", "target_statistics"}:
        assert getattr(listed, name) == getattr(dataset, name), name
    assert listed.statistics.keys() <= {"target"}
    assert store.descriptions([dataset.id, "ds_gone"])[dataset.id].kinds == dataset.kinds


def test_numeric_target_is_loaded_as_float64(store: DatasetStore, blobs: Blobs) -> None:
    """With all bits; it has no codes. The row says how many different labels there are."""
    text = "".join(f"{i},{i}.5\n" for i in range(1200))
    dataset, _ = add(store, blobs, text)
    assert dataset.classes is None
    assert (dataset.n_distinct_labels, dataset.target_kind) == (1200, "numbers")
    for data in (store.load(dataset), store.open(dataset)):
        assert data.codes is None
        assert data.values is not None
        assert data.values.dtype == np.float64
        assert data.values.tolist() == [i + 0.5 for i in range(1200)]


def test_labels_as_what_a_training_takes_them_for(store: DatasetStore, blobs: Blobs) -> None:
    """Whole numbers are both: their classes with codes, and their values; texts are classes."""
    few, _ = add(store, blobs, "1,5\n2,-7\n3,5\n")
    assert few.target_kind == "classes"
    numbers = few.taken_as("numbers")
    assert numbers is not None
    assert (numbers.target_kind, numbers.classes, numbers.n_distinct_labels) == ("numbers", None, 2)
    data = store.load(numbers)
    assert (data.codes, data.values is not None and data.values.tolist()) == (None, [5, -7, 5])
    classes = numbers.taken_as("classes")
    assert classes is not None
    assert (classes.classes, classes.class_counts) == ([-7, 5], [1, 2])
    many, _ = add(store, blobs, "".join(f"{i},{i % 30}\n" for i in range(90)))
    assert many.target_kind == "numbers"
    classes = many.taken_as("classes")
    assert classes is not None
    assert (classes.classes, classes.class_counts) == ([*range(30)], [3] * 30)
    data = store.load(classes)
    assert (data.values, data.codes is not None and data.codes.tolist()) == (
        None,
        [*range(30)] * 3,
    )
    assert add(store, blobs)[0].taken_as("numbers") is None
    assert add(store, blobs, "1,0.5\n2,1\n")[0].taken_as("classes") is None


def test_same_upload_again_is_the_same_dataset(store: DatasetStore, blobs: Blobs) -> None:
    """Equal values, labels and names in any format and under any name; else it is another one."""
    first, _ = add(store, blobs)
    again, created = add(
        store,
        blobs,
        IRIS.replace(",", "\t").replace("6", "6.0"),
        "text/tab-separated-values",
        name="other",
    )
    assert (again, created) == (first, False)
    renamed, created = add(store, blobs, IRIS.replace("a,b", "p,q"))
    assert created
    assert renamed.matrix_digest == first.matrix_digest


def test_data_of_another_origin_are_another_dataset(store: DatasetStore, blobs: Blobs) -> None:
    """Uploaded, appended to one parent or another: equal data, and a lineage of their own."""
    uploaded, _ = add(store, blobs)
    ids = {uploaded.id}
    other = "ds_" + "0" * 32
    for origin in (Origin(uploaded.id, 2), Origin(uploaded.id), Origin(other, 2)):
        for expected in (True, False):
            with parsed(blobs, IRIS, CSV) as (result, folder):
                child, created = store.add(result, folder, name=None, media_type=CSV, origin=origin)
            assert created is expected
            assert Origin(str(child.parent), child.inherited_rows) == origin
            assert child.matrix_digest == uploaded.matrix_digest
        ids.add(child.id)
    assert len(ids) == 4


def test_same_upload_twice_at_once(store: DatasetStore, blobs: Blobs) -> None:
    """One row wins, all callers get it, and no file of the others stays."""
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        uploads = [stack.enter_context(parsed(blobs, IRIS, CSV)) for _ in range(8)]
        results = list(pool.map(lambda u: store.add(*u, name="d", media_type=CSV), uploads))
    assert len({dataset.id for dataset, _ in results}) == 1
    assert sum(created for _, created in results) == 1
    keys = list(blobs.keys())
    folders = {key.rpartition("/")[0] for key in keys}
    assert folders == {f"datasets/{results[0][0].id}"}


def test_pages_are_newest_first(store: DatasetStore, blobs: Blobs) -> None:
    """Each dataset is on one page."""
    ids = [add(store, blobs, IRIS + f"{i},{i},x\n")[0].id for i in range(5)]
    first = store.page(PageRequest(2))
    second = store.page(PageRequest(5, first.next))
    assert [dataset.id for dataset in (*first.items, *second.items)] == ids[::-1]
    assert second.next is None


def test_update_changes_name_and_tags(store: DatasetStore, blobs: Blobs) -> None:
    """And nothing else; the list can be searched by tag."""
    dataset, _ = add(store, blobs)
    other, _ = add(store, blobs, IRIS + "7,8,x\n")
    changed = store.update(dataset.id, lambda _: ("new", {"a.b/c": "x"}))
    assert (changed.name, changed.tags) == ("new", {"a.b/c": "x"})
    assert store.get(dataset.id) == changed
    assert [d.id for d in store.page(PageRequest(), ("a.b/c", "x")).items] == [dataset.id]
    assert store.get(other.id) == other
    store.update(dataset.id, lambda _: ("new", {"a.b/c": "y", "d": "x"}))
    assert store.page(PageRequest(), ("a.b/c", "x")).items == ()
    assert len(store.page(PageRequest(), ("d", "x")).items) == 1
    with pytest.raises(NotFound):
        store.update("ds_" + "0" * 32, lambda _: (None, {}))


def test_delete_removes_row_and_files(store: DatasetStore, blobs: Blobs) -> None:
    """Once; then it is unknown."""
    dataset, _ = add(store, blobs)
    store.delete(dataset.id, lambda _: None)
    assert list(blobs.keys()) == []
    with pytest.raises(NotFound):
        store.get(dataset.id)
    with pytest.raises(NotFound):
        store.delete(dataset.id, lambda _: None)


@pytest.mark.parametrize("state", ["queued", "running", "paused"])
def test_dataset_in_use_is_not_deleted(
    store: DatasetStore, blobs: Blobs, database: Database, state: str
) -> None:
    """As long as a job has not ended; then it is."""
    dataset, _ = add(store, blobs)
    job = queue(JobStore(database, blobs, 10), dataset.id)
    for state_of_job, refused in ((state, True), ("succeeded", False)):
        with database.write() as connection:
            connection.execute(jobs.update().values(state=state_of_job))
        if refused:
            with pytest.raises(Conflict, match=job.id):
                store.delete(dataset.id, lambda _: None)
            assert store.load(dataset).codes is not None
        else:
            store.delete(dataset.id, lambda _: None)


def _flip(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def _cut(content: bytes) -> bytes:
    return content[:-1]


def _lie(content: bytes) -> bytes:
    return content.replace(b"(3, 2)", b"(9, 9)")


def _object(content: bytes) -> bytes:
    return content.replace(b"'<f8'", b"'|O' ")


def spoil(
    blobs: Blobs, dataset: Dataset, damage: Callable[[bytes], bytes] | None, name: str = "X"
) -> None:
    key = f"datasets/{dataset.id}/{name}"
    if damage is None:
        blobs.delete(key)
    else:
        blobs.write(key, damage(blobs.read(key, dataset.arrays[name])))


@pytest.mark.parametrize("damage", [_flip, _cut, _lie, _object, None])
def test_damaged_file_is_noticed(
    store: DatasetStore,
    database: Database,
    blobs: Blobs,
    blobs_elsewhere: Blobs,
    damage: Callable[[bytes], bytes] | None,
) -> None:
    """What is read must have the digest of what was stored."""
    dataset, _ = add(store, blobs)
    spoil(blobs, dataset, damage)
    with pytest.raises(Corrupt) as caught:
        DatasetStore(database, blobs_elsewhere).load(dataset)
    assert caught.value.code == "dataset-corrupt"


@pytest.mark.parametrize("damage", [_flip, None])
@pytest.mark.parametrize("sparse", [False, True])
def test_same_upload_again_heals(
    store: DatasetStore,
    database: Database,
    blobs: Blobs,
    blobs_elsewhere: Blobs,
    damage: Callable[[bytes], bytes] | None,
    sparse: bool,
) -> None:
    """Lost and damaged files are written again, for every machine; the dataset is the same one."""
    upload = ("1 1:5 3:6\n2 4:7\n", LIBSVM) if sparse else (IRIS, CSV)
    dataset, _ = add(store, blobs, *upload)
    for name in dataset.arrays:
        spoil(blobs, dataset, damage, name)
    assert add(store, blobs, *upload) == (dataset, False)
    elsewhere = DatasetStore(database, blobs_elsewhere)
    assert elsewhere.load(dataset).codes is not None
    assert elsewhere.get(dataset.id) == dataset
    assert len(list(blobs.keys())) == len(dataset.arrays)


def test_healing_takes_files_of_another_form(
    store: DatasetStore, database: Database, blobs: Blobs
) -> None:
    """A later service may write the same values as other bytes: then the row has their digest."""
    dataset, _ = add(store, blobs)
    with database.write() as connection:
        arrays = {**dataset.arrays, "X": "0" * 64}
        connection.execute(datasets.update().values(arrays=arrays))
    assert add(store, blobs) == (dataset, False)
    assert store.get(dataset.id) == dataset
    assert store.load(dataset).codes is not None
