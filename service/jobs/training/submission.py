"""From a request for a training to a job that can be queued."""

from __future__ import annotations

import secrets
from dataclasses import replace

from service.common.schemas import ReadModel
from service.datasets.dataset import Dataset
from service.errors import InvalidContent, NotFound
from service.jobs.core.submission import Draft, Submission
from service.jobs.spread.plan import SpreadPlanRead, spread_plan
from service.jobs.training import KIND
from service.jobs.training.admission import check_trainable
from service.jobs.training.memory_plan import data_size, peak_bytes, rows_stay_in_files
from service.jobs.training.schemas import (
    MAX_SEED,
    Folds,
    JobCreate,
    ValidationDataset,
    ValidationSplit,
)
from service.jobs.training.validation_set import POINTER
from service.jobs.training.warm_starts import check_start, find_start
from service.models.versions import ModelVersion
from service.storage.machine_code import is_compiling
from svm.data.splitting import held_out_rows
from svm.model.multiclass import splits_of


class JobPlanRead(ReadModel):
    """What a training would cost; nothing is queued."""

    dataset_id: str
    n_samples: int
    n_features: int
    trainings: int
    """Of the model, and one for each fold."""
    binary_problems: int
    """In each training."""
    cost_per_epoch: str
    """Of each binary problem, with n rows and d features."""
    memory_bytes: int
    """What a worker needs at most."""
    rows_in_files: bool
    """Whether the rows stay in files and are read a few at a time."""
    compiling: bool
    """Whether loops are being compiled for this machine, once: until it is done, first trainings of
    a kind take longer."""
    spread: SpreadPlanRead | None
    """What the passes over the rows take if other machines share them, each of `trainings`; null if
    other machines cannot."""


class Trainings(Submission[JobCreate]):
    kind = KIND

    def draft(self, body: JobCreate) -> Draft:
        body, dataset, start, _ = self._checked(body)
        seed = secrets.randbelow(MAX_SEED + 1) if body.seed is None else body.seed
        return Draft(body.normalized(dataset.id, seed, start), dataset, body.model_name, start)

    def plan(self, body: JobCreate) -> JobPlanRead:
        """What `queue` would queue, and what it would cost. Raises as it does."""
        body, dataset, _, validation = self._checked(body)
        limit = self.stores.limits.worker_memory_bytes
        in_files = rows_stay_in_files(body, dataset, limit, validation)
        n_classes = len(body.classes or dataset.classes or ())
        n_samples = dataset.only(body.classes).n_samples
        size = replace(data_size(dataset), n_classes=n_classes)
        return JobPlanRead(
            dataset_id=dataset.id,
            n_samples=n_samples,
            n_features=dataset.n_features,
            trainings=1 + (body.validation.folds if isinstance(body.validation, Folds) else 0),
            binary_problems=len(splits_of(body.multiclass, n_classes)),
            cost_per_epoch=body.solver.cost_per_epoch,
            memory_bytes=peak_bytes(body, dataset, validation, in_files=in_files),
            rows_in_files=in_files,
            compiling=is_compiling(),
            spread=spread_plan(body.pipeline(), size, _trained_rows(body, n_samples)),
        )

    def _checked(
        self, body: JobCreate
    ) -> tuple[JobCreate, Dataset, ModelVersion | None, Dataset | None]:
        """The request with what follows from the dataset, the dataset, the version that the
        training begins at, and the dataset of the validation set if it has its own."""
        dataset, validation = self.stores.datasets.find(body.dataset_id), None
        body = body.on(dataset)
        if isinstance(body.validation, ValidationDataset):
            validation = self._validation(body.validation)
            named = ValidationDataset(dataset_id=validation.id)
            body = body.model_copy(update={"validation": named})
        check_trainable(body, dataset, self.stores.limits, validation)
        start = find_start(body, self.stores.models)
        if start is not None:
            check_start(body, dataset, start, self.stores.datasets)
        return body, dataset, start, validation

    def _validation(self, named: ValidationDataset) -> Dataset:
        try:
            return self.stores.datasets.find(named.dataset_id)
        except NotFound as error:
            raise InvalidContent.at(POINTER, "invalid-field", error.detail) from None


def _trained_rows(body: JobCreate, n_samples: int) -> int:
    """Of the training that makes the model: n_samples without those of a validation set."""
    if isinstance(body.validation, ValidationSplit):
        return n_samples - held_out_rows(n_samples, body.validation.fraction)
    return n_samples
