"""Settings and data directory, for the commands of operators."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import structlog
import typer
from pydantic import ValidationError

from service.cli.output import FAILED, USAGE, fail, say
from service.settings import Settings, misspelled
from service.storage.disk import DataDirInUse, exclusive, private_folder

READ_WRITE = os.R_OK | os.W_OK


def read_settings() -> Settings:
    """Those of the environment; a wrong or misspelled one ends the command with status 2."""
    structlog.configure(
        logger_factory=structlog.ReturnLoggerFactory()
    )  # commands say it themselves
    for name, meant in misspelled(os.environ).items():
        if meant is not None:
            raise fail(f"{name} is not a setting; do you mean {meant}?", USAGE)
        say(f"{name} is not a setting; it is ignored")
    try:
        return Settings()
    except ValidationError as error:
        for fault in error.errors():
            name = "__".join(str(part) for part in fault["loc"]).upper()
            say(f"SVM_{name}: {fault['msg']}")
        raise typer.Exit(USAGE) from None


def make_data_dir(settings: Settings) -> None:
    """Ends the command with status 1 if the folder cannot be created or used."""
    faults = unusable(settings)
    for _, fault in faults:
        say(fault)
    if faults:
        raise typer.Exit(FAILED)
    private_folder(settings.data_dir)


@contextmanager
def locked_data_dir() -> Iterator[Settings]:
    """The settings. The folder of an SQLite database is locked: only one service may use it."""
    settings = read_settings()
    make_data_dir(settings)
    lock = exclusive(settings.sqlite_file.parent) if settings.sqlite_file else nullcontext()
    try:
        with lock:
            yield settings
    except DataDirInUse as error:
        raise fail(str(error)) from None


def unusable(settings: Settings) -> list[tuple[str, str]]:
    """The folders and files that this process may not use or create, as `serve` would: what each
    fault is about, and what to do."""
    blocked = [path for path in dict.fromkeys(_used(settings)) if not _may_use(path)]
    if blocked:
        return [("permissions", _advice(path)) for path in blocked]
    fault = _impossible(settings)
    return [("data directory", fault)] if fault else []


def _advice(path: Path) -> str:
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


def _impossible(settings: Settings) -> str | None:
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
