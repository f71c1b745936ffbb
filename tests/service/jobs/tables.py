"""Tables with kinds of columns, put straight into the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from service.datasets.store import DatasetStore
from service.datasets.upload_routes import read_limits
from service.rows.table.arrays import write_array
from service.rows.table.labels import Target
from service.rows.table.summary import describe
from service.rows.table.writers import DenseWriter, Table, kept_kinds
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from svm.data.columns import Columns

WEIGHT = {"role": "weight", "name": "weight", "kind": "number"}


def add_table(
    settings: Settings,
    X: npt.NDArray[np.float64],
    columns: Columns,
    labels: Sequence[str] | npt.NDArray[Any],
    weights: Any = None,
) -> str:
    """The id of a dataset of these raw values."""
    blobs, database = open_blobs(settings), Database(settings.database_url)
    missing = np.isnan(X).sum(axis=0).tolist()
    table = kept_kinds(
        replace(column, missing=count) for column, count in zip(columns, missing, strict=True)
    )
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    target = Target(
        classes=classes.tolist(),
        counts=np.bincount(codes).tolist(),
        array=codes.astype(np.int32),
        n_distinct=len(classes),
        continuous=False,
    )
    with blobs.temporary_folder() as folder:
        writer = DenseWriter(folder, len(columns), read_limits(settings.limits), table)
        writer.add(X)
        writer.finish()
        if weights is not None:
            write_array(folder / "weights.npy", np.asarray(weights, dtype=np.float64))
        read = Table(
            n_samples=len(X),
            n_features=len(columns),
            sparse=False,
            columns=[column.name for column in columns],
            target="label",
            labels=target,
            table=table,
            beside=[] if weights is None else [WEIGHT],
        )
        parsed = describe(folder, read, 1000)
        dataset, _ = DatasetStore(database, blobs).add(
            parsed, folder, name=None, media_type="text/csv"
        )
    database.close()
    return dataset.id
