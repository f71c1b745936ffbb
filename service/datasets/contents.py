"""Datasets as files in the formats of uploads, made on request."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from io import BufferedReader
from weakref import WeakValueDictionary

import anyio
from anyio.to_thread import run_sync

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.rows.format_table import DOWNLOADS
from service.rows.parser import Parser
from service.rows.rendering import nameable
from service.rows.spec import LIBSVM, NPY, NPZ, PARQUET, RenderSpec
from service.storage.blobs import Blobs

KEPT_BYTES = 1024**3
"""Files are kept up to this size for ranges that may follow; the one used last always is."""


def formats_of(dataset: Dataset) -> tuple[str, ...]:
    """The media types that can hold a dataset, the preferred ones first."""
    if dataset.sparse:
        return (LIBSVM,)
    unfit = {LIBSVM}
    if not _numeric_labels(dataset):
        unfit.add(NPY)
    if not dataset.is_plain or dataset.beside:
        unfit |= {NPY, NPZ}
    others = [dataset.target or "", *(one["name"] for one in dataset.beside)]
    if dataset.columns and not nameable([*dataset.columns, *others]):
        unfit.add(PARQUET)
    return tuple(media_type for media_type in DOWNLOADS if media_type not in unfit)


@dataclass(frozen=True, slots=True)
class Content:
    """A file without a name: it goes when it is closed, or its process ends."""

    file: BufferedReader
    sha256: str
    size_bytes: int

    def again(self) -> Content:
        """The same file, closed by its own owner. It must not be read by seeking."""
        return Content(os.fdopen(os.dup(self.file.fileno()), "rb"), self.sha256, self.size_bytes)


class Contents:
    """Makes the files, and keeps some for a while. For one event loop."""

    def __init__(
        self, store: DatasetStore, parser: Parser, blobs: Blobs, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self._store = store
        self._parser = parser
        self._blobs = blobs
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[tuple[str, str], Content] = OrderedDict()
        self._turns: WeakValueDictionary[tuple[str, str], anyio.Lock] = WeakValueDictionary()

    async def open(self, dataset: Dataset, media_type: str) -> Content:
        """The dataset in one of its formats; the caller closes the file.

        Raises NotFound, Corrupt, and InvalidContent `parsing-failed`.
        """
        key = dataset.id, media_type
        turn = self._turns.setdefault(key, anyio.Lock())
        async with turn:  # the second caller gets what was made for the first
            if key not in self._kept:
                self._kept[key] = await self._make(dataset, media_type)
            self._kept.move_to_end(key)
            content = self._kept[key].again()
        self._forget()
        return content

    def close(self) -> None:
        while self._kept:
            self._kept.popitem()[1].file.close()

    async def _make(self, dataset: Dataset, media_type: str) -> Content:
        with self._blobs.temporary_folder() as folder:
            stored = await run_sync(self._store.copy, dataset, folder / "stored")
            out = folder / "content"
            spec = RenderSpec(stored=stored, media_type=media_type, out=str(out))
            rendered = await self._parser.render(spec)
            return Content(out.open("rb"), rendered.sha256, rendered.size_bytes)

    def _forget(self) -> None:
        total = sum(content.size_bytes for content in self._kept.values())
        while total > self._kept_bytes and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            oldest.file.close()
            total -= oldest.size_bytes


def _numeric_labels(dataset: Dataset) -> bool:
    """Whether a column of float64 can hold the labels, which may be none."""
    return all(
        isinstance(label, (int, float)) and not isinstance(label, bool) and float(label) == label
        for label in dataset.classes or ()
    )
