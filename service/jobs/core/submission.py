"""From a request to a queued job: the part that all kinds of jobs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import structlog

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.jobs.core.job import Job
from service.jobs.core.kind import Kind
from service.jobs.core.store import Also, JobStore
from service.models.registry import ModelRegistry
from service.models.versions import ModelVersion
from service.settings import Limits

log = structlog.stdlib.get_logger("service.jobs")


class Request(Protocol):
    """The fields that all requests for jobs have."""

    @property
    def priority(self) -> int: ...
    @property
    def tags(self) -> dict[str, str]: ...


Body = TypeVar("Body", bound=Request)


@dataclass(frozen=True, slots=True)
class Stores:
    """What a request for a job is checked against, and where the job is queued."""

    jobs: JobStore
    datasets: DatasetStore
    models: ModelRegistry
    limits: Limits


@dataclass(frozen=True, slots=True)
class Draft:
    """A checked request: the job that can be queued."""

    spec: Mapping[str, Any]
    dataset: Dataset
    model_name: str | None
    needs: ModelVersion | None = None
    """The model version that the job reads."""


@dataclass(frozen=True)
class Submission(ABC, Generic[Body]):
    """Queues jobs of one kind, and refuses those that are known to fail."""

    kind: ClassVar[Kind]
    stores: Stores

    @abstractmethod
    def draft(self, body: Body) -> Draft:
        """Raises NotFound for dataset and model, and InvalidContent with the code that the job
        would fail with."""

    def queue(
        self, body: Body, caller: str, request_id: str | None, also: Also | None = None
    ) -> Job:
        """Raises what `draft` and `JobStore.create` raise."""
        draft = self.draft(body)
        needs = draft.needs
        job = self.stores.jobs.create(
            kind=self.kind.name,
            spec=draft.spec,
            dataset_id=draft.dataset.id,
            dataset_digest=draft.dataset.matrix_digest,
            model_name=draft.model_name,
            needs_version=None if needs is None else (needs.model_name, needs.version),
            priority=body.priority,
            tags=body.tags,
            caller=caller,
            request_id=request_id,
            also=also,
        )
        log.info("job queued", job_id=job.id, kind=job.kind)
        return job
