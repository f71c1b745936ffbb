"""Passes that other processes compute: the process that asks.

It has names for values of rows that others keep, and how each was made: if they are lost, they are
made again.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from service.jobs.spread import pass_worker
from svm.data.matrices import Floats, Vector
from svm.data.shards import Sum
from svm.problem.passes import Cluster, Pass, Passed, RowValues, Run
from svm.problem.problem import Problem

GIVEN = 8
"""Row values of this process that are remembered by their name elsewhere."""


class RemoteValues:
    """Values of rows that other processes keep, or make again. `np.asarray` fetches them."""

    def __init__(self, owner: RemotePasses, name: pass_worker.Name, n: int, origin: Origin) -> None:
        self.name = name
        self.origin = origin
        self._owner = owner
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vector:
        del copy
        return np.asarray(self._owner.fetch_values(self), dtype=dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Row values come from a pass, which read others."""

    step: pass_worker.NamedPass
    before: tuple[Origin, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Row values come from this process."""

    name: pass_worker.Name
    values: npt.NDArray[Any]


Origin: TypeAlias = Made | Given


class RemotePasses(Cluster):
    """The passes of one problem, computed by other processes.

    A subclass has the processes: its `carry_out` has each part computed at least once.
    """

    def __init__(
        self, problem: Problem, recipe: pass_worker.Recipe, cells: int, training: str
    ) -> None:
        """`cells`: about how many parts there are; `training` is the name of this one, in all
        processes."""
        super().__init__(problem.executor)
        n_leaves = len(problem.leaves) - 1
        leaves = 1
        while -(-n_leaves // (2 * leaves)) >= cells:
            leaves *= 2
        weights = problem.unequal_weights
        self.layout = pass_worker.Layout(problem.leaves, leaves, weights is not None)
        self.training = training
        self._setup = pass_worker.Setup(self.layout, recipe)
        self._n = problem.n_samples
        self._names = (f"{k}" for k in count())
        self._held: weakref.WeakSet[RemoteValues] = weakref.WeakSet()
        self._row_values = [Given(pass_worker.LABELS, problem.y)]
        if weights is not None:
            self._row_values.append(Given(pass_worker.WEIGHTS, weights))
        self._given: OrderedDict[int, RemoteValues] = OrderedDict()
        self._later: list[Made] = []
        """Passes that only make row values. They are computed with the next one, in one task."""

    @abstractmethod
    def carry_out(
        self, units: Sequence[int], step: pass_worker.NamedPass, *, fetch: bool = False
    ) -> Iterator[pass_worker.PassResult]:
        """The answers for all units of a pass, each once. Raises Interrupted."""

    def compute(self, one: Pass, of: Sequence[RowValues]) -> Passed:
        held = [self._held_of(values) for values in of]
        n_made = one.makes + one.chooses
        step = pass_worker.NamedPass(
            one, tuple(some.name for some in held), tuple(next(self._names) for _ in range(n_made))
        )
        made = Made(step, tuple(some.origin for some in held))
        if n_made and not one.size and not one.notes and one.together <= 1:
            self._later.append(made)
            return self._passed(np.zeros(0), np.empty((self.layout.n_leaves, 0)), made)
        n_units = -(-self.layout.n_cells // self.layout.cells_together(one))
        nodes: dict[tuple[int, int], Sum] = {}
        notes: dict[int, Floats] = {}
        for answer in self.carry_out(range(n_units), step):
            nodes |= {node: np.array(total) for node, total in answer.nodes.items()}
            notes |= answer.notes
        self._later.clear()
        noted = np.concatenate([notes[unit] for unit in range(n_units)])
        return self._passed(_total(nodes, n_units), noted, made)

    def _passed(self, total: Sum, notes: Floats, made: Made) -> Passed:
        return Passed(total, notes, tuple(self._new(name, made) for name in made.step.makes))

    def task(
        self,
        units: Sequence[int],
        step: pass_worker.NamedPass,
        missing: Sequence[pass_worker.Name] = (),
        *,
        fetch: bool = False,
    ) -> pass_worker.Task:
        """A task of some units, with how missing values were made, and passes that had to wait."""
        if pass_worker.SETUP in missing:
            missing = (pass_worker.SETUP, *self.layout.row_values, *step.of)
        origins: list[Origin] = [own for own in self._row_values if own.name in missing]
        origins += [held.origin for held in self._held if held.name in missing]
        earlier: dict[pass_worker.Name, pass_worker.NamedPass] = {}
        if missing:
            origins += self._later
        else:
            earlier = {made.step.makes[0]: made.step for made in self._later}
        given: dict[pass_worker.Piece, npt.NDArray[Any]] = {}
        while origins:
            match origins.pop():
                case Made(step=made, before=before) if made.makes[0] not in earlier:
                    earlier[made.makes[0]] = made
                    origins += [*before, *self._row_values]
                case Given(name=name, values=values):
                    for cell in self._cells(units, step):
                        given[name, cell] = values[self.layout.rows(cell)]
        return pass_worker.Task(
            training=self.training,
            step=step,
            units=tuple(units),
            live=frozenset(some.name for some in self._held),
            also=tuple(name for made in self._later for name in made.step.makes),
            fetch=fetch,
            setup=self._setup if pass_worker.SETUP in missing else None,
            earlier=tuple(earlier.values()),
            given=given,
        )

    def _cells(self, units: Sequence[int], step: pass_worker.NamedPass) -> list[int]:
        each = self.layout.cells_together(step.one)
        cells = (cell for unit in units for cell in range(unit * each, (unit + 1) * each))
        return [cell for cell in cells if cell < self.layout.n_cells]

    def fetch_values(self, held: RemoteValues) -> Vector:
        """(n_samples,)"""
        if isinstance(held.origin, Given):
            return held.origin.values
        step = pass_worker.NamedPass(Pass(function=nothing), (held.name,), ())
        values: dict[int, Vector] = {}
        for answer in self.carry_out(range(self.layout.n_cells), step, fetch=True):
            values |= answer.values
        self._later.clear()
        return np.concatenate([values[unit] for unit in range(self.layout.n_cells)])

    def _new(self, name: pass_worker.Name, origin: Origin) -> RemoteValues:
        held = RemoteValues(self, name, self._n, origin)
        self._held.add(held)
        return held

    def _held_of(self, values: RowValues) -> RemoteValues:
        """By the name that others know them by; arrays of this process get one."""
        if isinstance(values, RemoteValues):
            return values
        if id(values) not in self._given:  # which keeps the array, so that no other has its id
            name = next(self._names)
            self._given[id(values)] = self._new(name, Given(name, values))
        self._given.move_to_end(id(values))
        held = self._given[id(values)]
        if len(self._given) > GIVEN:
            self._given.popitem(last=False)
        return held


def nothing(run: Run) -> None:
    """A pass that only fetches."""


def reading(run: Run) -> None:
    """A pass that only reads rows, which processes then keep."""
    for _ in run.parts(run.rows):
        pass


def _total(nodes: Mapping[tuple[int, int], Sum], n_units: int) -> Sum:
    """The sum of subtrees that are all units together."""
    level = dict(nodes)
    height, width = 0, n_units
    while width > 1:
        for k in range(0, width, 2):
            if (height, k) in level:
                total = level.pop((height, k))
                if k + 1 < width:
                    total = total + level.pop((height, k + 1))
                level[height + 1, k // 2] = total
        height, width = height + 1, -(-width // 2)
    (total,) = level.values()
    return total
