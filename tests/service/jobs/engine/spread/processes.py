"""Processes that compute passes, as objects that share nothing but bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.jobs.spread.pass_worker import SETUP, KeptRows, NamedPass, PassResult, PassWorker, Task
from service.jobs.spread.remote_passes import RemotePasses
from svm.data.matrices import Indices, Matrix
from svm.problem.problem import Problem

_stored: dict[int, Any] = {}


@dataclass(frozen=True)
class Reference:
    """A recipe that names rows which all of them can read."""

    number: int

    @classmethod
    def to(cls, X: Any) -> Reference:
        _stored[id(X)] = X
        return cls(id(X))

    def open(self) -> Reference:
        return self

    def read(self, rows: Indices) -> Matrix:
        part: Matrix = _stored[self.number][rows]
        return part


class Process:
    """Computes tasks as a worker does."""

    def __init__(self) -> None:
        self.keepers: dict[str, PassWorker] = {}
        self.moved_bytes = 0

    def answer(self, content: bytes) -> bytes:
        task: Task = pickle.loads(content)
        if task.setup is not None:
            setup = task.setup
            rows = KeptRows(setup.layout, setup.recipe.open(), 1 << 20)
            self.keepers[task.training] = PassWorker(rows)
        if task.training not in self.keepers:
            return pickle.dumps(PassResult(missing=(SETUP,)))
        answer = pickle.dumps(self.keepers[task.training].answer(task))
        self.moved_bytes += len(content) + len(answer)
        return answer


class Processes(RemotePasses):
    """Cells move between them, and they forget all, as `unrest` says before each task."""

    def __init__(
        self,
        problem: Problem,
        X: Any,
        count: int,
        unrest: Callable[[], float] = lambda: 1.0,
        name: str = "training",
    ) -> None:
        super().__init__(problem, Reference.to(X), 4 * count, name)
        self.processes = [Process() for _ in range(count)]
        self._unrest = unrest
        self.round_trips = 0

    def carry_out(
        self, units: Sequence[int], step: NamedPass, *, fetch: bool = False
    ) -> Iterator[PassResult]:
        self.round_trips += 1
        for share in np.array_split(np.array(units), len(self.processes)):
            missing: tuple[str, ...] = ()
            number = self._number(share)
            while len(share):
                process = self.processes[number]
                if self._unrest() < 0.1:
                    process.keepers.clear()
                task = self.task(share.tolist(), step, missing, fetch=fetch)
                answer: PassResult = pickle.loads(process.answer(pickle.dumps(task)))
                missing = answer.missing
                if not missing:
                    yield answer
                    break

    def _number(self, share: Indices) -> int:
        if self._unrest() < 0.2:
            return int(self._unrest() * len(self.processes)) % len(self.processes)
        return int(share[0]) * len(self.processes) // self.layout.n_cells if len(share) else 0
