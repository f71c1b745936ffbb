"""Files belong to one database, which alone may sweep them.

The files bear a mark with the database's own id. Without it, a service that was given the files of
one database and the address of another would take all of them for orphans.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from service.storage.blobs import Blobs
from service.storage.database import Database, in_turn, new_id
from service.storage.tables import datasets, identity, jobs, models

MARKS = "owner"
"""The key of the mark is `owner/<id>`."""


class ForeignFiles(Exception):
    """The files are those of another database."""

    def __init__(self) -> None:
        super().__init__(
            "the files belong to another database, and would be lost; set SVM_DATABASE_URL to "
            "theirs, or SVM_BLOB_URL to another place"
        )


def claim(database: Database, blobs: Blobs) -> None:
    """Mark the files as this database's. Raises ForeignFiles where they are not, Unavailable."""
    mark = f"{MARKS}/{_identity(database)}"
    marks = set(blobs.keys(MARKS))
    if not marks:
        # Another replica may set the mark, and another database its own, at the same time.
        if _is_new(database) and set(blobs.keys()) - {mark}:
            raise ForeignFiles
        blobs.write(mark, b"")
        marks = set(blobs.keys(MARKS))
    if marks != {mark}:
        raise ForeignFiles


def check_owner(database: Database, blobs: Blobs) -> None:
    """Change nothing. Raises ForeignFiles where a service would not start, Unavailable."""
    with database.read() as connection:
        found = connection.scalar(sa.select(identity.c.id))
    marks = set(blobs.keys(MARKS))
    if marks - {f"{MARKS}/{found}"} or (found is None and _is_new(database) and set(blobs.keys())):
        raise ForeignFiles


def secret_of(database: Database) -> bytes:
    """What this installation seals with, the same for all its replicas; 256 random bits."""
    _identity(database)
    with database.read() as connection:
        return bytes.fromhex(connection.scalar(sa.select(identity.c.secret)) or "")


def _identity(database: Database) -> str:
    with database.write() as connection:
        in_turn(connection, "identity")
        found: str | None = connection.scalar(sa.select(identity.c.id))
        if found is None:
            found = new_id("db")
            connection.execute(identity.insert().values(id=found))
        unset = identity.update().where(identity.c.secret.is_(None))
        connection.execute(unset.values(secret=secrets.token_hex(32)))
    return found


def _is_new(database: Database) -> bool:
    with database.read() as connection:
        return not any(
            connection.scalar(sa.select(sa.exists().select_from(table)))
            for table in (datasets, jobs, models)
        )
