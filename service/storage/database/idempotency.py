"""Idempotent requests: a row for each Idempotency-Key, with the reply as soon as there is one.

A row without a reply is a lease: its holder carries out the request and renews the lease. If the
holder dies, the lease expires and the key is free again. The reply is written in the transaction
that creates the resource, and only by the current holder: so both exist or neither, and a holder
whose lease has expired creates nothing.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from service.errors import Conflict, InvalidContent
from service.storage.database.database import Database, now, transaction_lock
from service.storage.database.tables import idempotency_keys as keys

RETRY_S = 1
MIN_KEPT_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The first reply to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reservation:
    """The right to carry out the request with this key, as long as it is renewed."""

    caller: str
    key: str
    holder: str
    """Random, different for every reservation."""

    @property
    def held(self) -> sa.ColumnElement[bool]:
        return sa.and_(
            keys.c.caller == self.caller,
            keys.c.key == self.key,
            keys.c.holder == self.holder,
            keys.c.status.is_(None),
        )


class Reservations:
    """The table of keys. Safe to share between threads."""

    def __init__(self, database: Database, lease_s: float) -> None:
        self.lease_s = lease_s
        self._database = database

    def reserve(self, caller: str, key: str, fingerprint: str) -> Reservation | StoredReply:
        """The right to carry out a request, or the reply to an earlier one.

        Raises InvalidContent if the key belongs to another request, and Conflict while the same
        request is in progress.
        """
        query = sa.select(keys, (keys.c.lease_expires_at < now()).label("expired"))
        query = query.where(keys.c.caller == caller, keys.c.key == key).with_for_update()
        with self._database.write() as connection:
            transaction_lock(connection, f"idempotency {caller} {key}")
            row = connection.execute(query).first()
            if row is None or (row.status is None and row.expired):
                return self._take(connection, caller, key, fingerprint)
        if row.fingerprint != fingerprint:
            raise InvalidContent(
                "idempotency-key-reused",
                "the Idempotency-Key was used for another request; use a new key",
            )
        if row.status is None:
            raise _in_use()
        return StoredReply(row.status, row.headers, zlib.decompress(row.body))

    def renew(self, reservation: Reservation) -> None:
        """Does nothing if the reservation has ended."""
        renewed = sa.update(keys).where(reservation.held)
        with self._database.write() as connection:
            connection.execute(renewed.values(lease_expires_at=now() + self.lease_s))

    def release(self, reservation: Reservation) -> None:
        """End a reservation without a reply: the key can be used again, for any request."""
        with self._database.write() as connection:
            connection.execute(sa.delete(keys).where(reservation.held))

    def keep(self, reservation: Reservation, reply: StoredReply) -> None:
        """Store a reply in its own transaction. Raises Conflict as `keep_reply`."""
        with self._database.write() as connection:
            keep_reply(connection, reservation, reply)

    def prune(self, kept_s: float) -> None:
        """Delete replies and expired leases older than `kept_s` seconds and a day."""
        oldest = now() - max(kept_s, MIN_KEPT_S)
        with self._database.write() as connection:
            connection.execute(sa.delete(keys).where(keys.c.created_at < oldest))

    def _take(
        self, connection: sa.Connection, caller: str, key: str, fingerprint: str
    ) -> Reservation:
        reservation = Reservation(caller, key, secrets.token_hex(16))
        connection.execute(sa.delete(keys).where(keys.c.caller == caller, keys.c.key == key))
        values: dict[str, Any] = {
            "caller": caller,
            "key": key,
            "fingerprint": fingerprint,
            "holder": reservation.holder,
            "created_at": now(),
            "lease_expires_at": now() + self.lease_s,
        }
        connection.execute(sa.insert(keys).values(values))
        return reservation


def keep_reply(connection: sa.Connection, reservation: Reservation, reply: StoredReply) -> None:
    """Store the reply in the transaction of its request.

    Raises Conflict if another request holds the key now: the transaction must not commit.
    """
    kept = (
        sa.update(keys)
        .where(reservation.held)
        .values(status=reply.status, headers=dict(reply.headers), body=zlib.compress(reply.body))
    )
    if connection.execute(kept).rowcount != 1:
        raise _in_use()


def _in_use() -> Conflict:
    return Conflict(
        "idempotency-key-in-use",
        "a request with this Idempotency-Key is in progress; retry to get its reply",
        retry_after_s=RETRY_S,
    )
