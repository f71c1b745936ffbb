"""Scores of all rows of a dataset, block by block; used by several kinds of jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import DataInFiles, Dataset
from service.jobs.context import RunContext
from service.jobs.core.attempts import Attempt, Command
from service.jobs.core.job import Job
from service.jobs.core.leases import Outcome
from service.jobs.core.lifecycle import State
from service.jobs.core.model_columns import taken_by
from service.models.versions import ModelVersion
from service.storage.arrays import pack
from service.storage.blobs import BlobDamaged
from svm.data.matrices import Matrix
from svm.errors import Interrupted, InvalidData
from svm.model.pipeline import FittedPipeline

BLOCK_ROWS = 4096
"""Rows between two checks for a command."""

Columns = dict[str, npt.NDArray[Any]]
"""By output: class numbers for `label`, else the values; one entry a row."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A dataset and the outputs of a model for its rows."""

    dataset: Dataset
    version: ModelVersion
    fitted: FittedPipeline
    codes: npt.NDArray[np.int32] | None
    """(n_samples,) the dataset's own classes, by number."""
    columns: Columns
    weights: npt.NDArray[np.float64] | None
    """(n_samples,) of the rows, if they have weights."""


def score(context: RunContext, attempt: Attempt, outputs: list[str]) -> Scored | None:
    """The `outputs` (label, decision, probability) of all rows, in order, by the `model` that the
    job's spec names.

    None if the job was canceled: it has ended then. Raises what the stores raise, InvalidData,
    Interrupted after the checkpoint was saved, and LeaseLost.
    """
    attempt.may_end = True
    model = attempt.job.spec["model"]
    dataset = context.datasets.get(attempt.job.dataset_id)
    version = context.models.get_version(model["name"], model["version"])
    fitted = context.models.files.load(version)
    data = context.datasets.open(dataset)
    taken = taken_by(fitted, dataset, version)
    try:
        done, columns = _begin(context, attempt.job, dataset.n_samples)
        columns = _columns(attempt, fitted, data, taken, outputs, done, columns)
    except Interrupted:
        if attempt.command is not Command.KEEP_AND_END:
            raise
        attempt.finish(Outcome(state=State.CANCELED, stop_reason="canceled"))
        return None
    return Scored(dataset, version, fitted, data.codes, columns, data.weights)


def _columns(
    attempt: Attempt,
    fitted: FittedPipeline,
    data: DataInFiles,
    taken: Callable[[Any], Any],
    outputs: list[str],
    done: int,
    columns: Columns,
) -> Columns:
    """The outputs of all rows; of the first `done` they are in `columns` already."""
    n = data.X.shape[0]
    try:
        for start in range(done, n, BLOCK_ROWS):
            attempt.check()
            X = data.X.read(np.arange(start, min(n, start + BLOCK_ROWS)))
            for name, values in _outputs(fitted, taken(X), start, outputs):
                if name not in columns:
                    columns[name] = np.zeros((n, *values.shape[1:]), values.dtype)
                columns[name][start : start + len(values)] = values
            done = min(n, start + BLOCK_ROWS)
            attempt.show({"fraction": done / n}, [])
            if attempt.checkpoint_is_due:
                attempt.save(_checkpoint(done, columns))
    except Interrupted:
        if attempt.command is Command.SAVE_AND_RELEASE:
            attempt.save(_checkpoint(done, columns))
        raise
    return columns


def _begin(context: RunContext, job: Job, n: int) -> tuple[int, Columns]:
    """How many rows an earlier attempt has done, and their outputs."""
    try:
        saved = dict(context.checkpoint(job) or {})
    except BlobDamaged:
        saved = {}  # only time is lost
    done = int(saved.pop("done", 0))
    columns = {}
    for name, values in saved.items():
        columns[name] = np.zeros((n, *values.shape[1:]), values.dtype)
        columns[name][:done] = values
    return done, columns


def _outputs(
    fitted: FittedPipeline, X: Matrix, start: int, outputs: list[str]
) -> list[tuple[str, npt.NDArray[Any]]]:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scores = fitted.problem_scores(X)
    sound = np.isfinite(scores).all(axis=1)
    if not sound.all():
        row = start + int(np.argmin(sound)) + 1
        message = f"row {row} has numbers so large that its decision value overflows"
        raise InvalidData("non-finite-value", message)
    decision = fitted.decision_from_scores(scores)
    outputs_: list[tuple[str, npt.NDArray[Any]]] = []
    for name in outputs:
        if name == "label":
            outputs_.append((name, fitted.codes_from_decision(decision).astype(np.int32)))
        elif name == "decision":
            outputs_.append((name, decision))
        else:
            outputs_.append((name, fitted.probabilities_from_scores(scores)))
    return outputs_


def _checkpoint(done: int, columns: Columns) -> bytes:
    return pack({"done": np.asarray(done), **{name: v[:done] for name, v in columns.items()}})
