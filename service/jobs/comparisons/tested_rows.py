"""How many rows the entries of a comparison were measured on."""

from __future__ import annotations

from service.datasets.store import DatasetStore
from service.errors import NotFound
from service.jobs.core.job import Job
from svm.data.splitting import held_out_rows


def tested_rows(row: Job, datasets: DatasetStore) -> int | None:
    """How many rows the accuracies of a comparison were measured on; None if its entries are ranked
    by another score, or its data were deleted."""
    validation = row.spec.get("validation", {})
    if row.spec.get("rank_by") != "accuracy" or not {"folds", "fraction"} & validation.keys():
        return None
    try:
        dataset = datasets.get(row.dataset_id).only(row.spec.get("classes"))
    except NotFound:
        return None
    if "folds" in validation:
        return sum(count for count in dataset.class_counts or () if count > 1)
    groups = dataset.class_counts if validation.get("stratify") else None
    fraction = validation["fraction"]
    return sum(held_out_rows(count, fraction) for count in groups or (dataset.n_samples,))
