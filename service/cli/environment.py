"""What the commands of the operator run on: settings, and the data directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import typer
from pydantic import ValidationError

from service.settings import Settings, misspelt
from service.storage.lock import DataDirInUse, exclusive


def read_settings() -> Settings:
    """Those of the environment; a wrong or misspelt one ends the command with status 2."""
    for name, meant in misspelt(os.environ).items():
        if meant is not None:
            print(f"{name} is no setting; do you mean {meant}?", file=sys.stderr)
            raise typer.Exit(2)
        print(f"{name} is no setting; it counts for nothing", file=sys.stderr)
    try:
        return Settings()
    except ValidationError as error:
        for fault in error.errors():
            name = "__".join(str(part) for part in fault["loc"]).upper()
            print(f"SVM_{name}: {fault['msg']}", file=sys.stderr)
        raise typer.Exit(2) from None


@contextmanager
def held_data_dir() -> Iterator[Settings]:
    """The settings; the folder of an SQLite database is held, since one service may use it."""
    settings = read_settings()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    held = exclusive(settings.sqlite_file.parent) if settings.sqlite_file else nullcontext()
    try:
        with held:
            yield settings
    except DataDirInUse as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
