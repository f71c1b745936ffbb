"""The process that renders plots and exports and reads imported models.

It keeps contourpy, onnx and the parsing of uploaded files out of the service's own process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

from service import charts
from service.charts.chart import ChartFormat
from service.common.logs import configure_logging
from service.datasets.store import DatasetStore
from service.errors import InvalidContent, ServiceError
from service.models import exports, plots
from service.models.derived.files import (
    MESSAGES,
    DerivedFiles,
    ImportedModel,
    ReadModel,
    Render,
    Rendered,
)
from service.models.exports import ExportFormat
from service.models.exports.write import export
from service.models.imports import model_of, read
from service.models.plots import Plot, PlotKind, errors, measured
from service.models.plots.boundary import boundary
from service.models.plots.curves import cost, curve
from service.models.registry import ModelRegistry
from service.models.sources import Sources
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from service.storage.disk import file_errors_reported
from service.subprocesses.working import work

MEMORY_BYTES = 2 * 1024**3

Product = tuple[dict[str, Any], str | None]
"""Facts about a file for its row, and the id of the dataset whose data it shows."""

_DRAW: dict[PlotKind, Callable[[Sources], Plot]] = {
    "boundary": boundary,
    "learning-curve": curve,
    "cost-by-epoch": partial(cost, "epoch"),
    "cost-by-update": partial(cost, "update"),
    "cost-by-time": partial(cost, "time"),
    "confusion": measured.confusion,
    "roc": measured.roc,
    "margins": measured.margins,
    "reliability": measured.reliability,
    "none-of-these": measured.none_of_these,
    "predicted-against-actual": errors.predicted_against_actual,
    "residuals": errors.residuals,
}


def draw(kind: PlotKind, format: ChartFormat, sources: Sources, path: Path) -> Product:
    """Write a plot. Raises NotFound (`plot-unavailable`), InvalidContent if it is not possible."""
    plots.check_offered(kind, sources.version)
    plot = _DRAW[kind](sources)
    path.write_text(charts.write(plot.chart, format))
    return {}, plot.dataset_id


FILES: dict[str, Callable[[Sources, Path], Product]] = {
    **{
        plots.file_name(kind, format): partial(draw, kind, format)
        for kind in get_args(PlotKind)
        for format in get_args(ChartFormat)
    },
    **{exports.file_name(form): partial(export, form) for form in get_args(ExportFormat)},
}
"""By file name: writes the file."""


class RenderWorker:
    """Renders files and reads models, with the stores of the service."""

    def __init__(self, settings: Settings) -> None:
        self._database = Database(settings.database_url)
        blobs = open_blobs(settings, make=False)
        self._registry = ModelRegistry(self._database, blobs)
        self._datasets = DatasetStore(self._database, blobs)
        self._files = DerivedFiles(self._database, blobs)
        self._limits = settings.limits

    def answer(self, request: Render | ReadModel) -> Rendered | ImportedModel | ServiceError:
        """The result, or the error."""
        try:
            with file_errors_reported():
                if isinstance(request, Render):
                    return self._render(request)
                return self._read(request)
        except ServiceError as error:
            return error
        except MemoryError:
            return InvalidContent("making-failed", "it needs more memory than is available")

    def _render(self, request: Render) -> Rendered:
        version = self._registry.get_version(request.model, request.version)
        sources = Sources(version, self._database, self._registry, self._datasets)
        with self._files.blobs.temporary() as path:
            about, dataset_id = FILES[request.name](sources, path)
            self._files.keep(version, request.name, path, dataset_id=dataset_id, about=about)
        return Rendered()

    def _read(self, request: ReadModel) -> ImportedModel:
        parts, about = read(Path(request.path), request.media_type, self._limits)
        model = model_of(parts, about.columns, self._limits)
        prepared = self._registry.files.prepare(model, about.columns)
        return ImportedModel(prepared, about.origin)


def main() -> None:
    settings = Settings()
    configure_logging(settings.log_level)
    worker = RenderWorker(settings)
    work(lambda line: MESSAGES.encode(worker.answer(MESSAGES.decode(line))), MEMORY_BYTES)


if __name__ == "__main__":
    main()
