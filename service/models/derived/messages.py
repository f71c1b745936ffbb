"""What the process that makes files of models, and models of files, is asked and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.models.files import PreparedVersion
from service.storage.blobs import Blob
from service.subprocesses.messages import Messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """A file to make of a version and to keep."""

    model: str
    version: int
    name: str
    """A key of `FILES` in the child."""


@dataclass(frozen=True, slots=True)
class Done:
    """It is there now."""


@dataclass(frozen=True, slots=True)
class Read:
    """A file to read a model from."""

    path: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Received:
    """Its model, kept; its row is still to be written."""

    prepared: PreparedVersion
    origin: dict[str, Any]


MESSAGES = Messages(Make, Done, Read, Received, PreparedVersion, Blob)
