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
from service.storage.database.signals import announce_work, follow_work

__all__ = [
    "Database",
    "UnusableDatabase",
    "announce_work",
    "follow_work",
    "new_id",
    "note_change",
    "now",
    "present_revision",
    "put",
    "transaction_lock",
]
