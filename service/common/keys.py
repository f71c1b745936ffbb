"""API keys: names, scopes and rate limits of callers. Only a hash of each key is stored."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import sqlalchemy as sa

from service.errors import NotFound
from service.storage.database import Database, new_id, now, transaction_lock
from service.storage.database.audit import record
from service.storage.database.tables import Key, api_keys

Scope: TypeAlias = Literal["read", "predict", "train", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
FIRST = "first"
"""Name of the key that a service creates by itself."""
FIRST_FILE = "first-key"
_PREFIX = "svm_"


class KeyExists(Exception):
    """A valid key with this name exists."""


class Keys:
    """The table of keys. Safe to share between threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Key]:
        """All keys, revoked ones included, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(api_keys).order_by(api_keys.c.number))
            return [Key(**row._mapping) for row in rows]

    def create(
        self, name: str, scopes: Iterable[Scope], requests_per_s: float | None = None
    ) -> tuple[Key, str]:
        """A new key, and its text, which is not stored.

        Raises KeyExists if there is a valid key with this name.
        """
        with self._database.write() as connection:
            transaction_lock(connection, "api keys")
            same = api_keys.c.name == name, api_keys.c.revoked_at.is_(None)
            if connection.scalar(sa.select(api_keys.c.id).where(*same)) is not None:
                raise KeyExists(
                    f"a key named {name} exists; revoke it first, or choose another name"
                )
            return _create(connection, name, scopes, requests_per_s)

    def revoke(self, id_or_name: str) -> Key:
        """Revoke a key; it may be revoked already. Raises NotFound."""
        which = sa.or_(api_keys.c.id == id_or_name, api_keys.c.name == id_or_name)
        revoked = (
            sa.update(api_keys)
            .where(which, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=now())
            .returning(api_keys.c.id, api_keys.c.name)
        )
        with self._database.write() as connection:
            for key in connection.execute(revoked):
                record(connection, "key.revoke", f"keys/{key.id}", name=key.name)
            newest = sa.select(api_keys).where(which).order_by(api_keys.c.number.desc())
            row = connection.execute(newest).first()
        if row is None:
            raise NotFound("not-found", f"there is no key {id_or_name}")
        return Key(**row._mapping)

    def ensure_first(self, data_dir: Path) -> Path | None:
        """Create a key with all scopes if there was never a key. Its text is written to a file that
        only the owner can read; returns the file's path. Other replicas may do this at the same
        time."""
        with self._database.write() as connection:
            transaction_lock(connection, "api keys")
            if connection.scalar(sa.select(api_keys.c.id).limit(1)) is not None:
                return None
            _, text = _create(connection, FIRST, SCOPES, None)
            path = data_dir / FIRST_FILE
            path.unlink(missing_ok=True)
            # Written before the row is committed: a key without its text would be useless.
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as out:
                out.write(text + "\n")
                out.flush()
                os.fsync(out.fileno())
        return path


def matching(keys: dict[str, Key], text: str) -> Key | None:
    """The key with this text, compared in constant time; None for an unknown or revoked one."""
    id, _, _ = text.removeprefix(_PREFIX).partition("_")
    key = keys.get(f"key_{id}")
    if key is None or key.revoked_at is not None:
        return None
    return key if hmac.compare_digest(_sha256(text), key.sha256) else None


def _create(
    connection: sa.Connection, name: str, scopes: Iterable[Scope], requests_per_s: float | None
) -> tuple[Key, str]:
    id = new_id("key")
    text = f"{_PREFIX}{id.removeprefix('key_')}_{secrets.token_urlsafe(32)}"
    values: dict[str, Any] = {
        "id": id,
        "name": name,
        "scopes": [scope for scope in SCOPES if scope in set(scopes)],
        "sha256": _sha256(text),
        "requests_per_s": requests_per_s,
        "created_at": now(),
    }
    row = connection.execute(sa.insert(api_keys).values(values).returning(*api_keys.c)).one()
    record(connection, "key.create", f"keys/{id}", name=name, scopes=values["scopes"])
    return Key(**row._mapping), text


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
