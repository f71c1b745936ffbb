"""A part of another worker's job, as a helper carries it out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from service.jobs.core.attempts import Work
from service.jobs.core.leases import LeaseLost
from service.jobs.parts.leases import PartLease, PartLeases
from svm.errors import Interrupted

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass
class Kept:
    """What a worker has prepared for the parts of one job."""

    job_id: str = ""
    value: Any = None


class PartWork(Work):
    """A leased part. `job` is its job with the attempt, checkpoint and progress of the part."""

    def __init__(
        self,
        lease: PartLease,
        leases: PartLeases,
        *given: Any,
        kept: Kept | None = None,
        **also: Any,
    ) -> None:
        super().__init__(lease, leases, *given, **also)
        self.number = lease.number
        self._part_leases = leases
        self._kept = kept or Kept()

    def once(self, make: Callable[[], T]) -> T:
        """What `make` gave for an earlier part of the same job in this worker, or gives now."""
        if self._kept.job_id != self.job.id:
            self._kept.job_id, self._kept.value = "", None  # free its memory first
            self._kept.value = make()
            self._kept.job_id = self.job.id
        value: T = self._kept.value
        return value

    def deliver(self, content: bytes) -> None:
        """End the part with its result. Raises LeaseLost."""
        write = self._part_leases.deliver
        self.insist(lambda: write(self.lease, content, self.latest_report()))

    def refuse(self) -> None:
        """Leave the part to its job. Raises LeaseLost."""
        self.insist(lambda: self._part_leases.refuse(self.lease))


def carry_out_part(run: Callable[[PartWork], None], part: PartWork) -> None:
    """Do a part, or give it back, whatever happens. Raises LeaseLost, and PASSING errors if this
    process stops before the end could be written."""
    try:
        run(part)
    except Interrupted:
        part.give_back()
    except LeaseLost:
        raise
    except Exception:  # such as a training that diverges, or a file that only this machine lacks
        logger.info("part left to its job", exc_info=True)
        part.refuse()
