"""Finds the caller of a request by its API key, with a copy of the keys in memory.

A key that was created or revoked, here or by another replica, takes effect within `REFRESH_S`.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Literal

import structlog
from anyio.to_thread import run_sync

from service.addresses import ANY, is_address
from service.common.answerer import RawHeaders
from service.common.callers import Caller, Rate
from service.common.keys import SCOPES, Keys, matching
from service.common.shared import Times
from service.errors import Unavailable
from service.storage.database.tables import Key

REFRESH_S = 1.0
COOKIE = "svm_key"
"""Has a browser's key; the page `/login` sets it."""
_COOKIE = COOKIE.encode()
MAX_CALLERS = 4096
"""Most callers in the cache, by the text of their key or by their address."""

log = structlog.stdlib.get_logger("service.web")
MAX_KNOWN = 1024
"""Most header values in the cache of allowed ones."""
_HOST = re.compile(rb"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::[0-9]{0,5})?")


class Authenticator:
    """Finds the caller of a request. Use it in one event loop only."""

    def __init__(
        self,
        keys: Keys,
        auth: Literal["auto", "on", "off"],
        requests_per_s: float | None,
        hosts: Hosts,
        times: Times | None = None,
    ) -> None:
        self._keys = keys
        self._auth = auth
        self._requests_per_s = requests_per_s
        self.allows_host = hosts.allow
        self._present: dict[str, Key] = {}
        self._times = times or Times()
        self._rates: dict[str, Rate] = {}
        self._callers: OrderedDict[str, Caller] = OrderedDict()
        self._anyone = Caller("", frozenset(SCOPES))
        self.changes = 0
        """Grows when the keys change, and with them what `authenticate` answers."""

    @property
    def is_open(self) -> bool:
        """No caller needs a key."""
        return self._auth == "off" or (self._auth == "auto" and not self._present)

    def authenticate(self, headers: RawHeaders, address: str) -> Caller | None:
        """The caller; None if it needs a key and has no valid one."""
        if self.is_open:
            return self._anonymous(address)
        text = _key_text(headers)
        if text is None:
            return None
        caller = self._callers.get(text)
        if caller is None:
            key = matching(self._present, text)
            if key is None:
                return None
            caller = self._remember(
                text, Caller(key.name, frozenset(key.scopes), self._rate(key), key.id)
            )
        return caller

    def authenticate_without_address(self, headers: RawHeaders) -> Caller | None:
        """The same if the address is not known yet. None also means that the address is needed, or
        that the Host header is not allowed."""
        if not self.allows_host(headers):
            return None
        if not self.is_open:
            return self.authenticate(headers, "")
        if self._requests_per_s is not None:
            return None
        return self._anyone

    async def refresh(self) -> None:
        """Read the keys."""
        present = {key.id: key for key in await run_sync(self._keys.all)}
        if present != self._present:
            self._present = present
            self._callers.clear()
            self.changes += 1

    async def refresh_forever(self) -> None:
        while self._auth != "off":
            await asyncio.sleep(REFRESH_S)
            try:
                await self.refresh()
            except Unavailable:
                pass  # without the database no key can be revoked
            except Exception:
                log.exception("API keys could not be read")

    def _anonymous(self, address: str) -> Caller:
        caller = self._callers.get(address)
        if caller is None:
            per_s = self._requests_per_s
            rate = None if per_s is None else Rate(per_s, self._times, address)
            caller = self._remember(address, Caller(address, self._anyone.scopes, rate))
        return caller

    def _rate(self, key: Key) -> Rate | None:
        per_s = key.requests_per_s or self._requests_per_s
        if per_s is None:
            return None
        rate = self._rates.get(key.id)
        if rate is None or rate.per_s != per_s:
            rate = self._rates[key.id] = Rate(per_s, self._times, key.id)
        return rate

    def _remember(self, name: str, caller: Caller) -> Caller:
        self._callers[name] = caller
        if len(self._callers) > MAX_CALLERS:
            self._callers.popitem(last=False)
        return caller


def _key_text(headers: RawHeaders) -> str | None:
    """The text of the key that was sent; Authorization takes precedence over the cookie."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, text = value.decode("latin-1").partition(" ")
            return text.strip() if scheme.lower() == "bearer" else None
    return cookie_of(headers)


def cookie_of(headers: RawHeaders) -> str | None:
    """The browser's key. `http.cookies` would take quadratic time for the whole header."""
    for name, value in headers:
        if name == b"cookie" and _COOKIE in value:
            for pair in value.split(b";"):
                cookie, _, text = pair.partition(b"=")
                if cookie.strip() == _COOKIE:
                    return text.strip().strip(b'"').decode("latin-1")
    return None


def without_cookies(headers: RawHeaders) -> RawHeaders:
    """What the framework may read: it would parse the cookies of every request."""
    return [header for header in headers if header[0] != b"cookie"]


class Hosts:
    """Checks the Host header of requests.

    The owner of a web page can make the page's host name resolve to this machine (DNS rebinding).
    The browser then treats the service as part of the page's site, and sends the page's name as
    Host. IP addresses cannot be misused in this way. So `localhost` and all IP addresses are
    allowed, and other names only if they belong to the service.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`, in lower case, are allowed in addition to localhost and IP addresses.
        `*.example.com` means all names below example.com, `*` means any name."""
        names = set(names)
        self._any = ANY in names
        self._names = names | {"localhost"}
        self._endings = (".localhost", *(name[1:] for name in names if name.startswith("*.")))
        self._known: set[bytes] = set()

    def allow(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether the Host header is allowed. A request without one is allowed: browsers always
        send it."""
        if not self._any:
            for name, value in headers:
                if name == b"host" and value not in self._known and not self._allows(value):
                    return False
        return True

    def _allows(self, value: bytes) -> bool:
        match = _HOST.fullmatch(value)
        if match is None:
            return False
        name = match[1].decode().lower().removesuffix(".")
        if not (name in self._names or name.endswith(self._endings) or is_address(name)):
            return False
        if len(self._known) < MAX_KNOWN:
            self._known.add(value)
        return True
