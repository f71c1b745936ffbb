from service.storage.database.database import (
    Database,
    NewerTables,
    OlderTables,
    OtherTables,
    new_id,
    note_change,
    now,
    present_revision,
    transaction_lock,
)

__all__ = [
    "Database",
    "NewerTables",
    "OlderTables",
    "OtherTables",
    "new_id",
    "note_change",
    "now",
    "present_revision",
    "transaction_lock",
]
