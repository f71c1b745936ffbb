"""Leases after a clock was set back: they would last as much longer."""

from __future__ import annotations

import sqlalchemy as sa

from service.storage.database.database import Database, now
from service.storage.database.tables import idempotency_keys, job_parts, jobs


def shorten_leases(database: Database, lease_s: float) -> None:
    """Let every lease end in at most `lease_s` seconds, as one that begins now.

    For the start of the only service of a database: its processes may have died with their leases,
    and the clock may have been wrong. Raises Unavailable.
    """
    latest = now() + lease_s
    with database.write() as connection:
        for table in (jobs, job_parts, idempotency_keys):
            later = table.c.lease_expires_at > latest
            connection.execute(sa.update(table).where(later).values(lease_expires_at=latest))
