"""From a request to a queued job: the part that all kinds of jobs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.errors import ServiceError, StorageFull, Unavailable
from service.jobs.callbacks import Destinations
from service.jobs.collection.schemas import KindCreate
from service.jobs.core.job import Job
from service.jobs.core.model_columns import unused_columns
from service.jobs.core.store import Also, AlsoAll, JobStore, NewJob
from service.jobs.kinds import Kind
from service.models.registry import ModelRegistry
from service.settings import Limits
from service.storage.database.tables import ModelVersion

log = structlog.stdlib.get_logger("service.jobs")


Body = TypeVar("Body", bound=KindCreate)


@dataclass(frozen=True, slots=True)
class Stores:
    """What a request for a job is checked against, and where the job is queued."""

    jobs: JobStore
    datasets: DatasetStore
    models: ModelRegistry
    limits: Limits
    destinations: Destinations
    """Where callbacks may go."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A checked request: the job that can be queued."""

    spec: Mapping[str, Any]
    dataset: Dataset
    model_name: str | None
    needs: ModelVersion | None = None
    """The model version that the job reads."""


def scoring_draft(body: KindCreate, dataset: Dataset, version: ModelVersion, **more: Any) -> Draft:
    """Of a job that scores the rows of a dataset by a model version; `more` members of its spec."""
    spec = {
        **body.model_dump(mode="json"),
        "dataset_id": dataset.id,
        "model": {"name": version.model_name, "version": version.version},
        "ignored_columns": unused_columns(dataset, version),
        **more,
    }
    return Draft(spec, dataset, version.model_name, needs=version)


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
        job = self.stores.jobs.create(self._new(body), caller, request_id, also)
        self._log(job)
        return job

    def queue_all(
        self,
        bodies: Sequence[Body | ServiceError],
        caller: str,
        request_id: str | None,
        also: AlsoAll | None = None,
    ) -> list[Job | ServiceError]:
        """For each request the queued job, or why it was refused; for an error itself."""
        stores = replace(self.stores, datasets=self.stores.datasets.reading_once())
        new = [replace(self, stores=stores)._new_or_refused(body) for body in bodies]
        results = self.stores.jobs.create_all(new, caller, request_id, also)
        for job in results:
            if isinstance(job, Job):
                self._log(job)
        return results

    def _new_or_refused(self, body: Body | ServiceError) -> NewJob | ServiceError:
        if isinstance(body, ServiceError):
            return body
        try:
            return self._new(body)
        except (Unavailable, StorageFull):  # this is about none of the requests
            raise
        except ServiceError as error:
            return error

    def _new(self, body: Body) -> NewJob:
        if body.callback is not None:
            self.stores.destinations.require(body.callback)
        draft = self.draft(body)
        needs = draft.needs
        return NewJob(
            kind=self.kind.name,
            spec=dict(draft.spec),
            dataset_id=draft.dataset.id,
            dataset_digest=draft.dataset.matrix_digest,
            model_name=draft.model_name,
            needs_version=None if needs is None else (needs.model_name, needs.version),
            priority=body.priority,
            tags=body.tags,
            callback=body.callback,
        )

    def _log(self, job: Job) -> None:
        log.info("job queued", job_id=job.id, kind=job.kind)
