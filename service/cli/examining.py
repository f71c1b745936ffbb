"""`svm-service doctor`: checks everything that a service needs, and prints what to fix."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import psutil
import typer

from service.cli.environment import read_settings, unusable
from service.cli.output import FAILED, print_json
from service.errors import ServiceError
from service.settings import Settings
from service.storage.blobs import Blobs, open_blobs
from service.storage.database import Database, UnusableDatabase, present_revision
from service.storage.database.dialects import DAMAGED
from service.storage.disk import OTHERS, DataDirInUse, check_room, exclusive
from service.storage.inspection import compare_rows_and_files, sqlite_faults
from service.storage.machine_code import VARIABLE, folder_of_user
from service.storage.ownership import ForeignFiles, check_owner

LISTED = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    state: Literal["ok", "note", "wrong"]
    what: str
    detail: str


ok, wrong = partial(Finding, "ok"), partial(Finding, "wrong")
note = partial(Finding, "note")
"""Worth knowing, but not an error."""


def doctor(deep: bool, port: int | None, as_json: bool) -> None:
    """Prints the findings; exit status 1 if something is wrong."""
    findings = []
    settings = read_settings()
    for finding in examine(settings, deep, settings.port if port is None else port):
        findings.append(finding)
        if not as_json:
            print(f"{finding.state:<5}  {finding.what:<14}  {finding.detail}")
    faults = sum(finding.state == "wrong" for finding in findings)
    if as_json:
        print_json({"healthy": not faults, "findings": [asdict(finding) for finding in findings]})
    if faults:
        raise typer.Exit(FAILED)


def examine(settings: Settings, deep: bool, port: int) -> Iterator[Finding]:
    """The findings in the order of dependency: the data directory first."""
    faults = unusable(settings)
    yield from (wrong(*fault) for fault in faults)
    yield from _data_dir(settings, usable=not faults)
    running = None
    if settings.data_dir.is_dir() and not faults:
        if settings.sqlite_file is not None:
            running = _running_service(settings.sqlite_file)
            holder = f"held by the running service with process id {running}"
            yield ok("lock", holder if running else "no service runs")
        with closing(Database(settings.database_url)) as database:
            yield from _reported("database", lambda: _database(database, settings, deep))
            blobs = open_blobs(settings, make=False)
            yield from _reported("files", lambda: _files(database, blobs, deep))
    yield from _compiled_loops(settings.data_dir)
    yield from _memory(settings)
    yield _port(port, running is not None)


def _reported(what: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check; an error becomes a finding, too."""
    try:
        yield from check()
    except ServiceError as error:
        yield wrong(what, f"{error.detail}: {error.__cause__ or error.code}".partition("\n")[0])


def _data_dir(settings: Settings, *, usable: bool) -> Iterator[Finding]:
    data_dir = settings.data_dir
    if not data_dir.is_dir():
        if usable:
            where = data_dir.resolve()
            yield note("data directory", f"{where} does not exist yet; `serve` creates it")
        return
    mode = data_dir.stat().st_mode
    if mode & stat.S_IWOTH:
        yield wrong("permissions", f"every user can write to {data_dir}: run chmod o-w {data_dir}")
    elif mode & OTHERS:
        yield note(
            "permissions",
            f"other users can read {data_dir}: run chmod 700 {data_dir}, unless that is intended",
        )
    yield ok("data directory", str(data_dir.resolve()))
    disk = psutil.disk_usage(str(data_dir))
    space = f"{disk.free / 1e9:,.1f} GB of {disk.total / 1e9:,.1f} GB are free"
    try:
        check_room(data_dir, settings.limits)
    except ServiceError as error:
        yield wrong("disk", f"{space}; {error.detail}: uploads and new jobs are refused")
    else:
        yield ok("disk", space)


def _running_service(database_file: Path) -> int | None:
    """Process id of the service that holds the lock."""
    try:
        with exclusive(database_file.parent):
            return None
    except DataDirInUse as error:
        return error.holder


def _database(database: Database, settings: Settings, deep: bool) -> Iterator[Finding]:
    kind = "SQLite" if settings.sqlite_file else "PostgreSQL"
    if settings.sqlite_file is not None and not settings.sqlite_file.exists():
        yield note("database", f"{settings.sqlite_file} does not exist yet; `serve` creates it")
        return
    newest = database.revisions[0]
    try:
        database.check_encoding()
        present = present_revision(database)
        if present is None:
            yield note("database", f"{kind} without tables; `serve` or `migrate` creates them")
        elif present == newest:
            yield ok("database", f"{kind}, revision {present}")
        else:
            database.check_revision(present)
            yield note(
                "database",
                f"{kind}, revision {present}; `serve` or `migrate` upgrades it to {newest}",
            )
    except UnusableDatabase as error:
        yield wrong("database", str(error))
    for fault in sqlite_faults(database, deep):
        yield wrong("database", f"{DAMAGED}: {fault}")


def _files(database: Database, blobs: Blobs, deep: bool) -> Iterator[Finding]:
    present = present_revision(database)
    if present != database.revisions[0]:
        if present is not None:
            yield note("files", "not checked, the database is from an older version: run `migrate`")
        return
    try:
        check_owner(database, blobs)
    except ForeignFiles as error:
        yield wrong("files", str(error))
        return
    files = compare_rows_and_files(database, blobs, deep)
    for what, keys in (("missing", files.missing), ("damaged", files.damaged)):
        for key in keys[:LISTED]:
            yield wrong(
                "files",
                f"{key} is {what}: restore the last backup, or delete the resource it is of",
            )
        if len(keys) > LISTED:
            yield wrong("files", f"… and {len(keys) - LISTED:,} more are {what}")
    if not files.missing and not files.damaged:
        how = "have the right digests" if deep else "exist; --deep compares their digests"
        yield ok("files", f"{files.named:,} files {how}")
    if files.orphans:
        yield note(
            "files", f"{files.orphans:,} files belong to no row; a running service removes them"
        )


def _compiled_loops(data_dir: Path) -> Iterator[Finding]:
    given = os.environ.get(VARIABLE)
    folder = Path(given) if given else folder_of_user() or data_dir / "numba"
    files = list(folder.rglob("*.nbc")) if folder.is_dir() else []
    if folder.is_dir() and not os.access(folder, os.W_OK):
        yield wrong("compiled loops", f"{folder} is not writable: every start compiles again")
    elif not files:
        yield note("compiled loops", "none yet: the first jobs compile what they need")
    else:
        size_bytes = sum(file.stat().st_size for file in files)
        yield ok("compiled loops", f"{len(files):,} files, {size_bytes / 1e6:,.1f} MB in {folder}")


def _memory(settings: Settings) -> Iterator[Finding]:
    total = psutil.virtual_memory().total
    required = settings.workers * settings.limits.worker_memory_bytes
    memory = f"{settings.workers} workers may use {required / 1e9:,.1f} GB of {total / 1e9:,.1f} GB"
    if required > total:
        memory += ": lower SVM_WORKERS or SVM_LIMITS__WORKER_MEMORY_BYTES"
        yield note("memory", memory)
    else:
        yield ok("memory", memory)


def _port(port: int, running: bool) -> Finding:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        reason = f"port {port}: {os.strerror(error.errno or 0)}"
        if running:
            return ok("port", f"{reason}, probably by the running service")
        return wrong("port", f"{reason}; choose another one with `serve --port` or SVM_PORT")
    return ok("port", f"port {port} is free")
