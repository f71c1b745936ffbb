"""What is kept of uploads: a row each, and its arrays among the blobs."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from copy import copy
from dataclasses import asdict, fields, replace
from functools import cache, lru_cache
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import sqlalchemy as sa
import structlog

from service.datasets.dataset import SENT, DataInFiles, Dataset, ListedDataset, LoadedData, Origin
from service.errors import Conflict, Corrupt, NotFound
from service.rows.cell_texts.reading import Reading
from service.rows.spec import DELIMITED, Description, Parsed, Stored, Summarized
from service.rows.table.arrays import BLOCK_BYTES, blocks_of
from service.rows.table.beside import own_numbers
from service.rows.table.writers import coded_positions, raw_values
from service.storage.blobs import CHUNK_BYTES, BlobDamaged, Blobs
from service.storage.database import Database, new_id, now
from service.storage.database.audit import record
from service.storage.database.pages import (
    Page,
    PageRequest,
    has_tag,
    in_order,
    is_new,
    named_like,
    next_number,
    replace_tags,
)
from service.storage.database.tables import dataset_tags, datasets
from svm.data.stored_rows import StoredArray, StoredRows
from svm.data.texts import StoredTexts, with_texts

LATEST_DATASET = "latest"
NEVER = 0
"""The number of the upload of a split's parts."""
_NEXT_UPLOAD = next_number("datasets", "last_upload")
JobWithDataset = Callable[[sa.Connection, str], str | None]
"""Gives the id of a job that still needs the dataset with this id."""
log = structlog.stdlib.get_logger("service.datasets")
KEPT = 4
KEPT_BYTES = 4 * 1024 * 1024
"""Of each."""


def _header(file: BufferedReader) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the array that follows, in C order."""
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype


BY: Mapping[str, sa.Column[Any]] = {
    "name": datasets.c.name,
    "rows": datasets.c.n_samples,
    "columns": datasets.c.n_features,
}
_WITHOUT_CLASSES = sa.func.coalesce(sa.cast(datasets.c.classes, sa.Text), "null") == "null"
_LISTED = (
    *(datasets.c[one.name] for one in fields(ListedDataset) if one.name != "statistics"),
    # Only of these the database reads the statistics: classes say the same.
    sa.case((_WITHOUT_CLASSES, datasets.c.statistics["target"])).label("of_target"),
)
_DESCRIBED = tuple(datasets.c[one.name] for one in fields(Description))


class DatasetFiles:
    """Files `datasets/<id>/<array>`."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def rows_in_files(self, dataset: Dataset) -> StoredRows:
        """X, of which only what is needed to read it is in memory. Raises Corrupt."""
        arrays = ["data", "indices"] if dataset.sparse else ["X"]
        if "codes" in dataset.arrays:
            data, indices = self._raw_in_file(dataset), []
        else:
            data, *indices = (self._array_in_file(dataset, name) for name in arrays)
        return StoredRows(
            data=data,
            indices=indices[0] if indices else None,
            indptr=self.array(dataset, "indptr") if dataset.sparse else None,
            n_rows=dataset.n_samples,
            n_features=dataset.n_features,
            digest=dataset.matrix_digest,
            texts=self.texts(dataset, self._array_in_file),
            scratch=self._blobs.scratch,
        )

    def _dense(self, dataset: Dataset) -> npt.NDArray[np.float64]:
        """(n_samples, n_features): numbers, or raw values, which carry their texts."""
        arrays = [self.array(dataset, name) for name in ("X", "codes") if name in dataset.arrays]
        X = raw_values(arrays, coded_positions(dataset.table))
        texts = self.texts(dataset, self.array)
        return X if texts is None else with_texts(X, texts)

    def texts(
        self, dataset: Dataset, read: Callable[[Dataset, str], npt.NDArray[Any] | StoredArray]
    ) -> StoredTexts | None:
        if "texts" not in dataset.arrays:
            return None
        return StoredTexts(read(dataset, "texts"), self.array(dataset, "text_ends"))

    def _raw_in_file(self, dataset: Dataset) -> StoredArray:
        """Raw values in a file without a name."""
        rows = max(1, BLOCK_BYTES // (8 * dataset.n_features))
        coded = coded_positions(dataset.table)
        with ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile(dir=self._blobs.scratch))
            names = [name for name in ("X", "codes") if name in dataset.arrays]
            opened = [stack.enter_context(self._open(dataset, name)) for name in names]
            for parts in zip(*(blocks_of(one, rows) for one in opened), strict=True):
                file.write(raw_values(parts, coded).data)
            file.flush()
            return StoredArray(file, np.dtype("<f8"))

    def array_if_any(self, dataset: Dataset, name: str) -> npt.NDArray[Any] | None:
        return self.array(dataset, name) if name in dataset.arrays else None

    def array(self, dataset: Dataset, name: str) -> npt.NDArray[Any]:
        with self._open(dataset, name) as file:
            shape, dtype = _header(file)
            if math.prod(shape) * dtype.itemsize <= KEPT_BYTES:
                return np.fromfile(file, dtype, math.prod(shape)).reshape(shape)
            # A page is copied when it is written to, which nothing does.
            return np.memmap(file, dtype, "c", file.tell(), shape).view(np.ndarray)

    def _array_in_file(self, dataset: Dataset, name: str) -> StoredArray:
        with self._open(dataset, name) as file:
            return StoredArray(file, _header(file)[1], file.tell())

    def _open(self, dataset: Dataset, name: str) -> BufferedReader:
        try:
            return self._blobs.open(f"datasets/{dataset.id}/{name}", dataset.arrays[name])
        except BlobDamaged:
            detail = f"a file of {dataset.id} is not what was stored; upload the same data again"
            raise Corrupt("dataset-corrupt", detail) from None


class DatasetStore(DatasetFiles):
    """Datasets in the database, their arrays in files `datasets/<id>/<array>`."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        job_with_dataset: JobWithDataset = lambda connection, dataset_id: None,
    ) -> None:
        """`job_with_dataset` is asked before a dataset is deleted."""
        super().__init__(blobs)
        self._database = database
        self._job_with_dataset = job_with_dataset
        self._look_up = self._found

    def _open(self, dataset: Dataset, name: str) -> BufferedReader:
        """Raises NotFound if the dataset was deleted meanwhile."""
        try:
            return super()._open(dataset, name)
        except Corrupt:
            DatasetStore.get(self, dataset.id)  # in the table, whatever a subclass keeps
            raise

    def reading_once(self) -> DatasetStore:
        """The same store for one request, with which `find` reads each dataset once."""
        store = copy(self)
        store._look_up = cache(self._look_up)
        return store

    def get(self, dataset_id: str) -> Dataset:
        """Raises NotFound."""
        with self._database.read() as connection:
            return _find(connection, dataset_id)

    def begins_with(self, dataset: Dataset, other_id: str, other_digest: str) -> bool:
        """Whether all rows of the other dataset are its first ones, in the same order: it is that
        one, or holds the same, or was made from it by append."""
        while dataset.id != other_id and dataset.matrix_digest != other_digest:
            if dataset.parent is None or dataset.inherited_rows is None:
                return False
            if dataset.parent == other_id:
                return True
            try:
                dataset = self.get(dataset.parent)
            except NotFound:
                return False
        return True

    def find(self, dataset_id: str) -> Dataset:
        """The dataset with that id; for `latest` the one that was uploaded last, also if it existed
        before. Raises NotFound."""
        return self._look_up(dataset_id)

    def _found(self, dataset_id: str) -> Dataset:
        if dataset_id != LATEST_DATASET:
            return self.get(dataset_id)
        last_first = datasets.c.last_upload.desc(), datasets.c.id.desc()
        with self._database.read() as connection:
            row = connection.execute(sa.select(datasets).order_by(*last_first).limit(1)).first()
        if row is None:
            raise NotFound("not-found", "there is no dataset yet; upload one")
        return Dataset.from_row(row)

    def page(
        self, page: PageRequest, tag: tuple[str, str] | None = None, name: str | None = None
    ) -> Page[ListedDataset]:
        """Datasets newest first, or as the page says; with `tag` only those that carry it, with
        `name` only the newest of which it is a part of the name, in any case; so are those that
        are ordered by `BY`."""
        statement, listed = sa.select(*_LISTED), datasets
        if tag is not None:
            listed = dataset_tags
            statement = statement.join(listed).where(has_tag(listed, tag))
        if name is not None:
            statement = statement.where(named_like(datasets.c.name, datasets.c.number, name))
        key: tuple[sa.Column[Any], ...] = listed.c.number, listed.c.id
        if page.by in BY:
            statement, key = statement.where(is_new(datasets.c.number)), (BY[page.by], *key)
        with self._database.read() as connection:
            indexed = page.by not in BY
            return in_order(connection, statement, key, page, _listed, indexed=indexed)

    def descriptions(self, dataset_ids: Iterable[str]) -> dict[str, Description]:
        """The columns of those of these datasets that are still there."""
        statement = sa.select(datasets.c.id, *_DESCRIBED).where(datasets.c.id.in_(set(dataset_ids)))
        with self._database.read() as connection:
            rows = [dict(row._mapping) for row in connection.execute(statement)]
        return {row.pop("id"): Description(**row | {"table": row["table"] or []}) for row in rows}

    def names(self, dataset_ids: Iterable[str]) -> dict[str, str | None]:
        """Of those of these datasets that are still there."""
        statement = sa.select(datasets.c.id, datasets.c.name).where(
            datasets.c.id.in_(set(dataset_ids))
        )
        with self._database.read() as connection:
            return {row.id: row.name for row in connection.execute(statement)}

    def add(
        self,
        parsed: Parsed,
        folder: Path,
        *,
        name: str | None,
        media_type: str,
        origin: Origin = SENT,
        also: Callable[[sa.Connection, Dataset], None] | None = None,
    ) -> tuple[Dataset, bool]:
        """Keep what was parsed into `folder`; (the dataset, whether it is a new one).

        `also` is done in the transaction that makes a new one.
        The same values, labels and names again, made from the same parent in the same way, are
        the existing dataset; those of its files that are lost or damaged are written
        again.
        """
        upload_key = _upload_key(parsed, origin)
        existing = self._existing(upload_key, origin.is_upload)
        if existing is not None:
            return self._healed(existing, folder), False
        dataset_id = new_id("ds")
        blobs = {
            array: self._blobs.adopt(f"datasets/{dataset_id}/{array}", folder / f"{array}.npy")
            for array in parsed.arrays
        }
        values = {
            "id": dataset_id,
            "name": name,
            "created_at": now(),
            "last_upload": _NEXT_UPLOAD if origin.is_upload else NEVER,
            "format": media_type,
            "size_bytes": sum(blob.size_bytes for blob in blobs.values()),
            **parsed.described(Summarized),
            **asdict(origin),
            "table": parsed.table or None,
            "tags": {},
            "upload_key": upload_key,
            "arrays": {array: blob.sha256 for array, blob in blobs.items()},
        }
        while True:
            try:
                with self._database.write() as connection:
                    insert = sa.insert(datasets).values(values).returning(*datasets.c)
                    dataset = Dataset.from_row(connection.execute(insert).one())
                    _note_upload(connection, dataset, is_new=True)
                    if also is not None:
                        also(connection, dataset)
                    return dataset, True
            except sa.exc.IntegrityError:  # the same upload came first
                existing = self._existing(upload_key, origin.is_upload)
            if existing is not None:  # else it was deleted meanwhile
                self._blobs.delete(f"datasets/{dataset_id}")
                return existing, False

    def _healed(self, dataset: Dataset, folder: Path) -> Dataset:
        """The dataset with all of its files; what is missing comes from `folder`."""
        written, same = {}, datasets.c.id == dataset.id
        for array, sha256 in dataset.arrays.items():
            key = f"datasets/{dataset.id}/{array}"
            try:
                self._blobs.check(key, sha256)
            except BlobDamaged:
                log.warning("a damaged file is written again", key=key)
                written[array] = self._blobs.adopt(key, folder / f"{array}.npy").sha256
        if written.items() <= dataset.arrays.items():
            return dataset
        arrays = {**dataset.arrays, **written}  # equal values, but written in another way by now
        with self._database.write() as connection:
            connection.execute(sa.update(datasets).where(same).values(arrays=arrays))
        return replace(dataset, arrays=arrays)

    def update(
        self, dataset_id: str, change: Callable[[Dataset], tuple[str | None, Mapping[str, str]]]
    ) -> Dataset:
        """Give name and tags; `change` makes them of the present ones. Raises NotFound."""
        with self._database.write() as connection:
            name, tags = change(_find(connection, dataset_id, lock=True))
            update = (
                sa.update(datasets)
                .where(datasets.c.id == dataset_id)
                .values(name=name, tags=dict(tags))
                .returning(*datasets.c)
            )
            dataset = Dataset.from_row(connection.execute(update).one())
            replace_tags(connection, dataset_tags, dataset)
            about = {"name": dataset.name, "tags": dict(dataset.tags)}
            record(connection, "dataset.update", f"datasets/{dataset_id}", **about)
            return dataset

    def delete(self, dataset_id: str, check: Callable[[Dataset], None]) -> None:
        """Raises NotFound, Conflict while a job needs it, and what `check` raises."""
        with self._database.write(makes_room=True) as connection:
            check(_find(connection, dataset_id, lock=True))
            job_id = self._job_with_dataset(connection, dataset_id)
            if job_id is not None:
                raise Conflict(
                    "resource-in-use", f"{job_id} needs the dataset; wait for its end or cancel it"
                )
            connection.execute(sa.delete(datasets).where(datasets.c.id == dataset_id))
            record(connection, "dataset.delete", f"datasets/{dataset_id}")
        self._blobs.delete(f"datasets/{dataset_id}")

    def load(self, dataset: Dataset) -> LoadedData:
        """The arrays, in memory. Raises Corrupt if a file is not what was stored."""
        labels = self._labels(dataset)
        if not dataset.sparse:
            return LoadedData(self._dense(dataset), **labels)
        from scipy.sparse import csr_array

        parts = tuple(self.array(dataset, name) for name in ("data", "indices", "indptr"))
        shape = (dataset.n_samples, dataset.n_features)
        return LoadedData(csr_array(parts, shape=shape), **labels)

    def open(self, dataset: Dataset) -> DataInFiles:
        """The arrays, of X only what is needed to read it. Raises Corrupt."""
        return DataInFiles(self.rows_in_files(dataset), **self._labels(dataset))

    def _labels(self, dataset: Dataset) -> dict[str, Any]:
        stored = (self.array_if_any(dataset, name) for name in ("y", "values"))
        codes, values = dataset.labels_of(*stored)
        weights, groups, times = (
            self.array_if_any(dataset, name) for name in ("weights", "groups", "times")
        )
        groups = None if groups is None else own_numbers(groups)
        beside = {"weights": weights, "groups": groups, "times": times}
        return {"codes": codes, "values": values, **beside}

    def group_names(self, dataset: Dataset, groups: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The names of some rows' groups, in order, of a dataset that has groups; without rows that
        have none. Raises Corrupt."""
        names = orjson.loads(self.array(dataset, "group_names").tobytes())
        numbers = np.unique(groups)
        return np.array(names, dtype=object)[numbers[numbers < len(names)]]

    def copy(self, dataset: Dataset, folder: Path) -> Stored:
        """The arrays as files in `folder`, for processes that know no blobs.

        Raises Corrupt if a file is not what was stored, NotFound if the dataset was deleted.
        """
        folder.mkdir()
        for name in dataset.arrays:
            try:
                with self._open(dataset, name) as file, (folder / f"{name}.npy").open("wb") as copy:
                    shutil.copyfileobj(file, copy, CHUNK_BYTES)
            except Corrupt:
                self.get(dataset.id)
                raise
        return Stored(folder=str(folder), arrays=list(dataset.arrays), **dataset.described())

    def _existing(self, upload_key: str, is_upload: bool) -> Dataset | None:
        """The existing dataset; once it is uploaded again, it is the latest."""
        update = (
            sa.update(datasets)
            .where(datasets.c.upload_key == upload_key)
            .values(last_upload=_NEXT_UPLOAD if is_upload else datasets.c.last_upload)
            .returning(*datasets.c)
        )
        with self._database.write() as connection:
            row = connection.execute(update).first()
            if row is None:
                return None
            dataset = Dataset.from_row(row)
            _note_upload(connection, dataset, is_new=False)
            return dataset


def _listed(row: sa.Row[Any]) -> ListedDataset:
    values = dict(row._mapping)
    of_target = values.pop("of_target")
    return ListedDataset(**values, statistics={"target": of_target} if of_target else {})


def _find(connection: sa.Connection, dataset_id: str, lock: bool = False) -> Dataset:
    statement = sa.select(datasets).where(datasets.c.id == dataset_id)
    row = connection.execute(statement.with_for_update() if lock else statement).first()
    if row is None:
        raise NotFound("not-found", f"there is no dataset {dataset_id}")
    return Dataset.from_row(row)


def _note_upload(connection: sa.Connection, dataset: Dataset, *, is_new: bool) -> None:
    result = {"new": is_new, "name": dataset.name}
    if dataset.parent is not None:
        result["parent"] = dataset.parent
    record(connection, "dataset.create", f"datasets/{dataset.id}", **result)


def _upload_key(parsed: Parsed, origin: Origin) -> str:
    """Equal for the same values, labels and names of the same origin, whatever their format. Texts
    that are not written plainly are others: models predict rows that are written so."""
    content: list[Any] = [parsed.matrix_digest, parsed.columns, parsed.target]
    written = Reading.of(parsed.reading)
    if not written.is_usual(DELIMITED.get(parsed.media_type, ",")):
        content.append({"reading": parsed.reading})
    if parsed.beside:
        content.append({one["role"]: one["name"] for one in parsed.beside})
    if origin.parent is not None:
        content += [origin.parent, origin.inherited_rows]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class KeptDatasets(DatasetStore):
    """The values of a dataset never change; its name and tags may be older than in the table."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        super().__init__(database, blobs)
        self._kept = lru_cache(KEPT)(self._read)

    def get(self, dataset_id: str) -> Dataset:
        return self._kept(dataset_id)[0]

    def load(self, dataset: Dataset) -> LoadedData:
        data = self._kept(dataset.id)[1]
        if data is None:
            return super().load(dataset)
        if (data.codes is None) == (dataset.classes is None):
            return data
        codes, values = dataset.labels_of(data.codes, data.values)
        return replace(data, codes=codes, values=values)

    def _read(self, dataset_id: str) -> tuple[Dataset, LoadedData | None]:
        dataset = super().get(dataset_id)
        # The arrays of a table are smaller than its matrix.
        matrix_bytes = 0 if dataset.sparse else 8 * dataset.n_samples * dataset.n_features
        is_small = max(dataset.size_bytes, matrix_bytes) <= KEPT_BYTES
        return dataset, super().load(dataset) if is_small else None
