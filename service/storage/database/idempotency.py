"""Requests that happen once: a row for each Idempotency-Key, with the reply once there is one.

A row without a reply is a lease: whoever holds it works on the request and renews the lease. It
runs out when its holder dies, and the key is free again. The reply is written in the transaction
that creates what was asked for, and only by the present holder: both are there or neither is, and
a holder that was thought dead creates nothing.
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
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reservation:
    """The right to carry out the request with this key, as long as it is renewed."""

    caller: str
    key: str
    holder: str
    """Drawn anew for every reservation."""

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
        """The right to carry out a request, or what was answered to it before.

        Raises InvalidContent where the key stands for another request, and Conflict while the same
        one is carried out.
        """
        found = sa.select(keys, (keys.c.lease_expires_at < now()).label("expired"))
        found = found.where(keys.c.caller == caller, keys.c.key == key).with_for_update()
        with self._database.write() as connection:
            transaction_lock(connection, f"idempotency {caller} {key}")
            row = connection.execute(found).first()
            if row is None or (row.status is None and row.expired):
                return self._take(connection, caller, key, fingerprint)
        if row.fingerprint != fingerprint:
            raise InvalidContent(
                "idempotency-key-reused",
                "the Idempotency-Key was sent with another request; draw a new one for this",
            )
        if row.status is None:
            raise _in_use()
        return StoredReply(row.status, row.headers, zlib.decompress(row.body))

    def renew(self, reservation: Reservation) -> None:
        """Nothing happens where the reservation is over."""
        renewed = sa.update(keys).where(reservation.held)
        with self._database.write() as connection:
            connection.execute(renewed.values(lease_expires_at=now() + self.lease_s))

    def release(self, reservation: Reservation) -> None:
        """The request came to nothing: the same key may be sent again, with any request."""
        with self._database.write() as connection:
            connection.execute(sa.delete(keys).where(reservation.held))

    def keep(self, reservation: Reservation, reply: StoredReply) -> None:
        """Keep a reply that goes with no transaction. Raises Conflict as `keep_reply`."""
        with self._database.write() as connection:
            keep_reply(connection, reservation, reply)

    def prune(self, kept_s: float) -> None:
        """Forget replies older than `kept_s` seconds, or a day, and leases that nobody took up."""
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
    """Write the reply in the transaction of what it tells of.

    Raises Conflict where another request holds the key by now: the transaction must not commit.
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
        "a request with this Idempotency-Key is being carried out; ask again for its reply",
        retry_after_s=RETRY_S,
    )
