"""Sends deliveries, signed as Standard Webhooks has it.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ssl
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import structlog
from anyio.to_thread import run_sync

from service import __version__
from service.jobs.callbacks.deliveries import (
    Deliveries,
    Delivery,
    Destinations,
    Refused,
    SendResult,
)

if TYPE_CHECKING:
    import httpx2

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
