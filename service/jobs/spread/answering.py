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
from svm.problem.keeper import SETUP, Answer, Keeper, Task
from svm.training.blas import one_blas_thread

KEPT = 2
"""Trainings of which a process keeps rows."""
MEMORY_SHARE = 0.5
"""Of the memory limit of a worker, for rows that stay in memory."""

logger = logging.getLogger(__name__)

_keepers: OrderedDict[str, Keeper] = OrderedDict()
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
            return Reply(*own, _keeper_answer(task))
    except NoAccess as error:
        return Reply(*own, refusal=str(error))
    except (OSError, ServiceError) as error:
        return Reply(*own, refusal=f"it cannot read the rows: {error}")


def _keeper_answer(task: Task) -> Answer:
    with _lock:
        keeper = _keepers.get(task.training)
        if keeper is None and task.setup is not None:
            source = task.setup.recipe.open()
            memory = int(MEMORY_SHARE * Settings().limits.worker_memory_bytes / KEPT)
            keeper = Keeper(task.setup.layout, source, memory)
            _keepers[task.training] = keeper
            if len(_keepers) > KEPT:
                _keepers.popitem(last=False)
        if keeper is None:
            return Answer(missing=(SETUP,))
        _keepers.move_to_end(task.training)
    return keeper.answer(task)
