"""What a kind of job is: a name, and a package with `routes`, `schemas`, `submission` and `run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from service.datasets.store import DatasetStore
from service.jobs.core.attempts import Attempt
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.blobs import Blobs
from service.web.access.keys import Scope

Runner = Callable[[Attempt], None]
"""Carries out a job and ends it. Raises what the work raises, Interrupted after the checkpoint was
saved, and LeaseLost."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What runners get: the stores and the settings of a worker."""

    datasets: DatasetStore
    models: ModelRegistry
    blobs: Blobs
    settings: Settings


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

    @property
    def path(self) -> str:
        """Of the collection."""
        return f"/v1/{self.noun.replace(' ', '-')}s"

    @property
    def routes(self) -> Any:
        """A module with `router(stores, access)`."""
        return import_module(f"{self.package}.routes")

    def runner(self, context: RunContext) -> Runner:
        """The `Runner` of the module `run`."""
        runner: Runner = import_module(f"{self.package}.run").Runner(context)
        return runner
