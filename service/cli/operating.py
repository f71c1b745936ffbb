"""`svm-service migrate`, `backup` and `restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import typer

from service.cli.environment import locked_data_dir, make_data_dir, read_settings
from service.cli.output import FAILED, fail, print_fields, print_json, say
from service.errors import ServiceError
from service.settings import Settings
from service.storage.backups.backup import Saved, back_up
from service.storage.backups.manifest import BackupFailed
from service.storage.backups.restoring import restore
from service.storage.blobs import Blobs, open_blobs
from service.storage.database import Database, OtherTables
from service.storage.ownership import ForeignFiles


def migrate() -> None:
    with locked_data_dir() as settings, _opened(settings) as (database, _):
        database.migrate()
        print("the database is up to date")


def backup(file: Path, as_json: bool) -> None:
    """The service can run meanwhile: this takes no lock and changes nothing."""
    with _opened(read_settings()) as (database, blobs), _counted("saved") as show:
        saved = back_up(database, blobs, file, show)
    _print(f"saved to {file}", saved, as_json)
    if saved.damaged:
        say("missing or damaged in the service, so not in the backup:")
        for key in saved.damaged:
            say(f"  {key}")
        raise typer.Exit(FAILED)


def restore_backup(file: Path, as_json: bool) -> None:
    with (
        locked_data_dir() as settings,
        _opened(settings) as (database, blobs),
        _counted("restored") as show,
    ):
        saved = restore(database, blobs, file, show)
    _print(f"restored from {file}", saved, as_json)


@contextmanager
def _opened(settings: Settings) -> Iterator[tuple[Database, Blobs]]:
    """Database and files; an error ends the command with status 1."""
    make_data_dir(settings)
    database = Database(settings.database_url)
    try:
        yield database, open_blobs(settings)
    except ServiceError as error:
        raise fail(f"{error.detail}: {error.__cause__ or ''}".rstrip(": ")) from None
    except (BackupFailed, ForeignFiles, OtherTables, OSError) as error:
        raise fail(str(error)) from None
    finally:
        database.close()


@contextmanager
def _counted(done: str) -> Iterator[Callable[[int, int], None]]:
    """Shows files and bytes on standard error, in a terminal."""
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda files, size: status.update(f"{done} {files:,} files, {size / 1e6:,.1f} MB")


def _print(title: str, saved: Saved, as_json: bool) -> None:
    if as_json:
        print_json(asdict(saved))
        return
    rows = {name.replace("_", " "): f"{count:,}" for name, count in saved.rows.items() if count}
    print_fields(title, {**rows, "files": f"{saved.files:,} ({saved.file_bytes / 1e6:,.1f} MB)"})
