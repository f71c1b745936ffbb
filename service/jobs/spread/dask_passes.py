"""The passes of one training as tasks of Dask: one task for each worker and pass.

A task can run anywhere, and more than once. So nothing that Dask loses is a failure of the job: it
is sent again under a new key, and what no worker does in time this process does itself. Workers get
the rows of a training by the names and digests of their files. No bit depends on who computes.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetFiles
from service.jobs.spread import pass_worker
from service.jobs.spread.connection import Connection, check_store, versions
from service.jobs.spread.remote_passes import RemotePasses, reading
from service.settings import Settings
from service.storage.blobs import open_blobs
from svm.data.matrices import Indices, Matrix
from svm.data.stored_rows import StoredRows
from svm.problem.passes import Cluster, Pass
from svm.problem.problem import Problem
from svm.training.binary_problems import Spread
from svm.training.preparation import Prepared, Preprocessing

CELLS_TO_WORKER = 4
"""Parts of the data for each worker, so that new ones can take over some."""
SILENT_S, SILENT_TIMES = 5.0, 5.0
"""A worker is silent if it takes longer than this, and than this many times the median."""
FIRST_S = 60.0
"""Patience for the first answer to a kind of pass, for which workers compile and fetch files …"""
NEW_S = 8.0
"""… and for that of a worker that is new when others have answered: these can do its part."""
REFUSED_S = 30.0
"""How long a worker that refused is left alone."""
LOOK_S = 0.1
"""How often to see whether the job must stop."""

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Sent:
    """A task on its way."""

    number: int
    """The number of its pass."""
    units: tuple[int, ...]
    worker: str
    started: float
    future: Any = None
    times: int = 1
    """That these units were sent."""
    again: bool = False
    """Its units were sent to another one, too."""


@dataclass
class _Pass:
    """The current one."""

    number: int
    step: pass_worker.NamedPass
    fetch: bool
    left: set[int]
    sent: list[_Sent] = field(default_factory=list)


class Here:
    """The rows of a problem in this process."""

    def __init__(self, problem: Problem) -> None:
        self._X = problem.X

    def read(self, rows: Indices) -> Matrix:
        return self._X.read(rows) if isinstance(self._X, StoredRows) else self._X[rows]


class DaskPasses(RemotePasses):
    """Asks each worker for its share of a pass, and others if it is silent."""

    def __init__(
        self,
        problem: Problem,
        recipe: pass_worker.Recipe,
        connection: Connection,
        *,
        warn: Callable[[str], None],
        silent_s: float = SILENT_S,
    ) -> None:
        """`warn` gets what a caller should know: who refused, and different results."""
        n_workers = max(1, len(connection.workers()))
        super().__init__(problem, recipe, CELLS_TO_WORKER * n_workers, secrets.token_hex(8))
        self._connection = connection
        self._interrupted = problem.interrupted
        self._warn = warn
        self._silent_s = silent_s
        self._own = pass_worker.PassWorker(pass_worker.KeptRows(self.layout, Here(problem), 0))
        self._replies: SimpleQueue[tuple[_Sent, pass_worker.WorkerReply | None]] = SimpleQueue()
        self._seconds: dict[Any, deque[float]] = defaultdict(lambda: deque(maxlen=32))
        self._not_before: dict[str, float] = {}
        """When a worker that refused is asked again."""
        self._silent: set[str] = set()
        self._has_answered: set[tuple[str, Any]] = set()
        self._late: dict[_Sent, dict[int, int]] = {}
        """Tasks whose units others have done since, and the checksums of those."""
        self.passes = 0
        """So far."""
        self.moved_bytes = 0
        """To and from workers."""
        self._versions = versions()
        self._begin()

    def _begin(self) -> None:
        """Have workers fetch files and read rows, while this process trains on a sample of them.
        Their answers are those of a pass that is over."""
        every = range(self.layout.n_cells)
        now = _Pass(
            self.passes, pass_worker.NamedPass(Pass(function=reading), (), ()), False, set(every)
        )
        for worker, share in self._shares(sorted(every), self._usable()):
            self._send(now, share, worker, (pass_worker.SETUP,))

    def carry_out(
        self, units: Sequence[int], step: pass_worker.NamedPass, *, fetch: bool = False
    ) -> Iterator[pass_worker.PassResult]:
        self.passes += 1
        now = _Pass(self.passes, step, fetch, set(units))
        workers = self._usable()
        for worker, share in self._shares(sorted(now.left), workers):
            self._send(now, share, worker)
        if not workers:
            yield self._do_here(now, tuple(sorted(now.left)))
        while now.left:
            self._interrupted()
            try:
                sent, answered = self._replies.get(timeout=LOOK_S)
            except Empty:
                for late in [some for some in now.sent if self._is_silent(now, some)]:
                    yield from self._again(now, late)
                continue
            if sent in now.sent:
                now.sent.remove(sent)
            if answered is not None:
                self._silent.discard(sent.worker)
                sent.worker = answered.address  # it can have gone to another one
            if sent.number != now.number or sent in self._late:
                self._compare(sent, answered)
                continue
            yield from self._receive(now, sent, answered)

    def _usable(self) -> list[str]:
        now = time.monotonic()
        return [
            worker
            for worker in self._connection.workers()
            if worker not in self._silent and self._not_before.get(worker, 0.0) <= now
        ]

    @staticmethod
    def _shares(units: list[int], workers: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Neighbors for each worker; the same in all passes, while these are the workers."""
        for k, worker in enumerate(workers):
            first, last = (len(units) * i // len(workers) for i in (k, k + 1))
            if first < last:
                yield worker, tuple(units[first:last])

    def _send(
        self,
        now: _Pass,
        units: tuple[int, ...],
        worker: str,
        missing: Sequence[str] = (),
        times: int = 1,
    ) -> None:
        task = self.task(units, now.step, missing, fetch=now.fetch)
        self.moved_bytes += task.size_bytes
        sent = _Sent(now.number, units, worker, time.monotonic(), times=times)
        now.sent.append(sent)
        client = self._connection.client
        try:
            if client is None:
                raise OSError("no connection")
            sent.future = client.submit(
                *(pass_worker.reply, task, self._versions),
                key=f"svm-{secrets.token_hex(12)}",
                pure=False,
                workers=[worker],
                allow_other_workers=True,
            )
            fetching = self._connection.fetching
            sent.future.add_done_callback(lambda _: fetching.submit(self._fetch, sent))
        except (OSError, RuntimeError, CancelledError) as error:
            logger.warning("a task could not be sent: %s", error)
            self._replies.put((sent, None))

    def _fetch(self, sent: _Sent) -> None:
        answered = None
        try:
            answered = sent.future.result(timeout=self._silent_s)
        except (Exception, CancelledError) as error:  # KilledWorker, a lost scheduler, a bug
            logger.warning("an answer is lost: %s: %s", type(error).__name__, error)
        self._replies.put((sent, answered))

    def _receive(
        self, now: _Pass, sent: _Sent, answered: pass_worker.WorkerReply | None
    ) -> Iterator[pass_worker.PassResult]:
        units = tuple(sorted(now.left.intersection(sent.units)))
        if answered is not None and answered.refusal:
            self._leave_alone(sent.worker, answered)
            answered = None
        if answered is not None and answered.answer is not None:
            answer = answered.answer
            if answer.missing:
                if units:
                    self._send(now, units, sent.worker, answer.missing, sent.times)
                return
            self._has_answered.add((sent.worker, now.step.one.function))
            self._seconds[now.step.one.function].append(time.monotonic() - sent.started)
            if set(units) == set(sent.units):
                yield self._accept(now, answer, sent)
            elif units:  # others have done some of them
                yield from self._again(now, sent)
            return
        if units:
            yield from self._again(now, sent)

    def _accept(
        self, now: _Pass, answer: pass_worker.PassResult, by: _Sent | None = None
    ) -> pass_worker.PassResult:
        now.left.difference_update(answer.checksums)
        self.moved_bytes += 0 if by is None else answer.size_bytes
        for late in now.sent:
            if late is not by and set(late.units).intersection(answer.checksums):
                self._late.setdefault(late, {}).update(answer.checksums)
        return answer

    def _again(self, now: _Pass, sent: _Sent) -> Iterator[pass_worker.PassResult]:
        """Another worker does the same; or this process, if that was silent or lost, too."""
        sent.again = True
        units = tuple(sorted(now.left.intersection(sent.units)))
        others = [worker for worker in self._usable() if worker != sent.worker]
        workers = others or ([] if sent in now.sent else self._usable())
        if workers and sent.times < 3:
            worker = workers[sent.units[0] % len(workers)]
            self._send(now, units, worker, times=sent.times + 1)
        elif units:
            yield self._do_here(now, units)

    def _is_silent(self, now: _Pass, sent: _Sent) -> bool:
        known = self._seconds[now.step.one.function]
        patience = max(self._silent_s, SILENT_TIMES * median(known) if known else 0.0)
        if (sent.worker, now.step.one.function) not in self._has_answered:
            patience = max(patience, NEW_S) if known else FIRST_S
        silent = not sent.again and time.monotonic() > sent.started + patience
        if silent and sent.worker not in self._silent:
            logger.warning("the worker %s of Dask is silent", sent.worker)
            self._silent.add(sent.worker)
        return silent

    def _do_here(self, now: _Pass, units: tuple[int, ...]) -> pass_worker.PassResult:
        answer = pass_worker.PassResult(missing=("",))
        missing: tuple[str, ...] = ()
        while answer.missing:
            self._interrupted()
            answer = self._own.answer(self.task(units, now.step, missing, fetch=now.fetch))
            missing = answer.missing
        return self._accept(now, answer)

    def _leave_alone(self, worker: str, answered: pass_worker.WorkerReply) -> None:
        known = worker in self._not_before
        self._not_before[worker] = time.monotonic() + REFUSED_S
        if known:
            return
        message = f"worker {answered.worker} of Dask at {worker} is not used: {answered.refusal}"
        logger.error(message)
        self._warn(message)

    def _compare(self, sent: _Sent, answered: pass_worker.WorkerReply | None) -> None:
        """A late answer must have the bits of the one that was taken."""
        taken = self._late.pop(sent, {})
        if answered is None or answered.answer is None:
            return
        for unit, checksum in answered.answer.checksums.items():
            if taken.get(unit, checksum) != checksum:
                message = (
                    f"worker {answered.worker} of Dask at {sent.worker} computed another result "
                    "than a second one from the same rows: check its memory, and whether all "
                    "workers have the same processors"
                )
                logger.error(message)
                self._warn(message)
                self._not_before[sent.worker] = float("inf")
                return


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
