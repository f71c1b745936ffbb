"""Run a training to its end, and compare results to the bit."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from svm.errors import Interrupted
from svm.model.pipeline import Pipeline
from svm.model.serialization import to_arrays
from svm.training.curve import Progress
from svm.training.results import TrainingResult
from svm.training.training import Execution, Training


def run(training: Training) -> list[Progress]:
    return list(training)


def options(**others: Any) -> dict[str, Any]:
    """Options of a training, with those of `Execution` in `how`."""
    names = [field.name for field in fields(Execution) if field.name in others]
    how = Execution(**{name: others.pop(name) for name in names})
    return {**others, "how": how}


def train(pipeline: Pipeline, X: Any, labels: Any, *, seed: int = 0, **others: Any) -> Training:
    """A finished training."""
    training = Training(pipeline, X, labels, seed=seed, **options(**others))
    run(training)
    return training


def bits(result: TrainingResult) -> dict[str, Any]:
    """All parts of a result, as values that are equal only if all bits are."""
    arrays = to_arrays(result.fitted)
    content = {
        key: (value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, np.ndarray)
        else value
        for key, value in arrays.items()
    }
    certificate = repr(result.certificate)  # repr of a float names it exactly
    rest = (result.stop_reason, result.converged, result.epochs, result.updates)
    return {**content, "certificate": certificate, "rest": (*rest, result.n_support_vectors)}


def written_and_read(
    checkpoint: Mapping[str, Any],
) -> dict[str, npt.NDArray[Any]]:
    """The checkpoint after writing and reading a file of plain arrays."""
    file = io.BytesIO()
    np.savez(file, **checkpoint)
    file.seek(0)
    with np.load(file, allow_pickle=False) as content:
        return dict(content)


def interrupting_at(call: int) -> Callable[[], None]:
    """A callback that raises Interrupted at its `call`-th call, counted from 1, only."""
    calls = itertools.count(1)

    def interrupted() -> None:
        if next(calls) == call:
            raise Interrupted

    return interrupted


def interrupting_from(call: int) -> Callable[[], None]:
    """A callback that raises Interrupted from its `call`-th call on, in every thread, like a
    canceled job."""
    calls = itertools.count(1)

    def interrupted() -> None:
        if next(calls) >= call:
            raise Interrupted

    return interrupted
