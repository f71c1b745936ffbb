from service.storage.database.database import (
    Database,
    NewerTables,
    OlderTables,
    OtherTables,
    new_id,
    note_change,
    now,
    present_revision,
    put,
    transaction_lock,
)
from service.storage.database.work_signal import announce_work, follow_work

__all__ = [
    "Database",
    "NewerTables",
    "OlderTables",
    "OtherTables",
    "announce_work",
    "follow_work",
    "new_id",
    "note_change",
    "now",
    "present_revision",
    "put",
    "transaction_lock",
]
