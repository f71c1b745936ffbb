"""The process that makes files of models, and models of files that come back: neither matplotlib,
nor onnx, nor what a stranger sends meets the service itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from service.datasets.store import DatasetStore
from service.errors import InvalidContent, ServiceError
from service.models.derived.files import DerivedFiles
from service.models.derived.messages import MESSAGES, Done, Make, Read, Received
from service.models.exports.write import EXPORTS, export
from service.models.imports.checking import model_of
from service.models.imports.reading import read
from service.models.plots.kinds import PLOTS, draw
from service.models.registry import ModelRegistry
from service.models.sources import Sources
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from service.storage.space import file_errors_reported
from service.subprocesses.working import work
from service.web.server.logs import configure_logging

MEMORY_BYTES = 2 * 1024**3

Product = tuple[dict[str, Any], str | None]
"""What is told of a file, and the id of the dataset that can be seen in it."""

FILES: dict[str, Callable[[Sources, Path], Product]] = {
    **{name: partial(draw, kind) for name, kind in PLOTS.items()},
    **{name: partial(export, form) for name, form in EXPORTS.items()},
}
"""By name: writes the file, and tells of it."""


class Maker:
    """Makes files with the stores of the service."""

    def __init__(self, settings: Settings) -> None:
        self._database = Database(settings.database_url)
        blobs = open_blobs(settings, make=False)
        self._registry = ModelRegistry(self._database, blobs)
        self._datasets = DatasetStore(self._database, blobs)
        self._files = DerivedFiles(self._database, blobs)
        self._limits = settings.limits

    def answer(self, asked: Make | Read) -> Done | Received | ServiceError:
        """What was done, or why it was not."""
        try:
            with file_errors_reported():
                return self._make(asked) if isinstance(asked, Make) else self._read(asked)
        except ServiceError as error:
            return error
        except MemoryError:
            return InvalidContent("making-failed", "making it takes more memory than there is")

    def _make(self, asked: Make) -> Done:
        version = self._registry.get_version(asked.model, asked.version)
        sources = Sources(version, self._database, self._registry, self._datasets)
        with self._files.blobs.temporary() as path:
            about, dataset_id = FILES[asked.name](sources, path)
            self._files.keep(version, asked.name, path, dataset_id=dataset_id, about=about)
        return Done()

    def _read(self, asked: Read) -> Received:
        parts, about = read(Path(asked.path), asked.media_type, self._limits)
        model = model_of(parts, about.columns, self._limits)
        prepared = self._registry.files.prepare(model, about.columns)
        return Received(prepared, about.origin)


def main() -> None:
    settings = Settings()
    configure_logging(settings.log_level)
    maker = Maker(settings)
    work(lambda line: MESSAGES.encode(maker.answer(MESSAGES.decode(line))), MEMORY_BYTES)


if __name__ == "__main__":
    main()
