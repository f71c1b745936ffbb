from service.storage.database.database import (
    Database,
    NewerTables,
    OlderTables,
    OtherTables,
    in_turn,
    new_id,
    note_change,
    now,
    present_revision,
)

__all__ = [
    "Database",
    "NewerTables",
    "OlderTables",
    "OtherTables",
    "in_turn",
    "new_id",
    "note_change",
    "now",
    "present_revision",
]
