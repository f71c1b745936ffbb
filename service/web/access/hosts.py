"""The names by which callers may reach the service, as the Host header gives them.

A page can let a name of its own lead to this machine (DNS rebinding): the browser then takes the
service for the page's own site, and gives its name as Host. An address cannot be used so, because a
page from an address comes from there. So `localhost` and all addresses are allowed, and of other
names those that belong to the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from service.addresses import ANY, is_address

KNOWN = 1024
"""Values of the header of which it is remembered that they are allowed."""
_HOST = re.compile(rb"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})(?::[0-9]{0,5})?")


class Hosts:
    """Decides about the Host header of requests."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`, in lower case, are allowed besides localhost and addresses: `*.example.com` are
        all below example.com, `*` is any name."""
        names = set(names)
        self._any = ANY in names
        self._names = names | {"localhost"}
        self._endings = (".localhost", *(name[1:] for name in names if name.startswith("*.")))
        self._known: set[bytes] = set()

    def allow(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether the request is for this service. A request without a Host, which no browser
        sends, is."""
        return self._any or all(
            value in self._known or self._allows(value)
            for name, value in headers
            if name == b"host"
        )

    def _allows(self, value: bytes) -> bool:
        match = _HOST.fullmatch(value)
        if match is None:
            return False
        name = match[1].decode().lower().removesuffix(".")
        if not (name in self._names or name.endswith(self._endings) or is_address(name)):
            return False
        if len(self._known) < KNOWN:
            self._known.add(value)
        return True
