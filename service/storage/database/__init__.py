"""Tables, transactions and migrations, in SQLite or PostgreSQL."""

from service.storage.database.database import (
    Database,
    UnusableDatabase,
    new_id,
    note_change,
    now,
    present_revision,
    put,
    transaction_lock,
)
from service.storage.database.signals import (
    CHANGES,
    WORK,
    announce_change,
    announce_work,
    listen,
)

__all__ = [
    "CHANGES",
    "WORK",
    "Database",
    "UnusableDatabase",
    "announce_change",
    "announce_work",
    "listen",
    "new_id",
    "note_change",
    "now",
    "present_revision",
    "put",
    "transaction_lock",
]
