"""How many rows of an evaluation are rows that the model was trained on."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from pydantic import ValidationError

from service.errors import Corrupt, NotFound
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt
from service.jobs.core.model_columns import class_numbers, taken_by
from service.jobs.scoring import BLOCK_ROWS, Scoring
from service.jobs.training.rows import LabeledRows, count_seen
from service.jobs.training.schemas import JobCreate
from service.rows.table.row_hashes import Words, row_hashes
from svm.data.matrices import Indices, Matrix


def trained_rows(context: RunContext, scoring: Scoring, attempt: Attempt) -> int | None:
    """Rows are equal if the model sees the same values and label; None if its training data are not
    known or not there. Raises Interrupted."""
    version = scoring.version
    if version.dataset_id is None or version.seed is None:
        return None
    try:
        dataset = context.datasets.get(version.dataset_id)
        data = context.datasets.open(dataset)
        spec = JobCreate.model_validate_json(json.dumps(version.spec))
    except (NotFound, Corrupt, ValidationError):
        return None
    trained = LabeledRows(data, dataset, spec.classes)
    rows = trained.splits(spec.validation, version.seed)[0].training
    taken = taken_by(scoring.fitted, dataset, version)

    def hashes(read: Callable[[Indices], Matrix], rows: Indices, codes: Indices) -> Words:
        found = np.empty(len(rows), dtype=np.uint64)
        for start in range(0, len(rows), BLOCK_ROWS):
            attempt.check()
            some = slice(start, start + BLOCK_ROWS)
            found[some] = row_hashes(read(rows[some]), codes[some])
        return found

    assert scoring.data.codes is not None
    codes = class_numbers(scoring.dataset, version.classes)[scoring.data.codes]
    measured = hashes(scoring.read, np.arange(len(codes)), codes)
    return count_seen(
        measured, hashes(lambda some: taken(data.X.read(some)), rows, trained.codes(rows))
    )
