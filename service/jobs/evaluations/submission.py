"""From a request for an evaluation to a queued job, whoever asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from service.datasets.store import DatasetStore
from service.jobs.core.job import Job
from service.jobs.core.scoring import positions
from service.jobs.core.store import Also, JobStore
from service.jobs.evaluations.run import class_numbers, outputs_of
from service.jobs.evaluations.schemas import EvaluationCreate
from service.jobs.training.admission import refused
from service.jobs.training.memory_plan import check_scores
from service.models.registry import ModelRegistry
from service.settings import Limits

KIND = "evaluate"


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Queues evaluations, and refuses those that are known to fail."""

    jobs: JobStore
    datasets: DatasetStore
    models: ModelRegistry
    limits: Limits

    def queue(
        self, body: EvaluationCreate, caller: str, request_id: str | None, also: Also | None = None
    ) -> Job:
        """Raises NotFound for dataset and model, InvalidContent with the code that the evaluation
        would fail with, and what `JobStore.create` raises."""
        dataset, version = self.datasets.find(body.dataset_id), self.models.find(body.model)
        with refused("/dataset_id"):
            class_numbers(dataset, version)
            positions(dataset, version)
        outputs = outputs_of(version)
        check_scores(dataset, version, len(outputs), self.limits.worker_memory_bytes)
        return self.jobs.create(
            kind=KIND,
            spec={
                **body.model_dump(mode="json"),
                "dataset_id": dataset.id,
                "model": {"name": version.model_name, "version": version.version},
                "outputs": outputs,
            },
            begins_at=(version.model_name, version.version),
            dataset_id=dataset.id,
            dataset_digest=dataset.matrix_digest,
            model_name=version.model_name,
            priority=body.priority,
            labels=body.labels,
            caller=caller,
            request_id=request_id,
            also=also,
        )
