"""What a worker gives to the jobs that it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from service.datasets.store import DatasetStore
from service.jobs.core.job import Job
from service.jobs.parts.lending import Offers
from service.jobs.spread.connection import Connection
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.arrays import Arrays
from service.storage.blobs import BlobDamaged, Blobs
from svm.errors import CheckpointMismatch

CHECKPOINT_LOST = (
    "The last checkpoint could not be used, so the training started again from the beginning."
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunContext:
    """Its stores and settings."""

    datasets: DatasetStore
    models: ModelRegistry
    blobs: Blobs
    offers: Offers
    settings: Settings
    connection: Connection | None = None
    """To the workers of Dask."""

    def checkpoint(self, job: Job) -> Arrays | None:
        """What the last attempt saved; None if it saved nothing. Raises BlobDamaged."""
        if job.checkpoint_key is None or job.checkpoint_sha256 is None:
            return None
        return self.blobs.read_arrays(job.checkpoint_key, job.checkpoint_sha256)

    def resume(self, job: Job, begin: Callable[[Arrays], T]) -> tuple[T, tuple[str, ...]]:
        """What `begin` makes of the last checkpoint, or of none if there is none, it is damaged, or
        `begin` raises CheckpointMismatch; and warnings."""
        try:
            return begin(self.checkpoint(job) or {}), ()
        except (BlobDamaged, CheckpointMismatch):
            return begin({}), (CHECKPOINT_LOST,)
