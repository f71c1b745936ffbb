"""What a running job lends to other workers, and gets back."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress

from service.jobs.core.attempts import PASSING, Attempt
from service.jobs.parts.offers import Offers, Part
from service.storage.arrays import Arrays
from service.storage.blobs import BlobDamaged

LEND_S = 0.1
"""A job lends what it has not begun when it has worked this long; a shorter one does it sooner."""
RETRY_S = 1.0
"""Pause before it tries again."""
LOOK_S = 0.5
"""How often a job looks at its parts while it works."""
WAIT_S = 0.05
"""The same while it has nothing else to do."""

logger = logging.getLogger(__name__)


class Lending:
    """The parts that one attempt at a job has lent, by number.

    While the database fails nothing is lent and nothing comes back; the job works on.
    """

    def __init__(self, offers: Offers, attempt: Attempt) -> None:
        self._offers = offers
        self._lease = attempt.lease
        self._lend_at = time.monotonic() + LEND_S
        self._look_at = 0.0
        self._parts: dict[int, Part] = {}
        self._given: set[int] = set()
        if attempt.job.attempt > 1:  # an earlier attempt may have lent them
            self.look()

    @property
    def numbers(self) -> list[int]:
        """Of all parts that are lent, or done by another worker."""
        return list(self._parts)

    def __contains__(self, number: int) -> bool:
        """Whether the part is lent, or done by another worker."""
        return number in self._parts

    @property
    def is_due(self) -> bool:
        """Whether the job should lend what it can."""
        return self._offers.has_takers and time.monotonic() >= self._lend_at

    @property
    def fractions(self) -> dict[int, float]:
        """How much of each part is done, without those whose results were given."""
        return {
            number: 1.0 if part.is_done else part.progress.get("fraction", 0.0)
            for number, part in self._parts.items()
            if number not in self._given
        }

    def offer(self, checkpoints: Mapping[int, bytes | None]) -> bool:
        """Lend these parts, each from its checkpoint; False if it cannot be now, because a job
        waits or the database fails. Raises LeaseLost."""
        lent = False
        try:
            lent = self._offers.offer(self._lease, checkpoints)
        except PASSING:
            logger.exception("no parts could be lent")
        if not lent:
            self._lend_at = time.monotonic() + RETRY_S
        self._look_at = 0.0
        self.look()
        return lent

    def look(self) -> None:
        """Read how far the parts are, if that was not done just now."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        with suppress(*PASSING):
            self._parts = {part.number: part for part in self._offers.parts(self._lease)}

    def wait(self) -> None:
        """Wait a moment for other workers."""
        time.sleep(WAIT_S)
        self._look_at = 0.0
        self.look()

    def results(self) -> Iterator[tuple[int, Arrays]]:
        """Number and result of the parts that are done, of each once. Raises LeaseLost."""
        for part in list(self._parts.values()):
            if part.is_done and part.number not in self._given:
                with suppress(*PASSING):
                    try:
                        result = self._offers.content(part)
                    except BlobDamaged:
                        self._claim(part)
                    else:
                        self._given.add(part.number)
                        yield part.number, result

    def latest(self) -> Iterator[tuple[int, Arrays]]:
        """Number and result or last checkpoint of all parts."""
        for part in self._parts.values():
            with suppress(*PASSING, BlobDamaged):
                yield part.number, self._offers.content(part)

    def reclaim(self, number: int) -> None:
        """The result cannot be used: the job does the part itself. Raises LeaseLost."""
        self._given.discard(number)  # if it cannot be claimed now, the result is given again
        with suppress(*PASSING):
            self._claim(self._parts[number])

    def claim(self, numbers: Container[int]) -> tuple[int, Arrays] | None:
        """One of these parts that no one does, which is the job's own now, and its checkpoint.
        Raises LeaseLost.

        Others can be lent, too, which the job has done itself: if the reply to an offer was lost.
        """
        for part in list(self._parts.values()):
            with suppress(*PASSING):
                if part.number in numbers and part.is_free and self._claim(part):
                    with suppress(BlobDamaged):
                        return part.number, self._offers.content(part)
                    return part.number, {}
        return None

    def _claim(self, part: Part) -> bool:
        if not self._offers.claim(self._lease, part):
            return False
        del self._parts[part.number]
        return True
