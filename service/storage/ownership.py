"""Files belong to one database; only its services sweep them.

A mark among the files has the database's id. Without it, a service with the files of one database
and the address of another would delete all files as orphans.
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
    """The files are of another database, or they are missing."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(
            detail
            or "the files belong to another database, and would be deleted; set SVM_DATABASE_URL "
            "to that database, or SVM_BLOB_URL to another place"
        )


def claim(database: Database, blobs: Blobs) -> None:
    """Mark the files as this database's. Raises ForeignFiles if they are not, Unavailable."""
    check_owner(database, blobs)
    mark = f"{MARKS}/{_identity(database)[0]}"
    if not set(blobs.keys(MARKS)):
        blobs.write(mark, b"")
    if set(blobs.keys(MARKS)) != {mark}:  # another database has claimed them meanwhile
        raise ForeignFiles


def check_owner(database: Database, blobs: Blobs) -> None:
    """Read-only check. Raises ForeignFiles if a service would not start, Unavailable."""
    # In this order: another replica can start at the same time and write rows, mark and files.
    was_new = _is_new(database)
    marks = set(blobs.keys(MARKS))
    has_files = marks or any(not key.startswith(f"{MARKS}/") for key in blobs.keys(""))
    with database.read() as connection:
        own_id = connection.scalar(sa.select(identity.c.id))
    if marks - {f"{MARKS}/{own_id}"} or (has_files and not marks and _is_new(database)):
        raise ForeignFiles
    if not has_files and not was_new and own_id is not None:
        raise ForeignFiles(
            "the files of this database are missing; mount their disk, or set SVM_BLOB_URL to "
            "their place"
        )


def secret_of(database: Database) -> bytes:
    """The key for signatures, the same for all replicas of this installation; 256 random bits."""
    return bytes.fromhex(_identity(database)[1])


def _identity(database: Database) -> tuple[str, str]:
    """The id and the secret, which the first call creates."""
    with database.write() as connection:
        transaction_lock(connection, "identity")
        query = sa.select(identity.c.id, identity.c.secret)
        if connection.execute(query).first() is None:
            own = {"id": new_id("db"), "secret": secrets.token_hex(32)}
            connection.execute(identity.insert().values(own))
        own_id, secret = connection.execute(query).one()
        return own_id, secret


def _is_new(database: Database) -> bool:
    with database.read() as connection:
        return not any(
            connection.scalar(sa.select(sa.exists().select_from(table)))
            for table in (datasets, jobs, models)
        )
