"""Lists of host names and IP addresses in settings."""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

ANY = "*"
_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")


def host_names(text: str) -> tuple[str, ...]:
    """The host names in a list separated by commas, in lower case.

    Raises ValueError if one is not a host name.
    """
    names = tuple(name.lower() for name in _parts(text))
    for name in names:
        if name != ANY and not _NAME.fullmatch(name):
            raise ValueError(
                f"{name[:100]!r} is not a host name; give names without a port, separated by "
                "commas, such as svm.example.com, *.example.com, or * for any"
            )
    return names


Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def callback_targets(text: str) -> tuple[tuple[str, ...], tuple[Network, ...]]:
    """The host names in a list separated by commas, and the addresses and networks.

    Raises ValueError if one is neither.
    """
    names: list[str] = []
    networks: list[Network] = []
    for part in _parts(text):
        try:
            networks.append(ipaddress.ip_network(part))
        except ValueError:
            names += host_names(part)
    return tuple(names), tuple(networks)


def proxy_addresses(text: str) -> str | list[str]:
    """The addresses and networks in a list with commas, as uvicorn expects them; `*` is all.

    Raises ValueError if one is not an address.
    """
    addresses = _parts(text)
    if addresses == [ANY]:
        return ANY
    for address in addresses:
        try:
            ipaddress.ip_network(address)
        except ValueError:
            raise ValueError(
                f"{address[:100]!r} is not an address; give addresses or networks of proxies, "
                "separated by commas, such as 10.0.0.2 or 10.0.0.0/24, or * for all"
            ) from None
    return addresses


def is_address(host: str) -> bool:
    """Whether a host is an IP address; IPv6 with or without brackets."""
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
