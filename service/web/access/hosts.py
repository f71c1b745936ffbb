"""Host names that the Host header of a request may give.

The owner of a web page can make the page's host name resolve to this machine (DNS rebinding). The
browser then treats the service as part of the page's site, and sends the page's name as Host. IP
addresses cannot be misused in this way. So `localhost` and all IP addresses are allowed, and other
names only if they belong to the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from service.addresses import ANY, is_address

MAX_KNOWN = 1024
"""Most header values in the cache of allowed ones."""
_HOST = re.compile(rb"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::[0-9]{0,5})?")


class Hosts:
    """Checks the Host header of requests."""

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
