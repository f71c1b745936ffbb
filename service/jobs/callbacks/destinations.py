"""Where callbacks may go: hosts that the operator allows, at addresses that are public or allowed.

A caller must not reach what only this machine can reach. So the host's name is checked first, then
every address that it resolves to, and the connection is made to one of these addresses: a name that
resolves to another address a moment later (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import SplitResult, urlsplit

from service.addresses import ANY, callback_targets, is_address
from service.errors import InvalidContent

PORTS = {"http": 80, "https": 443}
_PUBLIC = ipaddress.IPv6Network("2000::/3")
"""The only IPv6 addresses that are assigned to the internet; outside are, among others, those that
contain an IPv4 address, such as ::7f00:1 and 64:ff9b::7f00:1."""
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        ("2001::/23", "2002::/16", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24"),
    )
)
"""Tunnels to IPv4 addresses (Teredo, 6to4), and what Python's list of special addresses lacks."""
_ISATAP = 0x5EFE
"""In an interface identifier, before the IPv4 address that it leads to (RFC 5214)."""

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host and port. Raises OSError."""


class Refused(Exception):
    """A callback must not go there; the message says why, without an address."""


async def resolve(host: str, port: int) -> list[str]:
    """By the system's resolver, in its order."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in addresses))


class Destinations:
    """The rules of one installation."""

    def __init__(self, allowed: str, resolve: Resolve = resolve) -> None:
        """`allowed` is the setting `callback_hosts`."""
        self._names, self._networks = callback_targets(allowed)
        self._resolve = resolve

    @property
    def any(self) -> bool:
        """Whether there are callbacks at all."""
        return bool(self._names or self._networks)

    def require(self, url: str) -> None:
        """Raises InvalidContent for a URL whose host is not allowed."""
        try:
            self._check_name(urlsplit(url))
        except Refused as refused:
            raise InvalidContent.at("/callback", "invalid-field", str(refused)) from None

    async def addresses(self, url: str) -> list[str]:
        """To connect to, in this order. Raises Refused, and OSError if there are none."""
        parts = urlsplit(url)
        host = self._check_name(parts)
        addresses = await self._resolve(host, parts.port or PORTS[parts.scheme])
        if not addresses or not all(map(self._allows_address, addresses)):
            raise Refused(
                f"{host} has an address that is not public, and not in SVM_CALLBACK_HOSTS"
            )
        return addresses

    def _check_name(self, parts: SplitResult) -> str:
        host = parts.hostname or ""
        if is_address(host):
            allowed = ANY in self._names or self._in_network(host)
        else:
            endings = tuple(name[1:] for name in self._names if name.startswith("*."))
            allowed = ANY in self._names or host in self._names or host.endswith(endings)
        if not allowed:
            raise Refused(
                f"callbacks to {host[:100]} are not allowed; have the operator add it to "
                "SVM_CALLBACK_HOSTS"
            )
        return host

    def _allows_address(self, text: str) -> bool:
        return _is_public(_plain(text)) or self._in_network(text)

    def _in_network(self, text: str) -> bool:
        address = _plain(text)
        return any(address in network for network in self._networks)


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if not address.is_global or address.is_multicast:
        return False
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.version == 4 or (
        address in _PUBLIC and int(address) >> 32 & 0xFCFF_FFFF != _ISATAP
    )


def _plain(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IPv4 address that is written as IPv6 is an IPv4 address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
