"""Deliveries: requests to the callbacks of jobs, from the end of a job until a receiver has it.

A row is written in the transaction that ends the job. A sender leases it by moving the time of its
next attempt, so another one, of any replica, takes over if the sender dies. Receivers get each
delivery at least once, always with the same id.

Callbacks go to hosts that the operator allows, at addresses that are public or allowed: a caller
must not reach what only this machine can reach. So the host's name is checked first, then every
address that it resolves to, and the connection is made to one of these addresses: a name that
resolves to another address a moment later (DNS rebinding) changes nothing. Requests are signed as
Standard Webhooks has it:
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import json
import math
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

import anyio
import sqlalchemy as sa
import structlog
from anyio.to_thread import run_sync

from service import __version__
from service.addresses import ANY, callback_targets, is_address
from service.errors import InvalidContent
from service.storage.database import Database, new_id, now
from service.storage.database.tables import DeliveryRow, deliveries

if TYPE_CHECKING:
    import httpx2

LEASE_S = 30.0
"""More than an attempt can take."""
FIRST_PAUSE_S = 5.0
"""Before the second attempt; doubled before each further one, up to an hour."""
LONGEST_PAUSE_S = 3600.0
DAY_S = 24 * 3600.0
"""After this time there are no further attempts."""


@dataclass(frozen=True, slots=True)
class Delivery(DeliveryRow):
    """A row of the table."""

    @property
    def event(self) -> str:
        """Its type."""
        return str(json.loads(self.body)["type"])

    @property
    def state(self) -> Literal["waiting", "delivered", "failed"]:
        if self.delivered_at is not None:
            return "delivered"
        return "failed" if self.next_at is None else "waiting"


@dataclass(frozen=True, slots=True)
class SendResult:
    """What came of an attempt."""

    status: int | None
    """The status of the reply, if there was one."""
    error: str | None
    """Why it was not accepted; None if it was."""
    is_final: bool = False
    """The receiver wants no further attempt."""


def write(connection: sa.Connection, job_id: str, url: str, body: Mapping[str, Any]) -> None:
    """Write a delivery in the transaction of what it reports."""
    values = {
        "id": new_id("msg"),
        "job_id": job_id,
        "created_at": now(),
        "url": url,
        "body": json.dumps(body, separators=(",", ":")),
        "attempts": 0,
        "next_at": now(),
    }
    connection.execute(sa.insert(deliveries).values(values))


class Deliveries:
    """The table. Safe to share between threads; only one task may `take`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._due_at = -math.inf

    @property
    def pause_s(self) -> float:
        """Time until the next one is due, as far as `take` knows."""
        return max(0.0, self._due_at - time.monotonic())

    def take(self, most: int) -> list[Delivery]:
        """Lease deliveries that are due. Writes nothing if there are none."""
        self._due_at = -math.inf
        with self._database.read() as connection:
            due_in = connection.scalar(_DUE_IN)
        if due_in is None or due_in > 0:
            self._due_at = math.inf if due_in is None else time.monotonic() + due_in
            return []
        due = (
            sa.select(deliveries.c.id)
            .where(deliveries.c.next_at <= now())
            .order_by(deliveries.c.next_at)
            .limit(most)
            .with_for_update(skip_locked=True)
        )
        # A lost lease or outcome means another attempt, which receivers expect anyway.
        with self._database.write(synced=False) as connection:
            ids = connection.scalars(due).all()
            leased = (
                sa.update(deliveries)
                .where(deliveries.c.id.in_(ids))
                .values(next_at=now() + LEASE_S, attempts=deliveries.c.attempts + 1)
                .returning(*deliveries.c)
            )
            return [Delivery(**row._mapping) for row in connection.execute(leased)]

    def settle(self, delivery: Delivery, answer: SendResult) -> None:
        """Write what came of an attempt, unless another one has begun meanwhile."""
        values: dict[str, Any] = {"last_error": answer.error}
        if answer.error is None:
            values |= {"delivered_at": now(), "next_at": None}
        elif answer.is_final:
            values["next_at"] = None
        else:
            pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (delivery.attempts - 1))
            later = now() + pause_s
            too_late = later > deliveries.c.created_at + DAY_S
            values["next_at"] = sa.case((too_late, None), else_=later)
        ours = deliveries.c.id == delivery.id, deliveries.c.attempts == delivery.attempts
        with self._database.write(synced=False) as connection:
            connection.execute(sa.update(deliveries).where(*ours).values(values))

    def of_job(self, job_id: str) -> list[Delivery]:
        """The newest first."""
        statement = (
            sa.select(deliveries)
            .where(deliveries.c.job_id == job_id)
            .order_by(deliveries.c.created_at.desc())
        )
        with self._database.read() as connection:
            return [Delivery(**row._mapping) for row in connection.execute(statement)]

    def prune(self, kept_s: float) -> None:
        """Delete those that were written more than this ago, and a day."""
        old = deliveries.c.created_at < now() - max(kept_s, DAY_S)
        with self._database.write() as connection:
            connection.execute(sa.delete(deliveries).where(old, deliveries.c.next_at.is_(None)))


_DUE_IN = sa.select(sa.func.min(deliveries.c.next_at) - now())


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


ATTEMPT_S = 15.0
"""Time limit of an attempt, all of it."""
CONNECT_S = 5.0
"""The part of it for a connection to one address."""
MAX_ADDRESSES = 4
"""How many of a host are tried in one attempt."""
AT_ONCE = 64
"""Attempts of one process: a slow receiver leaves room for others."""
LOOK_S = 5.0
"""How often to look for deliveries that another process has written."""
SHORTEST_S = 0.05
"""Between two looks, while another process has locked what is due."""
MAX_ERROR = 300
"""Characters of an error that are kept."""
GONE = 410
"""The status by which a receiver says that it wants no more."""

log = structlog.stdlib.get_logger("service.callbacks")


def sign(delivery: Delivery, secrets: Sequence[bytes], timestamp: int) -> dict[str, str]:
    """The headers of an attempt, with a signature by each secret."""
    content = f"{delivery.id}.{timestamp}.{delivery.body}".encode()
    digests = (hmac.digest(secret, content, "sha256") for secret in secrets)
    return {
        "webhook-id": delivery.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(d).decode()}" for d in digests),
    }


class Sender:
    """Sends what is due, in a task of the event loop. An idle one wakes every `LOOK_S`."""

    def __init__(
        self, deliveries: Deliveries, destinations: Destinations, secrets: Sequence[bytes]
    ) -> None:
        self._deliveries = deliveries
        self._destinations = destinations
        self._secrets = secrets
        self._client: httpx2.AsyncClient | None = None
        self._active: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """There may be a new delivery. Can be called in any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Until canceled; then the next process sends again what is being sent."""
        if not self._destinations.any:
            return
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                self._woken.clear()
                pause_s = LOOK_S
                try:
                    pause_s = await self._take()
                except Exception:
                    log.exception("deliveries could not be read")
                with anyio.move_on_after(pause_s):
                    await self._woken.wait()
        finally:
            for task in self._active:
                task.cancel()
            await asyncio.gather(*self._active, return_exceptions=True)
            if self._client is not None:
                await self._client.aclose()

    async def _take(self) -> float:
        """Begin attempts for what is due; the seconds until something else can be due."""
        free = AT_ONCE - len(self._active)
        if free == 0:
            return LOOK_S
        for delivery in await run_sync(self._deliveries.take, free):
            self._client = self._client or await run_sync(_new_client)
            task = asyncio.create_task(self._deliver(delivery))
            self._active.add(task)
            task.add_done_callback(self._ended)
        return min(LOOK_S, max(SHORTEST_S, self._deliveries.pause_s))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._active.discard(task)
        self._woken.set()

    async def _deliver(self, delivery: Delivery) -> None:
        answer = await self._attempt(delivery)
        about = {"delivery_id": delivery.id, "job_id": delivery.job_id}
        result = {"attempt": delivery.attempts, "status": answer.status, "error": answer.error}
        log.info("callback", **about, **result)
        try:
            await run_sync(self._deliveries.settle, delivery, answer)
        except Exception:  # there will be another attempt
            log.exception("the end of an attempt could not be written", **about)

    async def _attempt(self, delivery: Delivery) -> SendResult:
        import httpx2  # not needed without callbacks

        try:
            async with asyncio.timeout(ATTEMPT_S):
                status = await self._post(delivery)
        except TimeoutError:
            return SendResult(None, f"no reply within {ATTEMPT_S:g} s")
        except Refused as refused:
            return SendResult(None, str(refused))
        except (OSError, httpx2.TransportError) as error:
            return SendResult(None, f"no reply: {error}"[:MAX_ERROR])
        if 200 <= status < 300:
            return SendResult(status, None)
        if 300 <= status < 400:
            return SendResult(status, f"replied {status}; redirects are not followed")
        return SendResult(status, f"replied {status}", is_final=status == GONE)

    async def _post(self, delivery: Delivery) -> int:
        """The status of the reply, of which only the header is read.

        Raises Refused, OSError and TransportError.
        """
        import httpx2

        assert self._client is not None
        url = httpx2.URL(delivery.url)
        headers = {
            "host": url.netloc.decode(),
            "content-type": "application/json",
            "user-agent": f"svm-service/{__version__}",
            **sign(delivery, self._secrets, int(time.time())),
        }
        *others, last = (await self._destinations.addresses(delivery.url))[:MAX_ADDRESSES]
        for address in (*others, last):
            try:
                async with self._client.stream(
                    "POST",
                    url.copy_with(host=address),
                    content=delivery.body.encode(),
                    headers=headers,
                    extensions={"sni_hostname": url.host},
                ) as reply:
                    return reply.status_code
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if address == last:
                    raise
        raise AssertionError("there is an address")


def _new_client() -> httpx2.AsyncClient:
    import httpx2

    return httpx2.AsyncClient(
        verify=ssl.create_default_context(),
        trust_env=False,  # no proxies, no credentials
        timeout=httpx2.Timeout(ATTEMPT_S, connect=CONNECT_S),
        # A kept connection would be found by its address, whatever the host's name.
        limits=httpx2.Limits(max_connections=AT_ONCE, max_keepalive_connections=0),
    )
