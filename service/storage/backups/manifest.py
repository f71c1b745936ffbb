"""The manifest of a backup, the last member of its archive."""

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
"""Key of a file, without `..`."""


class BackupFailed(Exception):
    """A backup cannot be written, read or restored; the message says why."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TableEntry(_Entry):
    columns: list[str]
    rows: NonNegativeInt
    sha256: str


class FileEntry(_Entry):
    sha256: str
    size_bytes: NonNegativeInt


class Manifest(_Entry):
    format: int
    service_version: str
    revision: str
    """Revision of the schema."""
    tables: dict[str, TableEntry]
    files: dict[Key, FileEntry]
    damaged: list[Key] = Field(default_factory=list)
    """Files that rows name and that were missing or damaged."""


def read_manifest(content: bytes) -> Manifest:
    """Raises BackupFailed with the location of the error."""
    try:
        document: Any = from_json(content)
    except ValueError as error:
        raise BackupFailed(f"not a backup: {MANIFEST} is not JSON: {error}") from None
    format = document.get("format") if isinstance(document, dict) else None
    if type(format) is int and format > FORMAT:
        raise BackupFailed(f"the backup has format {format}: use a newer version of svm-service")
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        location = ".".join(str(part) for part in fault["loc"]) or "the document"
        detail = f"the backup is damaged: {MANIFEST}, {location}: {fault['msg']}"
        raise BackupFailed(detail) from None
