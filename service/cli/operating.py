"""Commands about the data of a service: `migrate`, `backup`, `restore` and `keys`; and `worker`, of
a service on several machines."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer

from service.cli.environment import locked_data_dir, make_data_dir, read_settings
from service.cli.output import FAILED, USAGE, fail, print_fields, print_json, print_rows, say
from service.common.keys import SCOPES, KeyExists, Keys, Scope
from service.common.logs import configure_logging
from service.common.names import NAME
from service.errors import ServiceError
from service.jobs.engine.child import Child
from service.settings import Settings
from service.storage.backups import BackupFailed, Saved, back_up, restore
from service.storage.blobs import open_blobs
from service.storage.database import Database, UnusableDatabase
from service.storage.database.tables import Key
from service.storage.ownership import ForeignFiles


@contextmanager
def opened_database(settings: Settings) -> Iterator[Database]:
    """The database, without a lock: a service can run meanwhile. An error ends the command with
    status 1."""
    make_data_dir(settings)
    database = Database(settings.database_url)
    try:
        yield database
    except ServiceError as error:
        raise fail(f"{error.detail}: {error.__cause__ or ''}".rstrip(": ")) from None
    except (BackupFailed, ForeignFiles, KeyExists, UnusableDatabase, OSError) as error:
        raise fail(str(error)) from None
    finally:
        database.close()


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


def create_key(name: str, scopes: list[Scope], requests_per_s: float | None) -> None:
    if NAME.fullmatch(name) is None:
        raise fail(f"{name!r} is not a name: use lower-case letters, digits, hyphens", USAGE)
    with _table() as table:
        _, text = table.create(name, scopes, requests_per_s)
    print(text)


def show_keys() -> None:
    with _table() as table:
        lines = [_line(key) for key in table.all()]
    print_rows(("ID", "NAME", "SCOPES", "CREATED", "REVOKED"), lines)


def revoke_key(key: str) -> None:
    with _table() as table:
        revoked = table.revoke(key)
    print(f"revoked {revoked.id} of {revoked.name}")


def _line(key: Key) -> tuple[str, ...]:
    scopes = " ".join(scope for scope in SCOPES if scope in key.scopes)
    revoked = "" if key.revoked_at is None else _time(key.revoked_at)
    return key.id, key.name, scopes, _time(key.created_at), revoked


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


@contextmanager
def _table() -> Iterator[Keys]:
    with opened_database(read_settings()) as database:
        database.migrate()
        yield Keys(database)


def worker() -> None:
    """Run the workers of this machine until SIGTERM or SIGINT."""
    with locked_data_dir() as settings:
        if settings.sqlite_file is not None:
            raise fail(
                "SVM_DATABASE_URL: workers on other machines cannot share SQLite; set it to the "
                "PostgreSQL database of the service, and SVM_BLOB_URL to its file store",
                USAGE,
            )
        if settings.workers == 0:
            raise fail("SVM_WORKERS: set it to the number of worker processes", USAGE)
        _keep(settings)


def _keep(settings: Settings) -> None:
    child = Child("service.jobs.engine.supervisor", settings)
    configure_logging(settings.log_level)
    # Python runs its handlers between two bytecodes, so a signal just before a wait would only be
    # seen after it. The wake-up byte is written at once.
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno())
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: None)
    child.start()
    receiver.recv(1)
    child.stop()
