"""Whether other machines compute the passes of a training, and how they get its rows: by the names
and digests of their files. No bit depends on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetFiles
from service.jobs.spread.connection import Connection, check_store
from service.jobs.spread.dask_passes import DaskPasses
from service.settings import Settings
from service.storage.blobs import open_blobs
from svm.data.matrices import Indices, Matrix
from svm.data.stored_rows import StoredRows
from svm.problem.passes import Cluster
from svm.problem.problem import Problem
from svm.training.binary_problems import Spread
from svm.training.preparation import Prepared, Preprocessing


@dataclass(frozen=True, slots=True)
class DatasetRecipe:
    """Rows of a stored dataset, as the solver sees them."""

    dataset: Dataset
    """What is needed to read its files: their digests and their form."""
    chosen: npt.NDArray[np.uint8] | None
    """A bit for each row, whether it is one of the training; None for all."""
    steps: Preprocessing

    @classmethod
    def of(cls, dataset: Dataset, rows: Indices, prepared: Prepared) -> DatasetRecipe:
        """`rows`: numbers in the dataset of those that the training was given."""
        if prepared.kept is not None:
            rows = rows[prepared.kept]
        chosen = None
        if len(rows) < dataset.n_samples:
            mask = np.zeros(dataset.n_samples, dtype=bool)
            mask[rows] = True
            chosen = np.packbits(mask)
        small = replace(dataset, tags={}, warnings=[], statistics={}, class_counts=None)
        return cls(small, chosen, prepared.steps)

    def open(self) -> OpenRows:
        """Raises NoAccess, and what the store raises."""
        settings = Settings()
        check_store(settings)
        X = DatasetFiles(open_blobs(settings)).rows_in_files(self.dataset)
        if self.chosen is not None:
            bits = np.unpackbits(self.chosen, count=self.dataset.n_samples)
            X = X[np.flatnonzero(bits)]
        return OpenRows(X, self.steps)


@dataclass(frozen=True, slots=True)
class OpenRows:
    """Rows in local files."""

    X: StoredRows
    steps: Preprocessing

    def read(self, rows: Indices) -> Matrix:
        """As the solver sees them."""
        return self.steps.transform(self.X.read(rows))


SpreadMode: TypeAlias = Literal["auto", "never", "always"]

AUTO_SHARDS = 512
"""From this number on, 4 GiB of numbers, a step takes much longer than its messages."""


def choose_spread(
    mode: SpreadMode,
    connection: Connection | None,
    dataset: Dataset,
    rows: Indices,
    warn: Callable[[str], None],
) -> Spread | None:
    """What a training on these rows of a dataset asks for a cluster; None if it should not ask.

    `warn` gets why a training that is always to be spread is not.
    """
    if mode == "never" or (connection is None and mode == "auto"):
        return None

    def chosen(prepared: Prepared, problem: Problem) -> Cluster | None:
        reason = ""
        if connection is None:
            reason = "this service has no SVM_DASK_ADDRESS"
        elif mode == "auto" and len(problem.leaves) <= AUTO_SHARDS:
            return None
        elif not connection.workers():
            reason = "no worker of Dask can be reached"
            if connection.trouble:
                reason += f" ({connection.trouble})"
        if connection is None or reason:
            if mode == "always":
                warn(f"The training was not spread over machines: {reason}.")
            return None
        recipe = DatasetRecipe.of(dataset, rows, prepared)
        return DaskPasses(problem, recipe, connection, warn=warn)

    return chosen
