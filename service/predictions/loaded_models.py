"""Models kept ready to predict, the least recently used one dropped when memory is short."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import orjson
from anyio import to_thread

from service.errors import NotFound, Unavailable
from service.models.registry import ModelRegistry
from service.models.versions import Label, ModelVersion
from service.predictions.inference.datatypes import to_bytes
from service.predictions.number_rows import compiled
from service.storage.database import Database
from svm.pipeline import FittedPipeline

AWAY_S = 2.0
"""How long a database that did not answer is not asked again for what is known."""
MAX_LAST = 10_000
"""References whose last meaning is kept."""

Reference = int | str | None
"""A version's number, an alias, or None for the version that answers for the model."""


@dataclass(frozen=True)
class LoadedModel:
    """A version in memory. It never changes, so requests share it."""

    key: str
    name: str
    version: int
    digest: str
    classes: list[Label]
    columns: list[str] | None
    n_features: int
    fitted: FittedPipeline
    nbytes: int
    """Memory that it takes."""

    @cached_property
    def work_per_row(self) -> int:
        """About the multiplications that the decision on one row takes."""
        return self.fitted.nbytes // 8 + 10 * len(self.fitted.intercepts)

    def reply_work(self, output: str) -> int:
        """In the same unit, what one of `schemas.OUTPUTS` takes in a reply for one row."""
        if output == "label":
            return 200
        n_classes, n_problems = len(self.classes), len(self.fitted.intercepts)
        if output == "explanation":
            return n_problems * (10_000 + 200 * self.n_features)
        coupling = n_classes**3 if output == "probability" and n_problems > n_classes else 0
        return 1000 * n_classes + coupling

    @cached_property
    def header(self) -> bytes | None:
        """The feature names as the first line of a CSV file, if none of them needs quotes."""
        names = self.columns or []
        plain = names and not any(mark in name for name in names for mark in ',"\r\n')
        return ",".join(names).encode() if plain else None

    @cached_property
    def json_head(self) -> bytes:
        """How every JSON reply begins."""
        answering = {"name": self.name, "version": self.version, "digest": self.digest}
        return orjson.dumps({"model": answering, "classes": self.classes})[:-1]

    @cached_property
    def json_labels(self) -> list[bytes]:
        """The classes as they stand in JSON."""
        return [orjson.dumps(label) for label in self.classes]

    @cached_property
    def tensor_labels(self) -> list[bytes]:
        """The classes as they stand in a tensor of the Open Inference Protocol."""
        return [to_bytes(label) for label in self.fitted.classes[:, None]]

    def column(self, position: int) -> str | int:
        """What a fault calls a feature."""
        return position if self.columns is None else self.columns[position]


class LoadedModels:
    """Finds the version a request means and loads it once. Belongs to one event loop.

    What a reference means is looked up again as soon as anything was committed to the database,
    by whichever process: the first request after an alias has moved is answered by its new
    version (with several replicas: moved here; the others follow within `commits.STALE_S`). While
    the database is away nothing can move, and what a reference last meant answers.
    """

    def __init__(self, database: Database, registry: ModelRegistry, capacity_bytes: int) -> None:
        self._database = database
        self._registry = registry
        self._capacity_bytes = capacity_bytes
        self._commits: object = None
        self._versions: dict[tuple[str, Reference], ModelVersion] = {}
        self._last: dict[tuple[str, Reference], ModelVersion] = {}
        self._away_until = -math.inf
        self._loaded: OrderedDict[str, LoadedModel] = OrderedDict()
        self._loaded_bytes = 0
        self._loading: dict[str, asyncio.Task[LoadedModel]] = {}

    def at_hand(self, name: str, reference: Reference) -> LoadedModel | None:
        """The model, if it is loaded and no lookup is needed to know that it is the one meant."""
        commits = self._database.commits()
        if commits != self._commits:
            self._versions.clear()
            self._commits = commits
        version = self._versions.get((name, reference))
        if version is None or version.quarantined_at is not None:
            return None
        loaded = self._loaded.get(version.artifact_key)
        if loaded is not None:
            self._loaded.move_to_end(version.artifact_key)
        return loaded

    async def get(self, name: str, reference: Reference) -> LoadedModel:
        """Raises NotFound, and Corrupt for a version whose file is damaged."""
        loaded = self.at_hand(name, reference)
        if loaded is not None:
            return loaded
        version = await self._resolve(name, reference)
        if version.quarantined_at is None:
            loaded = self._loaded.get(version.artifact_key)
            if loaded is not None:
                return loaded
        loading = self._loading.get(version.artifact_key)
        if loading is None:
            loading = asyncio.create_task(self._load(version))
            self._loading[version.artifact_key] = loading
            # Looked at even if every caller has left, or asyncio complains of a lost exception.
            loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Shielded: others wait for it too, so it goes on when this caller leaves.
        return await asyncio.shield(loading)

    async def _resolve(self, name: str, reference: Reference) -> ModelVersion:
        commits = self._commits
        version = self._versions.get((name, reference))
        if version is not None:
            return version
        last = self._last.get((name, reference))
        if last is not None and time.monotonic() < self._away_until:
            return last
        try:
            version = await to_thread.run_sync(self._registry.get_version, name, reference)
        except NotFound:
            self._last.pop((name, reference), None)
            raise
        except Unavailable:
            if last is None:
                raise
            self._away_until = time.monotonic() + AWAY_S
            return last
        if self._commits == commits:
            self._versions[name, reference] = version
        self._last[name, reference] = version
        if len(self._last) > MAX_LAST:
            del self._last[next(iter(self._last))]
        return version

    async def _load(self, version: ModelVersion) -> LoadedModel:
        try:
            fitted, nbytes = await to_thread.run_sync(self._read, version)
            loaded = LoadedModel(
                key=version.artifact_key,
                name=version.model_name,
                version=version.version,
                digest=version.digest,
                classes=version.classes,
                columns=version.columns,
                n_features=version.n_features,
                fitted=fitted,
                nbytes=nbytes,
            )
            self._keep(loaded)
            return loaded
        finally:
            del self._loading[version.artifact_key]

    def _read(self, version: ModelVersion) -> tuple[FittedPipeline, int]:
        fitted = self._registry.files.load(version)
        nbytes = fitted.nbytes + fitted.prepare()
        compiled()  # what reads the rows
        return fitted, nbytes

    def _keep(self, loaded: LoadedModel) -> None:
        self._loaded[loaded.key] = loaded
        self._loaded_bytes += loaded.nbytes
        # The newest stays even if it is larger than the capacity: it is about to be used.
        while self._loaded_bytes > self._capacity_bytes and len(self._loaded) > 1:
            _, dropped = self._loaded.popitem(last=False)
            self._loaded_bytes -= dropped.nbytes
