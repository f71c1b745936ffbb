"""Paths that the service's user may not read, write or create, and what to do about it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from service.settings import Settings

READ_WRITE = os.R_OK | os.W_OK


def blocked(settings: Settings) -> list[Path]:
    """Folders and files of the service that this process may not use."""
    return [path for path in dict.fromkeys(_used(settings)) if not _may_use(path)]


def advice(path: Path) -> str:
    """What is wrong with a blocked path, and what to do."""
    if _is_read_only(path):
        what = f"{path} is on a read-only file system: mount it for writing"
    else:
        user, group = os.geteuid(), os.getegid()
        what = (
            f"user id {user} may not read and write {path}: run `chown -R {user}:{group} {path}` "
            "as root (for a Docker volume, in a container with --user root)"
        )
    return f"{what}, or set SVM_DATA_DIR to another directory"


def impossible(settings: Settings) -> str | None:
    """What is wrong with the first folder that `serve` could not create: it is tried beside it."""
    folders = {"SVM_DATA_DIR": settings.data_dir}
    if settings.sqlite_file is not None:
        folders["SVM_DATABASE_URL"] = settings.sqlite_file.parent
    if not settings.blob_url.startswith("s3://"):
        folders["SVM_BLOB_URL"] = Path(settings.blob_url)
    for name, folder in folders.items():
        try:
            if not folder.is_dir():
                with tempfile.TemporaryDirectory(dir=_nearest(folder)):
                    pass
        except OSError as error:
            return f"{folder} cannot be created: {error.strerror}; set {name} to another place"
    return None


def _nearest(path: Path) -> Path:
    """The path, or the nearest of its parents that exists."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def _used(settings: Settings) -> Iterator[Path]:
    """The folders, or their nearest existing parents, and the existing files in them."""
    folder, database = settings.data_dir, settings.sqlite_file
    folders = [folder, folder / "s3"]
    files = [folder / "lock"]
    if database is not None:
        folders.append(database.parent)
        files.append(database.parent / "reserve")
        files += (Path(f"{database}{end}") for end in ("", "-wal", "-shm"))
    if not settings.blob_url.startswith("s3://"):
        folders += (Path(settings.blob_url), Path(settings.blob_url, "incoming"))
    yield from map(_nearest, folders)
    yield from (file.absolute() for file in files if file.exists())


def _may_use(path: Path) -> bool:
    mode = READ_WRITE | os.X_OK if path.is_dir() else READ_WRITE
    return os.access(path, mode, effective_ids=True)


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
