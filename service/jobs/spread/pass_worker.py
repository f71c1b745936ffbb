"""What a worker process of Dask does: parts of passes, with the rows that it keeps.

A process keeps values of rows only because it has made them, or was sent them. If it lacks some, it
answers which, and gets how they were made: from the data, by earlier passes. So any process may do
any part of a pass, and none of them is needed. Every part is a whole subtree of the sum.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Lock
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from service.errors import ServiceError
from service.jobs.spread.connection import NoAccess, check_versions
from service.settings import Settings
from svm.data.executors import one_blas_thread
from svm.data.matrices import Floats, Indices, Matrix
from svm.data.shards import Sum
from svm.problem.passes import Chosen, Leaves, Parts, Pass, RowValues
from svm.problem.problem import operand_of

SETUP = "setup"
"""The name of what a process must have to begin with."""
LABELS, WEIGHTS = "labels", "weights"
"""Names of row values that every pass reads."""
Name: TypeAlias = str
"""The name of row values."""
Piece: TypeAlias = tuple[Name, int]
"""Row values in one cell of the layout."""


class RowSource(Protocol):
    """Gives the rows that solvers see."""

    def read(self, rows: Indices) -> Matrix:
        """Some neighboring rows."""


class Recipe(Protocol):
    """How to get the rows of a training: small, and sent to other processes."""

    def open(self) -> RowSource: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """The leaves of a problem in cells, each a whole subtree."""

    edges: Indices
    """Positions of the rows at which the leaves begin, and their number."""
    leaves: int
    """Leaves of a cell, a power of two."""
    weighted: bool

    @property
    def n_leaves(self) -> int:
        return len(self.edges) - 1

    @property
    def n_cells(self) -> int:
        return -(-self.n_leaves // self.leaves)

    def rows(self, cell: int) -> slice:
        """Positions of the rows of a cell."""
        last = min((cell + 1) * self.leaves, self.n_leaves)
        return slice(int(self.edges[cell * self.leaves]), int(self.edges[last]))

    def cells_together(self, one: Pass) -> int:
        """How many cells a pass needs at once."""
        return max(1, one.together // self.leaves)

    @property
    def row_values(self) -> tuple[Name, ...]:
        """That every pass reads."""
        return (LABELS, WEIGHTS) if self.weighted else (LABELS,)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a process needs to begin with."""

    layout: Layout
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class NamedPass:
    """A pass, by names of what it reads and makes."""

    one: Pass
    of: tuple[Name, ...]
    makes: tuple[Name, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A part of a pass for one process."""

    training: str
    step: NamedPass
    units: tuple[int, ...]
    """Each of `cells_together` cells."""
    live: frozenset[Name]
    """Row values that are still needed."""
    also: tuple[Name, ...] = ()
    """Row values that are to be made too; `earlier` says how."""
    fetch: bool = False
    """Whether the answer has the values that the pass reads."""
    setup: Setup | None = None
    earlier: tuple[NamedPass, ...] = ()
    """The passes that made what is missing, and those that make `also`."""
    given: Mapping[Piece, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of its arrays."""
        arguments = [a for step in (self.step, *self.earlier) for a in step.one.given]
        arrays = (*self.given.values(), *arguments)
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """What a process answers to a task."""

    missing: tuple[Name, ...] = ()
    """It needs the same task again with how these were made."""
    nodes: Mapping[tuple[int, int], Sum] = field(default_factory=dict)
    """Sums of subtrees, by their height above the units and their number at it."""
    notes: Mapping[int, Floats] = field(default_factory=dict)
    """By unit."""
    values: Mapping[int, RowValues] = field(default_factory=dict)
    """By unit, if they were asked for."""
    checksums: Mapping[int, int] = field(default_factory=dict)
    """By unit: of the bits of all that was computed."""
    seconds: float = 0.0

    @property
    def size_bytes(self) -> int:
        """Bytes of its arrays."""
        arrays = (*self.nodes.values(), *self.notes.values(), *self.values.values())
        return sum(array.nbytes for array in arrays)


class KeptRows:
    """The rows of a layout, as compiled loops read them. Trainings can share them."""

    def __init__(self, layout: Layout, source: RowSource, memory_bytes: int) -> None:
        """`memory_bytes`: of rows that stay in memory; the others are read in each pass."""
        self.layout = layout
        self._source = source
        self._free_bytes = memory_bytes
        self._operands: dict[int, Any] = {}
        self._lock = Lock()

    def operand(self, leaf: int) -> Any:
        """The rows of a leaf, as an operand of compiled loops."""
        kept = self._operands.get(leaf)
        if kept is not None:
            return kept
        edges = self.layout.edges
        operand = operand_of(self._source.read(np.arange(edges[leaf], edges[leaf + 1])))
        arrays = operand if isinstance(operand, tuple) else (operand,)
        size = sum(array.nbytes for array in arrays)
        with self._lock:
            if size <= self._free_bytes and leaf not in self._operands:
                self._free_bytes -= size
                self._operands[leaf] = operand
        return operand


class PassWorker:
    """Computes parts of the passes of one training, and keeps what later ones may need."""

    def __init__(self, rows: KeptRows) -> None:
        self._layout = layout = rows.layout
        self._rows = rows
        self._values: dict[Piece, RowValues] = {}
        longest = 0 if layout.weighted else int(np.diff(layout.edges).max())
        self._ones = np.ones(longest)
        self._lock = Lock()

    def answer(self, task: Task) -> PassResult:
        """Raises what reading the rows raises."""
        with self._lock, np.errstate(all="ignore"):  # the process that asks sees the numbers
            started = time.monotonic()
            # Copies: what was moved may be at an odd address, where sums can have other bits.
            self._values |= {piece: np.array(values) for piece, values in task.given.items()}
            made_by = {name: step for step in task.earlier for name in step.makes}
            missing: set[Name] = set()
            names = (*self._layout.row_values, *task.step.of, *task.also)
            each = self._layout.cells_together(task.step.one)
            for unit in task.units:
                for cell in self._cells(unit, each):
                    for name in names:
                        self._ensure((name, cell), made_by, missing)
            if missing:
                return PassResult(missing=tuple(sorted(missing)))
            answer = self._compute_units(task, each)
            live = task.live.union(task.step.makes, self._layout.row_values)
            for piece in [piece for piece in self._values if piece[0] not in live]:
                del self._values[piece]
            return replace(answer, seconds=time.monotonic() - started)

    def _cells(self, unit: int, each: int) -> range:
        return range(unit * each, min((unit + 1) * each, self._layout.n_cells))

    def _ensure(self, piece: Piece, made_by: Mapping[Name, NamedPass], missing: set[Name]) -> None:
        """Make row values again, if they are missing and it is known how."""
        name, cell = piece
        if piece in self._values:
            return
        if name not in made_by:
            missing.add(name)
            return
        step = made_by[name]
        for read in step.of:
            self._ensure((read, cell), made_by, missing)
        if not missing:
            self._compute(step, range(cell, cell + 1))

    def _compute_units(self, task: Task, each: int) -> PassResult:
        nodes, notes, values, checksums = {}, {}, {}, {}
        for unit in task.units:
            cells = self._cells(unit, each)
            if task.fetch:
                (name,) = task.step.of
                values[unit] = self._join(name, cells)
            total, noted = self._compute(task.step, cells)
            nodes[0, unit], notes[unit] = total, noted
            made = [self._values[name, cell] for name in task.step.makes for cell in cells]
            checksums[unit] = _checksum(total, noted, *made)
        return PassResult(nodes=_merged(nodes), notes=notes, values=values, checksums=checksums)

    def _join(self, name: Name, cells: range) -> RowValues:
        values = [self._values[name, cell] for cell in cells]
        if isinstance(values[0], Chosen):
            return Chosen.join(values)
        return values[0] if len(values) == 1 else np.concatenate(values)

    def _compute(self, step: NamedPass, cells: range) -> tuple[Sum, Floats]:
        """One pass over some cells that are a subtree; keeps what it makes."""
        layout, one = self._layout, step.one
        first_leaf = cells.start * layout.leaves
        last_leaf = min(cells.stop * layout.leaves, layout.n_leaves)
        offset = int(layout.edges[first_leaf])
        n_rows = int(layout.edges[last_leaf]) - offset
        of = [self._join(name, cells) for name in step.of]
        made = tuple(np.empty(n_rows) for _ in range(one.makes))
        if one.over is not None:  # a copy, as the task may come again
            made[0][:] = of[one.over]
        noted = np.empty((last_leaf - first_leaf, one.notes))
        leaves = Leaves(
            leaf=first_leaf,
            edges=layout.edges[first_leaf : last_leaf + 1],
            y=self._join(LABELS, cells),
            margins=None,  # a problem of numeric targets is not spread
            weights=self._join(WEIGHTS, cells) if layout.weighted else None,
            equal_weights=self._ones,
            of=of,
            made=made,
            notes=noted,
            parts=self._parts,
        )
        each = max(1, one.together)
        total, chosen = one.compute(range(first_leaf // each, -(-last_leaf // each)), leaves)
        for name, values in zip(step.makes, made, strict=False):
            for cell in cells:
                own = layout.rows(cell)
                self._values[name, cell] = values[own.start - offset : own.stop - offset]
        if one.chooses:
            self._values[step.makes[-1], cells.start] = Chosen.join(chosen)
        return total, noted

    def _parts(self, chosen: slice | Indices) -> Parts:
        """As `Problem.parts`, a leaf at a time."""
        edges = self._layout.edges
        rows = np.arange(chosen.start, chosen.stop) if isinstance(chosen, slice) else chosen
        if len(rows) == 0:
            return
        first, last = np.searchsorted(edges, rows[[0, -1]], side="right").tolist()
        cuts = np.searchsorted(rows, edges[first - 1 : last + 1]).tolist()
        for leaf, (start, stop) in enumerate(pairwise(cuts), first - 1):
            if start < stop:
                own = rows[start:stop] - int(edges[leaf])
                yield slice(start, stop), self._rows.operand(leaf), own


def _merged(nodes: dict[tuple[int, int], Sum]) -> dict[tuple[int, int], Sum]:
    """With the sum of both in place of each two that are added first."""
    height = 0
    while any(h == height for h, _ in nodes):
        for h, k in [node for node in nodes if node[0] == height and node[1] % 2 == 0]:
            if (h, k + 1) in nodes:
                nodes[h + 1, k // 2] = nodes.pop((h, k)) + nodes.pop((h, k + 1))
        height += 1
    return nodes


def _checksum(*arrays: RowValues) -> int:
    total = 0
    for array in arrays:
        parts = (array.rows, array.values) if isinstance(array, Chosen) else (array,)
        for part in parts:
            bits = np.ascontiguousarray(part).reshape(-1).view(np.uint64)
            total = (31 * total + int(bits.sum(dtype=np.uint64))) % (1 << 64)
    return total


KEPT = 2
"""Trainings that a process keeps values of rows for, and sets of rows that it keeps, also for
trainings to come."""
MEMORY_SHARE = 0.5
"""This part of a worker's memory limit is for rows that stay in memory."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Training:
    rows: str
    """Their digest."""
    worker: PassWorker


_trainings: OrderedDict[str, _Training] = OrderedDict()
"""By the name of the training."""
_rows: OrderedDict[str, KeptRows] = OrderedDict()
"""By the digest of their recipe and layout."""
_lock = Lock()


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """An answer, or why there is none."""

    worker: str
    """Host and process."""
    address: str
    """By which Dask knows it."""
    answer: PassResult | None = None
    refusal: str = ""


def reply(task: Task, expected: str) -> WorkerReply:
    """The reply of this process to a task of a process with the `expected` versions."""
    from distributed import get_worker

    own = f"{socket.gethostname()}:{os.getpid()}", get_worker().address
    try:
        check_versions(expected)
        with one_blas_thread:
            return WorkerReply(*own, answer(task))
    except NoAccess as error:
        return WorkerReply(*own, refusal=str(error))
    except (OSError, ServiceError) as error:
        return WorkerReply(*own, refusal=f"it cannot read the rows: {error}")


def answer(task: Task) -> PassResult:
    """What this process computes. Raises NoAccess, and what reading the rows raises."""
    with _lock:
        training = _trainings.get(task.training)
        if training is None and task.setup is not None:
            digest = _digest(task.setup)
            training = _Training(digest, PassWorker(_rows_of(task.setup, digest)))
            _trainings[task.training] = training
        if training is None:
            return PassResult(missing=(SETUP,))
        _trainings.move_to_end(task.training)
        _rows.move_to_end(training.rows)
        # The rows of the trainings that are kept are those that are kept.
        for kept in (_trainings, _rows):
            while len(kept) > KEPT:
                kept.popitem(last=False)
    return training.worker.answer(task)


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
