"""The service's side: files are found, or made by another process and then found."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

import anyio
from anyio.to_thread import run_sync

from service.errors import InvalidContent, NotFound
from service.models.derived.files import DerivedFile, DerivedFiles
from service.models.derived.messages import MESSAGES, Make, Read, Received
from service.models.versions import ModelVersion
from service.settings import Settings
from service.subprocesses.pool import ChildPool, TookTooLong

TIME_LIMIT_S = 120.0


class Workshop:
    """Makes files of model versions, each once. For one event loop."""

    def __init__(self, files: DerivedFiles, settings: Settings) -> None:
        self._files = files
        self._children = ChildPool(
            "service.models.derived.render_process",
            time_limit_s=TIME_LIMIT_S,
            environment=settings.environment(),
        )
        self._turns: WeakValueDictionary[tuple[str, str], anyio.Lock] = WeakValueDictionary()

    async def open(self, version: ModelVersion, name: str) -> tuple[DerivedFile, BinaryIO]:
        """A file of the version; the caller closes it.

        Raises what making it raises, and InvalidContent `making-failed`.
        """
        key = version.artifact_key, name
        turn = self._turns.setdefault(key, anyio.Lock())
        async with turn:  # the second one to ask finds what was made for the first
            found = await run_sync(self._find, version, name)
            if found is None:
                await self._make(version, name)
                found = await run_sync(self._find, version, name)
        if found is None:  # what it was made of is gone by now
            what = f"{version.model_name} version {version.version}"
            raise NotFound("not-found", f"{what}, or its data, was deleted meanwhile")
        return found

    async def read(self, path: Path, media_type: str) -> Received:
        """Check an exported model and keep its file; unless its row follows, it is swept away.

        Raises InvalidRequest, and InvalidContent (`invalid-model`, `making-failed`).
        """
        received: Received = await self._ask(Read(str(path), media_type))
        return received

    def close(self) -> None:
        """End all processes."""
        self._children.close()

    def _find(self, version: ModelVersion, name: str) -> tuple[DerivedFile, BinaryIO] | None:
        row = self._files.find(version, name)
        content = None if row is None else self._files.open(row)
        return None if row is None or content is None else (row, content)

    async def _make(self, version: ModelVersion, name: str) -> None:
        await self._ask(Make(model=version.model_name, version=version.version, name=name))

    async def _ask(self, asked: Make | Read) -> Any:
        try:
            return MESSAGES.decode(await self._children.ask(MESSAGES.encode(asked)))
        except TookTooLong:
            detail = f"it takes more than {TIME_LIMIT_S:g} s"
            raise InvalidContent("making-failed", detail) from None
