"""Jobs that begin at a model version instead of at zero."""

from __future__ import annotations

import numpy as np
from pydantic import ValidationError

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.errors import InvalidContent
from service.jobs.core.model_columns import check_columns
from service.jobs.training.schemas import JobCreate, ValidationSplit
from service.models.registry import ModelRegistry
from service.storage.database.tables import ModelVersion
from svm.data.matrices import Indices
from svm.errors import InvalidData
from svm.model.pipeline import Pipeline
from svm.solvers.protocol import HasDualCoefficients
from svm.training.warm_start import WarmStart, check_warm_start

CODE = "warm-start-unsupported"
SEEN_ROWS = (
    "The model that this training began with knows some of the validation rows, so their metrics "
    "may be too good."
)


def find_start(spec: JobCreate, registry: ModelRegistry) -> ModelVersion | None:
    """The version that a job begins with. Raises NotFound."""
    return None if spec.warm_start_from is None else registry.find(spec.warm_start_from)


def check_start(
    spec: JobCreate, dataset: Dataset, start: ModelVersion, datasets: DatasetStore
) -> None:
    """Raises InvalidContent `warm-start-unsupported` with the first difference."""
    if start.imported is not None:
        raise _refusal(
            "the version was imported, without the state that a training needs to continue"
        )
    if start.warm_start_key is None:
        raise _refusal("the version is older than warm starts: train it again")
    if start.quarantined_at is not None:
        raise _refusal("the version's file is damaged; choose another version")
    try:
        check_warm_start(spec.pipeline(), _pipeline_of(start))
    except InvalidData as error:
        hint = "use the settings in the version's `spec`"
        raise _refusal(error.message, hint) from None
    classes = list(dataset.only(spec.classes).classes or ())
    if [(type(label), label) for label in classes] != [(type(c), c) for c in start.classes]:
        raise _refusal(f"classes: the model has {start.classes}, the dataset {classes}")
    if dataset.n_features != start.n_features:
        raise _refusal(
            f"features: the model has {start.n_features}, the dataset {dataset.n_features}"
        )
    names = zip(start.columns or (), dataset.columns or (), strict=False)
    for number, (expected, given) in enumerate(names, start=1):
        if given != expected:
            raise _refusal(f"feature {number}: the model has {expected!r}, the dataset {given!r}")
    _check_kinds(dataset, start)
    if isinstance(spec.solver, HasDualCoefficients) and not _has_rows_of(dataset, start, datasets):
        raise _refusal(
            f"{spec.solver.name} inherits row numbers, and the dataset does not begin with the "
            "rows that the model was trained on",
            f"append the new rows to {start.dataset_id}",
        )


def _check_kinds(dataset: Dataset, start: ModelVersion) -> None:
    try:
        check_columns(dataset, start)
    except InvalidData as error:
        raise _refusal(error.message) from None


def load_start(
    spec: JobCreate,
    dataset: Dataset,
    rows: Indices,
    registry: ModelRegistry,
    datasets: DatasetStore,
) -> tuple[WarmStart, tuple[str, ...]] | None:
    """What the training on these `rows` of the dataset begins with, and warnings.

    None if the job begins at zero. Raises NotFound, Corrupt.
    """
    start = find_start(spec, registry)
    if start is None:
        return None
    begun = WarmStart.from_arrays(
        _pipeline_of(start), registry.files.load(start), registry.files.load_warm_start(start)
    )
    numbers = np.full(max(dataset.n_samples, begun.rows.max(initial=-1) + 1), -1)
    numbers[rows] = np.arange(len(rows))
    return begun.with_rows(numbers), _seen_rows(spec, dataset, start, datasets)


def _seen_rows(
    spec: JobCreate, dataset: Dataset, start: ModelVersion, datasets: DatasetStore
) -> tuple[str, ...]:
    if not isinstance(spec.validation, ValidationSplit) or not _has_rows_of(
        dataset, start, datasets
    ):
        return ()
    split = spec.validation.model_dump(mode="json"), spec.seed, dataset.matrix_digest
    same = split == (start.spec.get("validation"), start.seed, start.dataset_digest)
    return () if same else (SEEN_ROWS,)


def _pipeline_of(start: ModelVersion) -> Pipeline:
    try:
        return JobCreate.from_spec(start.spec).pipeline()
    except ValidationError:
        raise InvalidData(CODE, "the version was made by another release: train it again") from None


def _has_rows_of(dataset: Dataset, start: ModelVersion, datasets: DatasetStore) -> bool:
    if start.dataset_id is None or start.dataset_digest is None:  # imported
        return False
    return datasets.begins_with(dataset, start.dataset_id, start.dataset_digest)


def _refusal(message: str, hint: str | None = None) -> InvalidContent:
    return InvalidContent.at("/warm_start_from", CODE, message, hint)
