"""Settings and data directory, for the commands of operators."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import structlog
import typer
from pydantic import ValidationError

from service.cli.output import FAILED, USAGE, fail, say
from service.cli.permissions import advice, blocked, impossible
from service.settings import Settings, misspelled
from service.storage.disk import DataDirInUse, exclusive, private_folder


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
    paths = blocked(settings)
    for path in paths:
        say(advice(path))
    if paths:
        raise typer.Exit(FAILED)
    if fault := impossible(settings):
        raise fail(fault)
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
