"""What a kind of job is: a name, and a package with `routes`, `schemas`, `submission` and `run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from service.datasets.store import DatasetStore
from service.jobs.core.attempts import Attempt
from service.jobs.core.job import Job
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.arrays import Arrays, unpack
from service.storage.blobs import Blobs
from service.web.access.keys import Scope


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a worker gives to the jobs that it runs: its stores and settings."""

    datasets: DatasetStore
    models: ModelRegistry
    blobs: Blobs
    settings: Settings

    def checkpoint(self, job: Job) -> Arrays | None:
        """What the last attempt saved; None if it saved nothing. Raises BlobDamaged."""
        if job.checkpoint_key is None or job.checkpoint_sha256 is None:
            return None
        return unpack(self.blobs.read(job.checkpoint_key, job.checkpoint_sha256))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job. Workers import `run`, the application imports `routes`; neither imports the
    other's libraries."""

    name: str
    """In the table and in filters."""
    noun: str
    """Of one job, such as `batch prediction`; its collection is `/v1/batch-predictions`."""
    scope: Scope
    """Of keys that may queue, steer and delete such jobs."""
    package: str
    about: str
    """Its section of the OpenAPI document."""
    title: Callable[[Mapping[str, Any]], str]
    """Of a job with this spec, on the dashboard."""

    @property
    def section(self) -> str:
        """The name of its section."""
        return f"{self.noun}s"

    @property
    def path(self) -> str:
        """Of the collection."""
        return f"/v1/{self.noun.replace(' ', '-')}s"

    @property
    def routes(self) -> Any:
        """A module with `router(stores, access)`."""
        return import_module(f"{self.package}.routes")

    def run(self, context: RunContext, attempt: Attempt) -> None:
        """Carry out a job and end it.

        Raises what the work raises, Interrupted after the checkpoint was saved, and LeaseLost.
        """
        import_module(f"{self.package}.run").run(context, attempt)
