"""From a request for a training to a queued job, whoever asks for it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import structlog

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.jobs.core.job import Job
from service.jobs.core.store import Also, JobStore
from service.jobs.read_schemas import JobPlanRead
from service.jobs.training.admission import check_trainable
from service.jobs.training.memory_plan import peak_bytes, rows_stay_in_files
from service.jobs.training.schemas import MAX_SEED, Folds, JobCreate
from service.jobs.training.warm_starts import check_start, find_start
from service.models.registry import ModelRegistry
from service.settings import Limits
from svm.model.multiclass import splits_of

KIND = "train"

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
        dataset, begins_at = self._checked(body)
        seed = secrets.randbelow(MAX_SEED + 1) if body.seed is None else body.seed
        job = self.jobs.create(
            kind=KIND,
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

    def plan(self, body: JobCreate) -> JobPlanRead:
        """What `queue` would queue, and what it would cost. Raises as it does."""
        dataset, _ = self._checked(body)
        in_files = rows_stay_in_files(body, dataset, self.limits.worker_memory_bytes)
        n_classes = len(dataset.classes or ())
        return JobPlanRead(
            dataset_id=dataset.id,
            n_samples=dataset.n_samples,
            n_features=dataset.n_features,
            trainings=1 + (body.validation.folds if isinstance(body.validation, Folds) else 0),
            binary_problems=len(splits_of(body.multiclass, n_classes)),
            cost_per_epoch=body.solver.cost_per_epoch,
            memory_bytes=peak_bytes(body, dataset, in_files=in_files),
            rows_in_files=in_files,
        )

    def _checked(self, body: JobCreate) -> tuple[Dataset, tuple[str, int] | None]:
        """The dataset, and the version that the training begins at."""
        dataset = self.datasets.find(body.dataset_id)
        check_trainable(body, dataset, self.limits)
        start = find_start(body, self.models)
        if start is None:
            return dataset, None
        check_start(body, dataset, start, self.datasets)
        return dataset, (start.model_name, start.version)
