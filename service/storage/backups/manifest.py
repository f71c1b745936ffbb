"""What a backup says of itself: the last member of its archive."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    StringConstraints,
    ValidationError,
)
from pydantic_core import from_json

FORMAT = 1
MANIFEST = "manifest.json"

Key = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$", max_length=500),
]
"""Of a file: no step leads upwards."""


class BackupFailed(Exception):
    """A backup cannot be made, read, or restored here; the message says why."""


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TableEntry(_Said):
    columns: list[str]
    rows: NonNegativeInt
    sha256: str


class FileEntry(_Said):
    sha256: str
    size_bytes: NonNegativeInt


class Manifest(_Said):
    format: int
    service_version: str
    revision: str
    """Of the tables."""
    tables: dict[str, TableEntry]
    files: dict[Key, FileEntry]
    damaged: list[Key] = Field(default_factory=list)
    """Files that rows name and that the service had lost."""


def read_manifest(content: bytes) -> Manifest:
    """Raises BackupFailed with the place of what is wrong."""
    try:
        said: Any = from_json(content)
    except ValueError as error:
        raise BackupFailed(f"not a backup: {MANIFEST} is not JSON: {error}") from None
    format = said.get("format") if isinstance(said, dict) else None
    if type(format) is int and format > FORMAT:
        raise BackupFailed(f"the backup has format {format}: use a newer version of svm-service")
    try:
        return Manifest.model_validate(said)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in fault["loc"]) or "the whole"
        detail = f"the backup is damaged: {MANIFEST}, {place}: {fault['msg']}"
        raise BackupFailed(detail) from None
