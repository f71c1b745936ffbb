"""Who is let in: keys from the database, held in memory, so that asking costs no time.

A key that was made or revoked, here or by another replica, counts after `REFRESH_S` at most.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Literal

import structlog
from anyio.to_thread import run_sync

from service.errors import Unavailable
from service.web.access.fast_path import Headers
from service.web.access.hosts import Hosts
from service.web.access.keys import SCOPES, Key, Keys, matching
from service.web.http.callers import Caller, Rate

REFRESH_S = 1.0
COOKIE = "svm_key"
"""A browser's key, set by the page `/login`."""
KNOWN = 4096
"""Texts of keys, and addresses, of which the caller is remembered."""

log = structlog.stdlib.get_logger("service.web")


class Gate:
    """Finds the caller of a request. Belongs to one event loop."""

    def __init__(
        self,
        keys: Keys,
        auth: Literal["auto", "on", "off"],
        requests_per_s: float | None,
        hosts: Hosts,
    ) -> None:
        self.changed: list[Callable[[], None]] = []
        """Called when keys have changed: whoever remembers a caller forgets it."""
        self._keys = keys
        self._auth = auth
        self._requests_per_s = requests_per_s
        self._hosts = hosts
        self._present: dict[str, Key] = {}
        self._rates: dict[str, Rate] = {}
        self._known: OrderedDict[str, Caller] = OrderedDict()
        self._anyone = Caller("", frozenset(SCOPES))

    @property
    def is_open(self) -> bool:
        """Nobody needs a key."""
        return self._auth == "off" or (self._auth == "auto" and not self._present)

    def is_for(self, headers: Headers) -> bool:
        """Whether the request's Host is a name of this service."""
        return self._hosts.allow(headers)

    def find(self, headers: Headers, address: str) -> Caller | None:
        """The caller; None where it needs a key and has no valid one."""
        if self.is_open:
            return self._at(address)
        text = _text(headers)
        if text is None:
            return None
        caller = self._known.get(text)
        if caller is None:
            key = matching(self._present, text)
            if key is None:
                return None
            caller = self._remember(text, Caller(key.name, key.scopes, self._rate(key)))
        return caller

    def find_quickly(self, headers: Headers) -> Caller | None:
        """The same for who has not asked for the address yet, which a proxy may have told."""
        if not self.is_for(headers):
            return None
        if not self.is_open:
            return self.find(headers, "")
        if self._requests_per_s is not None:
            return None
        return self._anyone

    async def refresh(self) -> None:
        """Read the keys."""
        present = {key.id: key for key in await run_sync(self._keys.all)}
        if present != self._present:
            self._present = present
            self._known.clear()
            for forget in self.changed:
                forget()

    async def refresh_forever(self) -> None:
        while self._auth != "off":
            await asyncio.sleep(REFRESH_S)
            try:
                await self.refresh()
            except Unavailable:
                pass  # no key can have been revoked meanwhile
            except Exception:
                log.exception("API keys could not be read")

    def _at(self, address: str) -> Caller:
        caller = self._known.get(address)
        if caller is None:
            per_s = self._requests_per_s
            rate = None if per_s is None else Rate(per_s)
            caller = self._remember(address, Caller(address, self._anyone.scopes, rate))
        return caller

    def _rate(self, key: Key) -> Rate | None:
        per_s = key.requests_per_s or self._requests_per_s
        if per_s is None:
            return None
        rate = self._rates.get(key.id)
        if rate is None or rate.per_s != per_s:
            rate = self._rates[key.id] = Rate(per_s)
        return rate

    def _remember(self, name: str, caller: Caller) -> Caller:
        self._known[name] = caller
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return caller


def _text(headers: Headers) -> str | None:
    """The key that was sent: Authorization counts before the cookie."""
    cookie = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            return text.strip() if scheme.lower() == "bearer" else None
        if name == b"cookie":
            cookie = value.decode("latin-1")
    if cookie is None or COOKIE not in cookie:
        return None
    try:
        found = SimpleCookie(cookie).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value
