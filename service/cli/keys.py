"""`svm-service keys`: create, list and revoke API keys, while the service runs or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from service.cli.database import opened_database
from service.cli.environment import read_settings
from service.cli.output import USAGE, fail
from service.common.keys import SCOPES, Key, Keys, Scope
from service.common.names import NAME


def create(name: str, scopes: list[Scope], requests_per_s: float | None) -> None:
    if NAME.fullmatch(name) is None:
        raise fail(f"{name!r} is not a name: use lower-case letters, digits, hyphens", USAGE)
    with _table() as table:
        _, text = table.create(name, scopes, requests_per_s)
    print(text)


def show() -> None:
    with _table() as table:
        lines = [("ID", "NAME", "SCOPES", "CREATED", "REVOKED"), *map(_line, table.all())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def revoke(key: str) -> None:
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
