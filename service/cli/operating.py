"""`svm-service migrate`, `backup` and `restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import typer

from service.cli.database import opened_database
from service.cli.environment import locked_data_dir, read_settings
from service.cli.output import FAILED, print_fields, print_json, say
from service.storage.backups.backup import Saved, back_up
from service.storage.backups.restoring import restore
from service.storage.blobs import open_blobs


def migrate() -> None:
    with locked_data_dir() as settings, opened_database(settings) as database:
        database.migrate()
        print("the database is up to date")


def backup(file: Path, as_json: bool) -> None:
    """The service can run meanwhile: this takes no lock and changes nothing."""
    settings = read_settings()
    with opened_database(settings) as database, _counted("saved") as show:
        saved = back_up(database, open_blobs(settings), file, show)
    _print(f"saved to {file}", saved, as_json)
    if saved.damaged:
        say("missing or damaged in the service, so not in the backup:")
        for key in saved.damaged:
            say(f"  {key}")
        raise typer.Exit(FAILED)


def restore_backup(file: Path, as_json: bool) -> None:
    with (
        locked_data_dir() as settings,
        opened_database(settings) as database,
        _counted("restored") as show,
    ):
        saved = restore(database, open_blobs(settings), file, show)
    _print(f"restored from {file}", saved, as_json)


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
