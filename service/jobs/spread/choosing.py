"""Whether the passes of a training are computed by other machines. No bit depends on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from service.datasets.dataset import Dataset
from service.jobs.spread.connection import Connection
from service.jobs.spread.dask_passes import DaskPasses
from service.jobs.spread.recipes import DatasetRecipe
from svm.data.matrices import Indices
from svm.model.pipeline import Pipeline
from svm.problem.passes import Cluster
from svm.problem.problem import Problem
from svm.training.binary_problems import Spread
from svm.training.preparation import Prepared

SpreadMode: TypeAlias = Literal["auto", "never", "always"]

AUTO_SHARDS = 512
"""From this number on, 4 GiB of numbers, a step takes much longer than its messages."""


def spreading(
    mode: SpreadMode,
    connection: Connection | None,
    dataset: Dataset,
    rows: Indices,
    pipeline: Pipeline,
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
        recipe = DatasetRecipe.of(dataset, rows, prepared, pipeline)
        return DaskPasses(problem, recipe, connection, warn=warn)

    return chosen
