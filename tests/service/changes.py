"""What a database reports of changed models."""

from __future__ import annotations

import time

from service.storage.database import Database, signals


def reported(database: Database) -> set[str]:
    """The models that were changed since this was last asked."""
    time.sleep(2 * signals.POLL_S)  # PostgreSQL reports a change of this process twice
    found: set[str] = set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        names = database.changed_models()
        if names is not None and not names:
            return found - {signals.ANY}
        found.update(names or ())
        time.sleep(signals.POLL_S / 4)
    raise AssertionError("nothing is ever known")
