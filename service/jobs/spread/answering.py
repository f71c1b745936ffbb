"""What a worker process of Dask does: a part of a pass, with the rows that it keeps."""

from __future__ import annotations

import logging
import os
import socket
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from service.errors import ServiceError
from service.jobs.spread.access import NoAccess, check_versions
from service.settings import Settings
from svm.data.executors import one_blas_thread
from svm.problem.keeper import SETUP, Answer, Keeper, KeptRows, Setup, Task

KEPT = 2
"""Trainings that a process keeps values of rows for, and sets of rows that it keeps, also for
trainings to come."""
MEMORY_SHARE = 0.5
"""Of the memory limit of a worker, for rows that stay in memory."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Training:
    rows: str
    """Their digest."""
    keeper: Keeper


_keepers: OrderedDict[str, _Training] = OrderedDict()
"""By the name of the training."""
_rows: OrderedDict[str, KeptRows] = OrderedDict()
"""By the digest of their recipe and layout."""
_lock = Lock()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, or why there is none."""

    worker: str
    """Host and process."""
    address: str
    """By which Dask knows it."""
    answer: Answer | None = None
    refusal: str = ""


def reply(task: Task, expected: str) -> Reply:
    """Of this process to a task of a process with the `expected` versions."""
    from distributed import get_worker

    own = f"{socket.gethostname()}:{os.getpid()}", get_worker().address
    try:
        check_versions(expected)
        with one_blas_thread:
            return Reply(*own, answer(task))
    except NoAccess as error:
        return Reply(*own, refusal=str(error))
    except (OSError, ServiceError) as error:
        return Reply(*own, refusal=f"it cannot read the rows: {error}")


def answer(task: Task) -> Answer:
    """Of this process. Raises NoAccess, and what reading the rows raises."""
    with _lock:
        keeper = _keepers.get(task.training)
        if keeper is None and task.setup is not None:
            keeper = _Training(digest := _digest(task.setup), Keeper(_rows_of(task.setup, digest)))
            _keepers[task.training] = keeper
        if keeper is None:
            return Answer(missing=(SETUP,))
        _keepers.move_to_end(task.training)
        _rows.move_to_end(keeper.rows)
        # The rows of the trainings that are kept are those that are kept.
        for kept in (_keepers, _rows):
            while len(kept) > KEPT:
                kept.popitem(last=False)
    return keeper.keeper.answer(task)


def _rows_of(setup: Setup, digest: str) -> KeptRows:
    """Another training may have read them: rows are the same if they have the same recipe."""
    if digest not in _rows:
        memory = int(MEMORY_SHARE * Settings().limits.worker_memory_bytes / KEPT)
        _rows[digest] = KeptRows(setup.layout, setup.recipe.open(), memory)
    return _rows[digest]


def _digest(setup: Setup) -> str:
    from dask.tokenize import tokenize

    digest: str = tokenize(setup)
    return digest
