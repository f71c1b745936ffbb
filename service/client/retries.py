"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

from service.client.calls import Call

REFUSED = (429, 503)
"""Nothing was done, and later it may be."""
UNCLEAR = (408, 502, 504)
"""Something between us and the service failed; it may have been done all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often, and how long between: twice as long every time, at random up to that, so that
    callers who failed together do not come again together."""

    times: int = 5
    """Requests after the first one; 0 for none."""
    first_s: float = 0.5
    longest_s: float = 30.0
    """Whoever says `Retry-After` with more than this is taken at his word: no retry."""

    def after_failure(self, call: Call, error: httpx2.TransportError, done: int) -> float | None:
        """Seconds to wait after the connection failed for the `done`th time; None to give up."""
        if isinstance(error, (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)):
            return None  # the request itself is wrong
        never_sent = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout))
        return self._pause(done, None) if never_sent or call.repeatable else None

    def after_reply(
        self, call: Call, status: int, headers: Mapping[str, str], done: int
    ) -> float | None:
        """Seconds to wait after such a reply; None where it is to be taken as it is."""
        wished_s = retry_after_s(headers)
        # 409: the request came before, and whoever sent it does not know yet what became of it.
        again = status in REFUSED or status in UNCLEAR or (status == 409 and wished_s is not None)
        if not again or not (call.repeatable or status == 429):
            return None
        return self._pause(done, wished_s)

    def _pause(self, done: int, wished_s: float | None) -> float | None:
        if done > self.times or (wished_s or 0) > self.longest_s:
            return None
        backoff = min(self.first_s * 2 ** (done - 1), self.longest_s)
        if wished_s is None:
            return random.uniform(0, backoff)
        return wished_s + random.uniform(0, min(backoff, 1 + wished_s / 4))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` in seconds, whether it is a number or a date (RFC 9110, section 10.2.3)."""
    said = headers.get("retry-after", "").strip()
    if said.isdecimal():
        return float(said)
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # not a date, or one of no time zone
        return None
