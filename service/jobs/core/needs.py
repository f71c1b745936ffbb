"""Which jobs still need a dataset or a model version; other rooms are given these functions."""

from __future__ import annotations

import sqlalchemy as sa

from service.jobs.core.job import ACTIVE
from service.storage.database.tables import jobs

WARM_START = jobs.c.spec["warm_start_from"].as_string()
"""Of a training, the version that it begins with: `name/number`."""
VALIDATION = jobs.c.spec["validation"]["dataset_id"].as_string()
"""Of a training, the dataset of its validation set, if it has its own."""
MODEL_NAME = jobs.c.spec["model"]["name"].as_string()
MODEL_VERSION = jobs.c.spec["model"]["version"].as_integer()
"""Of an evaluation or a batch prediction, the version that it scores with."""


def job_with_dataset(connection: sa.Connection, dataset_id: str) -> str | None:
    """The id of a job that has not ended and reads the dataset."""
    return _active(connection, (jobs.c.dataset_id == dataset_id) | (dataset_id == VALIDATION))


def job_with_model(connection: sa.Connection, name: str, version: int | None = None) -> str | None:
    """The id of a job that has not ended and reads the version, or (None) any of the model's."""
    if version is None:
        return _active(connection, (name == MODEL_NAME) | WARM_START.like(f"{name}/%"))
    scores = (name == MODEL_NAME) & (version == MODEL_VERSION)
    return _active(connection, scores | (f"{name}/{version}" == WARM_START))


def _active(connection: sa.Connection, needs: sa.ColumnElement[bool]) -> str | None:
    return connection.scalar(sa.select(jobs.c.id).where(needs, jobs.c.state.in_(ACTIVE)).limit(1))
