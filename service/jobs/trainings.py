"""From a request for a training to a queued job, whoever asks for it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import structlog

from service.datasets.store import DatasetStore
from service.jobs.admission import check_trainable
from service.jobs.job import Job
from service.jobs.schemas import MAX_SEED, JobCreate
from service.jobs.store import Also, JobStore
from service.jobs.warm_starts import check_start, find_start
from service.models.registry import ModelRegistry
from service.settings import Limits

log = structlog.stdlib.get_logger("service.jobs")


@dataclass(frozen=True, slots=True)
class Trainings:
    """Queues trainings, and refuses those that are known to fail."""

    jobs: JobStore
    datasets: DatasetStore
    models: ModelRegistry
    limits: Limits

    def queue(
        self, body: JobCreate, caller: str, request_id: str | None, also: Also | None = None
    ) -> Job:
        """Raises NotFound for dataset and model, InvalidContent with the code that the training
        would fail with, and what `JobStore.create` raises."""
        dataset = self.datasets.find(body.dataset_id)
        check_trainable(body, dataset, self.limits)
        start = find_start(body, self.models)
        begins_at = None
        if start is not None:
            check_start(body, dataset, start, self.datasets)
            begins_at = (start.model_name, start.version)
        seed = secrets.randbelow(MAX_SEED + 1) if body.seed is None else body.seed
        job = self.jobs.create(
            kind="train",
            spec=body.normalized(dataset.id, seed, begins_at),
            begins_at=begins_at,
            dataset_id=dataset.id,
            dataset_digest=dataset.matrix_digest,
            model_name=body.model_name,
            priority=body.priority,
            labels=body.labels,
            caller=caller,
            request_id=request_id,
            also=also,
        )
        log.info("job queued", job_id=job.id)
        return job
