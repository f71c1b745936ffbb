from service.storage.database.database import (
    Database,
    NewerTables,
    in_turn,
    new_id,
    note_change,
    now,
    present_revision,
    revisions,
)

__all__ = [
    "Database",
    "NewerTables",
    "in_turn",
    "new_id",
    "note_change",
    "now",
    "present_revision",
    "revisions",
]
