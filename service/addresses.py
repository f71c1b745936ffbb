"""Lists of names and of addresses, as the settings give them."""

from __future__ import annotations

import ipaddress
import re

ANY = "*"
_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")


def host_names(text: str) -> tuple[str, ...]:
    """The host names in a list with commas, in lower case.

    Raises ValueError for what is not a name.
    """
    names = tuple(name.lower() for name in _parts(text))
    for name in names:
        if name != ANY and not _NAME.fullmatch(name):
            raise ValueError(
                f"{name[:100]!r} is not a host name; give names without a port, separated by "
                "commas, such as svm.example.com, *.example.com, or * for any"
            )
    return names


def proxy_addresses(text: str) -> str | list[str]:
    """The addresses and networks in a list with commas, as uvicorn takes them: `*` is all.

    Raises ValueError for what is not an address.
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
    """Whether a host is an IP address, one of IPv6 in brackets or not."""
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
