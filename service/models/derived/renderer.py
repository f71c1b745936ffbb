"""Derived files for the service: found, or rendered by another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

import anyio
from anyio.to_thread import run_sync

from service.errors import InvalidContent, NotFound
from service.models.derived.files import MESSAGES, DerivedFiles, ImportedModel, ReadModel, Render
from service.settings import Settings
from service.storage.database.tables import DerivedFile, ModelVersion
from service.subprocesses.pool import ChildPool, TookTooLong

TIME_LIMIT_S = 120.0


class Renderer:
    """Renders files of model versions, each once. For one event loop."""

    def __init__(self, files: DerivedFiles, settings: Settings) -> None:
        self._files = files
        self._children = ChildPool(
            "service.models.derived.render_process",
            time_limit_s=TIME_LIMIT_S,
            environment=settings.environment(),
        )
        self._locks: WeakValueDictionary[tuple[str, str], anyio.Lock] = WeakValueDictionary()

    async def open(self, version: ModelVersion, name: str) -> tuple[DerivedFile, BinaryIO]:
        """A file of the version; the caller closes it.

        Raises the errors of rendering it, and InvalidContent `making-failed`.
        """
        key = version.artifact_key, name
        lock = self._locks.setdefault(key, anyio.Lock())
        async with lock:  # a second request finds the file that the first one rendered
            file = await run_sync(self._find, version, name)
            if file is None:
                await self._ask(
                    Render(model=version.model_name, version=version.version, name=name)
                )
                file = await run_sync(self._find, version, name)
        if file is None:
            what = f"{version.model_name} version {version.version}"
            raise NotFound("not-found", f"{what}, or its data, was deleted meanwhile")
        return file

    async def read(self, path: Path, media_type: str) -> ImportedModel:
        """Check an exported model and store its file; the sweep deletes it if no row follows.

        Raises InvalidRequest, and InvalidContent (`invalid-model`, `making-failed`).
        """
        model: ImportedModel = await self._ask(ReadModel(str(path), media_type))
        return model

    def close(self) -> None:
        """End all processes."""
        self._children.close()

    def _find(self, version: ModelVersion, name: str) -> tuple[DerivedFile, BinaryIO] | None:
        row = self._files.find(version, name)
        content = None if row is None else self._files.open(row)
        return None if row is None or content is None else (row, content)

    async def _ask(self, request: Render | ReadModel) -> Any:
        try:
            return MESSAGES.decode(await self._children.ask(MESSAGES.encode(request)))
        except TookTooLong:
            detail = f"it takes more than {TIME_LIMIT_S:g} s"
            raise InvalidContent("making-failed", detail) from None
