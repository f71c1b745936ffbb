"""Models kept ready to predict, the least recently used one dropped when memory is short."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from anyio import to_thread

from service.models.registry import ModelRegistry
from service.models.versions import Label, ModelVersion
from service.storage.database import Database
from svm.pipeline import FittedPipeline

Reference = int | str | None
"""A version's number, an alias, or None for the version that answers for the model."""


@dataclass(frozen=True, slots=True)
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

    @property
    def work_per_row(self) -> int:
        """About the multiplications that scoring one row takes."""
        return self.fitted.nbytes // 8


class LoadedModels:
    """Finds the version a request means and loads it once. Belongs to one event loop.

    What a reference means is looked up again as soon as anything was committed to the database,
    by whichever process: the first request after an alias has moved is answered by its new
    version.
    """

    def __init__(self, database: Database, registry: ModelRegistry, capacity_bytes: int) -> None:
        self._database = database
        self._registry = registry
        self._capacity_bytes = capacity_bytes
        self._commits = -1
        self._versions: dict[tuple[str, Reference], ModelVersion] = {}
        self._loaded: OrderedDict[str, LoadedModel] = OrderedDict()
        self._loaded_bytes = 0
        self._loading: dict[str, asyncio.Task[LoadedModel]] = {}

    async def get(self, name: str, reference: Reference) -> LoadedModel:
        """Raises NotFound, and Corrupt for a version whose file is damaged."""
        version = await self._resolve(name, reference)
        if version.quarantined_at is None:
            loaded = self._loaded.get(version.artifact_key)
            if loaded is not None:
                self._loaded.move_to_end(version.artifact_key)
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
        commits = self._database.commits()
        if commits != self._commits:
            self._versions.clear()
            self._commits = commits
        version = self._versions.get((name, reference))
        if version is None:
            version = await to_thread.run_sync(self._registry.get_version, name, reference)
            if self._commits == commits:
                self._versions[name, reference] = version
        return version

    async def _load(self, version: ModelVersion) -> LoadedModel:
        try:
            fitted = await to_thread.run_sync(self._registry.load, version)
            loaded = LoadedModel(
                key=version.artifact_key,
                name=version.model_name,
                version=version.version,
                digest=version.digest,
                classes=version.classes,
                columns=version.columns,
                n_features=version.n_features,
                fitted=fitted,
            )
            self._keep(loaded)
            return loaded
        finally:
            del self._loading[version.artifact_key]

    def _keep(self, loaded: LoadedModel) -> None:
        self._loaded[loaded.key] = loaded
        self._loaded_bytes += loaded.fitted.nbytes
        # The newest stays even if it is larger than the capacity: it is about to be used.
        while self._loaded_bytes > self._capacity_bytes and len(self._loaded) > 1:
            _, dropped = self._loaded.popitem(last=False)
            self._loaded_bytes -= dropped.fitted.nbytes
