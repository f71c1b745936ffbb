"""Files belong to one database, which alone may sweep them.

The files bear a mark with the database's own id. Without it, a service that was given the files of
one database and the address of another would take all of them for orphans.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from service.storage.blobs import Blobs
from service.storage.database import Database, new_id, transaction_lock
from service.storage.database.tables import datasets, identity, jobs, models

MARKS = "owner"
"""The key of the mark is `owner/<id>`."""


class ForeignFiles(Exception):
    """The files are those of another database, or none are there."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(
            detail
            or "the files belong to another database, and would be lost; set SVM_DATABASE_URL to "
            "theirs, or SVM_BLOB_URL to another place"
        )


def claim(database: Database, blobs: Blobs) -> None:
    """Mark the files as this database's. Raises ForeignFiles if they are not, Unavailable."""
    check_owner(database, blobs)
    mark = f"{MARKS}/{_identity(database)}"
    if not set(blobs.keys(MARKS)):
        blobs.write(mark, b"")
    if set(blobs.keys(MARKS)) != {mark}:  # another database has set its own meanwhile
        raise ForeignFiles


def check_owner(database: Database, blobs: Blobs) -> None:
    """Change nothing. Raises ForeignFiles if a service would not start, Unavailable."""
    # In this order: another replica may start at the same time, and make rows, the mark and files.
    was_new = _is_new(database)
    marks = set(blobs.keys(MARKS))
    there = marks or any(not key.startswith(f"{MARKS}/") for key in blobs.keys(""))
    with database.read() as connection:
        found = connection.scalar(sa.select(identity.c.id))
    if marks - {f"{MARKS}/{found}"} or (there and not marks and _is_new(database)):
        raise ForeignFiles
    if not there and not was_new and found is not None:
        raise ForeignFiles(
            "none of the files of this database are there; mount their disk, or set SVM_BLOB_URL "
            "to their place"
        )


def secret_of(database: Database) -> bytes:
    """What this installation seals with, the same for all its replicas; 256 random bits."""
    _identity(database)
    with database.read() as connection:
        return bytes.fromhex(connection.scalar(sa.select(identity.c.secret)) or "")


def _identity(database: Database) -> str:
    with database.write() as connection:
        transaction_lock(connection, "identity")
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
