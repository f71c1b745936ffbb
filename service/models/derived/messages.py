"""Messages between the service and the process that renders files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.models.files import PreparedVersion
from service.storage.blobs import Blob
from service.subprocesses.working import Messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Render:
    """Render a file of a version and store it."""

    model: str
    version: int
    name: str
    """A key of `render_process.FILES`."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The file is stored."""


@dataclass(frozen=True, slots=True)
class ReadModel:
    """Read a model from a file."""

    path: str
    media_type: str


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """The model's file is stored; its row is not written yet."""

    prepared: PreparedVersion
    origin: dict[str, Any]


MESSAGES = Messages(Render, Rendered, ReadModel, ImportedModel, PreparedVersion, Blob)
