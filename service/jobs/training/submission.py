"""From a request for a training to a job that can be queued."""

from __future__ import annotations

from dataclasses import replace

from service.common.schemas import ReadModel
from service.datasets.dataset import Dataset
from service.errors import InvalidContent, NotFound
from service.jobs.collection.submission import Draft, Submission
from service.jobs.kinds import TRAINING
from service.jobs.training import admission
from service.jobs.training.admission import TWO_SIDES, check_start, find_start
from service.jobs.training.rows import POINTER
from service.jobs.training.schemas import Folds, JobCreate, ValidationDataset, ValidationSplit
from service.rows.spec import TargetKind
from service.storage.database.tables import ModelVersion
from service.storage.machine_code import is_compiling
from svm.data.shards import expected_shards
from svm.data.splitting import held_out_rows
from svm.model.multiclass import splits_of
from svm.model.pipeline import Pipeline
from svm.solvers.in_passes import expected_passes
from svm.solvers.newton import FLOAT_BYTES
from svm.solvers.protocol import ChoosesSolver
from svm.training.candidates import AMOUNTS, FEWEST_ROWS, first_candidates, sample_sizes
from svm.training.estimates import DataSize, encoded_sizes
from svm.transforms.features import Identity, Square, n_outputs

LABEL_BYTES = 1


class SpreadPlanRead(ReadModel):
    """What the passes of a training take if other machines share them."""

    shards: int
    """Runs of rows, of about a million numbers each, over which passes are sums. `spread: auto`
    asks other machines from more than 512 on."""
    passes: int
    """How often rows are read. `newton` takes about 4 steps for each decimal digit of the relative
    gap, less 2, and 5 fewer if there are enough rows to begin on a sample; each step reads all rows
    once, and those near the margin twice more.
    `gradient-descent` reads them once in each epoch that `stopping` allows, and then as `newton`
    for its certificate. Preparation and metrics, by the job's own worker, are not counted."""
    bytes_once: int
    """Sent once: the labels and weights of all rows, and to each worker which rows they are."""
    bytes_per_epoch: int
    """To and from each worker in a step of `newton` or an epoch of `gradient-descent`."""
    memory_bytes: int
    """In all workers together: labels, weights and scores of the rows. Beside them each worker
    keeps the rows that fit in half of its memory, and reads the others again in each pass."""


def spread_plan(pipeline: Pipeline, size: DataSize, n: int) -> SpreadPlanRead | None:
    """The plan of a training on n rows of data of this size; None if other machines cannot share
    it. For `auto` the one of `newton`."""
    if size.n_classes != 2 or pipeline.predicts_numbers:
        return None
    if size.table is not None:
        size = encoded_sizes(pipeline, size, size.table)[-1]
    d = n_outputs(pipeline.features, size.n_features)
    sparse = size.sparse and isinstance(pipeline.features, Identity | Square)
    stored = size.stored_values * d // size.n_features if sparse else size.n_samples * d
    values = stored * n // size.n_samples
    shards = expected_shards(n, d, values)
    expected = expected_passes(
        pipeline.solver, pipeline.stopping, n, d, values, sparse=sparse, shards=shards
    )
    if expected is None:
        return None
    weighted = size.weighted or pipeline.class_weight is not None
    row_bytes = LABEL_BYTES + (FLOAT_BYTES if weighted else 0)
    return SpreadPlanRead(
        shards=shards,
        passes=expected.passes,
        bytes_once=n * row_bytes + (0 if n == size.n_samples else -(-size.n_samples // 8)),
        bytes_per_epoch=FLOAT_BYTES * expected.epoch_numbers,
        memory_bytes=n * (row_bytes + FLOAT_BYTES * expected.row_values),
    )


class JobPlanRead(ReadModel):
    """What a training would cost; nothing is queued."""

    dataset_id: str
    n_samples: int
    n_features: int
    trainings: int
    """Of the model, of that which `auto` chooses, and one for each fold or group of classes that is
    left out."""
    compared: int
    """Trainings on samples, at most, by which `auto` chooses."""
    binary_problems: int
    """In each training."""
    cost_per_epoch: str
    """Of each binary problem, with n rows and d features."""
    memory_bytes: int
    """What a worker needs at most."""
    about_s: float | None
    """Of all trainings by `auto` on one core, roughly; null for other solvers."""
    rows_in_files: bool
    """Whether the rows stay in files and are read a few at a time."""
    compiling: bool
    """Whether loops are being compiled for this machine, once: until it is done, first trainings of
    a kind take longer."""
    spread: SpreadPlanRead | None
    """What the passes over the rows take if other machines share them, each of `trainings`; null if
    other machines cannot."""


class Trainings(Submission[JobCreate]):
    kind = TRAINING

    def draft(self, body: JobCreate) -> Draft:
        body, dataset, start, _ = self._check(body)
        spec = body.model_dump(mode="json", by_alias=True)
        return Draft(spec, dataset, body.model_name, start)

    def plan(self, body: JobCreate) -> JobPlanRead:
        """What `queue` would queue, and what it would cost. Raises as it does."""
        body, dataset, _, validation = self._check(body)
        limit = self.stores.limits.worker_memory_bytes
        in_files = admission.rows_stay_in_files(body, dataset, limit, validation)
        n_classes = len(body.classes or dataset.classes or TWO_SIDES)
        n_samples = dataset.only(body.classes).n_samples
        size = replace(admission.data_size(dataset), n_classes=n_classes)
        trained = _trained_rows(body, n_samples)
        compared = _compared(body, size, trained)
        trainings = 1 + bool(compared) + (_folds(body) or body.left_out_groups or 0)
        n_problems = len(splits_of(body.pipeline().multiclass, n_classes))
        about_s = _about_s(body, size, n_samples, trainings * n_problems)
        return JobPlanRead(
            dataset_id=dataset.id,
            n_samples=n_samples,
            n_features=dataset.n_features,
            trainings=trainings,
            compared=compared,
            binary_problems=n_problems,
            cost_per_epoch=body.solver.cost_per_epoch,
            memory_bytes=admission.peak_bytes(body, dataset, validation, in_files=in_files),
            about_s=about_s,
            rows_in_files=in_files,
            compiling=is_compiling(),
            spread=spread_plan(body.pipeline(), size, trained),
        )

    def _check(
        self, body: JobCreate
    ) -> tuple[JobCreate, Dataset, ModelVersion | None, Dataset | None]:
        """The request with what follows from the dataset, the dataset, the version that the
        training begins at, and the dataset of the validation set if it has its own."""
        found, validation = self.stores.datasets.find(body.dataset_id), None
        body = body.with_loss(found)
        dataset = admission.labeled_as(body.target_kind, found, self.stores.limits.classes)
        start = find_start(body, self.stores.models)
        if start is not None and body.scaling is None:
            body = body.model_copy(update={"scaling": start.spec.get("scaling")})
        body = body.on(dataset)
        body = admission.affordable(body, dataset, self.stores.limits.worker_memory_bytes)
        if isinstance(body.validation, ValidationDataset):
            validation = self._validation(body.validation, body.target_kind)
            named = ValidationDataset(dataset_id=validation.id)
            body = body.model_copy(update={"validation": named})
        admission.check_trainable(body, dataset, self.stores.limits, validation)
        if start is not None:
            check_start(body, dataset, start, self.stores.datasets)
            version = f"{start.model_name}/{start.version}"
            body = body.model_copy(update={"warm_start_from": version})
        return body, dataset, start, validation

    def _validation(self, named: ValidationDataset, kind: TargetKind) -> Dataset:
        try:
            found = self.stores.datasets.find(named.dataset_id)
        except NotFound as error:
            raise InvalidContent.at(POINTER, "invalid-field", error.detail) from None
        return admission.labeled_as(kind, found, self.stores.limits.classes, POINTER)


def _folds(body: JobCreate) -> int | None:
    return body.validation.folds if isinstance(body.validation, Folds) else None


def _compared(body: JobCreate, size: DataSize, n_samples: int) -> int:
    """Trainings by which `auto` chooses among settings for this many rows, at most."""
    if not body.searches or n_samples < FEWEST_ROWS:
        return 0
    sparse, unscaled = size.sparse or bool(size.text_bytes), body.scaling is None
    first = first_candidates(body.pipeline(), size.n_features, sparse=sparse, unscaled=unscaled)
    effort = body.solver.search_effort
    sizes = sample_sizes(effort, size.n_samples, size.stored_values)
    return AMOUNTS[effort].most_trainings(first, min(sizes[1], n_samples) > sizes[0])


def _about_s(body: JobCreate, size: DataSize, n_samples: int, problems: int) -> float | None:
    """Seconds for all binary problems by `auto`, and for what it compares.

    The constants fit 100 to 100,000 rows with up to 300 columns on one core. With a kernel, C
    matters: it decides how many rows become support vectors.
    """
    if not isinstance(body.solver, ChoosesSolver):
        return None
    one_vs_one = body.pipeline().multiclass == "one-vs-one"
    share = 2 / size.n_classes if one_vs_one else 1.0
    if body.solver.kernel is None:
        each = 5e-8 * share * (size.stored_values + size.text_bytes / 8)
    else:
        each = 2e-8 * (share * n_samples) ** 2 * max(1.0, body.solver.C or 1.0) ** 0.5
    search = 0.0
    if body.searches and n_samples >= FEWEST_ROWS:
        effort = body.solver.search_effort
        first, last = sample_sizes(effort, n_samples, size.stored_values)
        rows = first + 0.5 * last if first < n_samples else n_samples
        search = 7e-4 * (1 + AMOUNTS[effort].rounds) * rows
    return search + problems * (0.01 + each)


def _trained_rows(body: JobCreate, n_samples: int) -> int:
    """How many rows make the model: n_samples without those of a validation set."""
    if isinstance(body.validation, ValidationSplit):
        return n_samples - held_out_rows(n_samples, body.validation.fraction)
    return n_samples
