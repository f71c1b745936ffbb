"""All states that the rules can reach, breadth first.

Workers, replicas and jobs are interchangeable: of states that differ only in their order one is
kept. Each pair of a job and a process is expanded once, and its invariants are checked then; a
state is a tuple of the numbers of its parts.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from tests.service.protocol.invariants import (
    CANCELS,
    broken_by_job,
    broken_by_replica,
    broken_by_worker,
    broken_by_workers,
)
from tests.service.protocol.rules import Effect, Rules
from tests.service.protocol.states import (
    FINAL,
    KEY_TICKS,
    LEASE_TICKS,
    Job,
    Key,
    Phase,
    Replica,
    Worker,
)
from tests.service.protocol.states import State as JobState

BITS = 16
"""Of the number of a job or a process."""

State = tuple[int, ...]
"""Numbers of jobs, workers and replicas, each sorted."""
Process = Worker | Replica


QUEUED = Job(JobState.QUEUED, key=Key.REPLIED, created=1, acknowledged=1)


class Broken(Exception):
    """An invariant does not hold: its names, and the steps that lead there."""

    def __init__(self, names: list[str], path: list[str]) -> None:
        super().__init__(f"{', '.join(names)} after: {' / '.join(path)}")
        self.names, self.path = names, path


@dataclass(frozen=True)
class Size:
    jobs: int = 1
    workers: int = 2
    replicas: int = 1
    epochs: int = 2
    """Progress of a finished training."""
    queued: bool = False
    """The jobs are created and acknowledged at the start, and no replica watches them."""
    jumps_back: bool = True
    """The database's clock can jump back."""


@dataclass(frozen=True)
class Explored:
    canonical: int
    raw: int
    """The same without symmetry: every order counted."""
    steps: int
    depth: int


class Exploration:
    """Of one size under some rules."""

    def __init__(self, size: Size, rules: Rules) -> None:
        self._size, self._rules = size, rules
        self._jobs: list[Job] = []
        self._processes: list[Process] = []
        self._homes: list[int] = []
        """The job of each process, -1 if it is idle."""
        self._numbers: dict[Job | Process, int] = {}
        self._moves: dict[int, list[tuple[str, int, int, Effect]]] = {}
        self._affected: dict[tuple[int, Effect], int] = {}
        self._later: dict[int, tuple[int, int | None, int, Effect]] = {}
        self._orders = list(permutations(range(size.jobs)))
        self._renamed: list[dict[int, int]] = [{} for _ in self._orders]
        self._labels: list[str] = []

    def run(self, limit: int | None = None, *, check_ends: bool = False) -> Explored:
        """Until there are no new states, or `limit` of them. Raises Broken; with `check_ends` also
        for a state from which the jobs cannot end any more."""
        size = self._size
        start = self._canonical(
            [self._number(QUEUED if size.queued else Job())] * size.jobs,
            [self._number(Worker())] * size.workers,
            [self._number(Replica(seen=() if size.queued else (0,) * size.jobs))] * size.replicas,
        )
        index = {_packed(start): 0}
        self._parents, self._ways = array("I", [0]), array("B", [0])
        sources, targets = array("I"), array("I")
        open_ended = array("B", [1])
        level, depth, steps, raw = [start], 0, 0, self._orbit(start)
        expanded = 0
        while level and (limit is None or len(index) < limit):
            following: list[State] = []
            for state in level:
                source = expanded
                expanded += 1  # new states are appended in this order
                for label, after in self._successors(state, source):
                    steps += 1
                    packed = _packed(after)
                    target = index.get(packed)
                    if target is None:
                        target = index[packed] = len(index)
                        self._parents.append(source)
                        self._ways.append(self._label(label))
                        self._check(after, target)
                        raw += self._orbit(after)
                        following.append(after)
                        open_ended.append(not self._all_final(after))
                    if check_ends and label not in CANCELS:  # they end every job
                        sources.append(source)
                        targets.append(target)
            level, depth = following, depth + bool(following)
        if check_ends:
            self._check_ends(sources, targets, open_ended)
        return Explored(len(index), raw, steps, depth)

    # Numbers

    def _number(self, value: Job | Process) -> int:
        number = self._numbers.get(value)
        if number is None:
            if isinstance(value, Job):
                number = len(self._jobs)
                self._jobs.append(value)
            else:
                number = len(self._processes)
                self._processes.append(value)
                self._homes.append(-1 if value.phase == Phase.IDLE else value.job)
            assert number < 1 << BITS
            self._numbers[value] = number
        return number

    def _label(self, label: str) -> int:
        if label not in self._labels:
            self._labels.append(label)
        return self._labels.index(label)

    def _path(self, state: int) -> list[str]:
        path = []
        while state:
            path.append(self._labels[self._ways[state]])
            state = self._parents[state]
        return path[::-1]

    # Steps

    def _successors(self, state: State, source: int) -> Iterator[tuple[str, State]]:
        n_jobs, n_workers = self._size.jobs, self._size.workers
        jobs = list(state[:n_jobs])
        processes = list(state[n_jobs:])
        homes = self._homes
        for slot, process in enumerate(processes):
            if slot and processes[slot - 1] == process:
                continue  # interchangeable
            home = homes[process]
            for number in range(n_jobs) if home < 0 else (home,):
                for label, job, after, effect in self._moves_of(
                    jobs[number], process, number, source
                ):
                    changed = processes.copy()
                    if effect:
                        changed = [
                            self._effect(each, effect) if homes[each] == number else each
                            for each in processes
                        ]
                    changed[slot] = after
                    before, jobs[number] = jobs[number], job
                    yield label, self._canonical(jobs, changed[:n_workers], changed[n_workers:])
                    jobs[number] = before
        later = [self._clock(job, source) for job in jobs]
        workers, replicas = processes[:n_workers], processes[n_workers:]
        yield "tick", self._canonical([forward for forward, *_ in later], workers, replicas)
        back = [backward for _, backward, *_ in later if backward is not None]
        if self._size.jumps_back and len(back) == n_jobs:
            yield "jump back", self._canonical(back, workers, replicas)
        for number, (_, _, swept, effect) in enumerate(later):
            if swept != jobs[number]:
                changed = workers
                if effect:
                    changed = [
                        self._effect(each, effect) if homes[each] == number else each
                        for each in workers
                    ]
                after_sweep = [*jobs[:number], swept, *jobs[number + 1 :]]
                yield "sweep", self._canonical(after_sweep, changed, replicas)

    def _moves_of(
        self, job: int, process: int, number: int, source: int
    ) -> list[tuple[str, int, int, Effect]]:
        key = (job << BITS | process) << 4 | number
        moves = self._moves.get(key)
        if moves is None:
            moves = self._moves[key] = []
            before, actor = self._jobs[job], self._processes[process]
            if isinstance(actor, Replica):
                possible = self._rules.replica(before, actor, number)
            elif actor.phase == Phase.IDLE:
                possible = self._rules.idle_worker(before, actor, number)
            else:
                possible = self._rules.worker(before, actor)
            for label, after, then, effect in possible:
                if isinstance(then, Worker):
                    assert isinstance(actor, Worker)
                    broken = broken_by_worker(before, actor, after, then, label)
                else:
                    assert isinstance(actor, Replica)
                    broken = broken_by_job(before, after, label) + broken_by_replica(actor, then)
                if broken:
                    raise Broken(broken, [*self._path(source), label])
                moves.append((label, self._number(after), self._number(then), effect))
        return moves

    def _effect(self, process: int, effect: Effect) -> int:
        key = process, effect
        if key not in self._affected:
            affected = self._rules.affected(self._processes[process], effect)
            self._affected[key] = self._number(affected)
        return self._affected[key]

    def _clock(self, job: int, source: int) -> tuple[int, int | None, int, Effect]:
        """The job a tick later and, if a limit allows it, earlier; and after a sweep."""
        later = self._later.get(job)
        if later is None:
            before = self._jobs[job]
            forward, backward = self._rules.clock(before), self._rules.clock_back(before)
            swept, effect = self._rules.swept(before)
            broken = broken_by_job(before, forward, "tick") + broken_by_job(before, swept, "sweep")
            if broken:
                raise Broken(broken, [*self._path(source), "tick or sweep"])
            limited = before.left <= LEASE_TICKS and before.key_left <= KEY_TICKS
            back = self._number(backward) if limited else None
            later = self._number(forward), back, self._number(swept), effect
            self._later[job] = later
        return later

    # Symmetry

    def _canonical(self, jobs: list[int], workers: list[int], replicas: list[int]) -> State:
        if len(jobs) == 1:
            return (jobs[0], *sorted(workers), *sorted(replicas))
        return min(self._images(jobs, workers, replicas))

    def _images(self, jobs: list[int], workers: list[int], replicas: list[int]) -> Iterator[State]:
        """The state with its jobs in each order."""
        for order, renamed in zip(self._orders, self._renamed, strict=True):
            for process in (*workers, *replicas):
                if process not in renamed:
                    renamed[process] = self._number(_renamed(self._processes[process], order))
            yield (
                *(jobs[number] for number in order),
                *sorted([renamed[each] for each in workers]),
                *sorted([renamed[each] for each in replicas]),
            )

    def _orbit(self, state: State) -> int:
        """How many states differ from it only in the order of jobs, workers or replicas."""
        n_jobs, n_workers = self._size.jobs, self._size.workers
        jobs, workers = list(state[:n_jobs]), list(state[n_jobs : n_jobs + n_workers])
        replicas = list(state[n_jobs + n_workers :])
        images = 1 if n_jobs == 1 else len(set(self._images(jobs, workers, replicas)))
        return images * _orders(workers) * _orders(replicas)

    # Checks of whole states

    def _check(self, state: State, number: int) -> None:
        workers = [self._processes[each] for each in state[self._size.jobs :]]
        broken = broken_by_workers(tuple(w for w in workers if isinstance(w, Worker)))
        if broken:
            raise Broken(broken, self._path(number))

    def _all_final(self, state: State) -> bool:
        return all(self._jobs[job].state in FINAL for job in state[: self._size.jobs])

    def _check_ends(self, sources: array[int], targets: array[int], open_ended: array[int]) -> None:
        """Raises Broken if from some state the jobs cannot all end."""
        source, target = np.frombuffer(sources, np.uint32), np.frombuffer(targets, np.uint32)
        ends = np.frombuffer(open_ended, np.uint8) == 0
        while True:
            leads = source[ends[target] & ~ends[source]]
            if not len(leads):
                break
            ends[leads] = True
        if not ends.all():
            raise Broken(["no_acknowledged_job_is_lost"], self._path(int(np.argmin(ends))))


def _packed(state: State) -> int:
    packed = 0
    for number in state:
        packed = packed << BITS | number
    return packed


def _orders(numbers: list[int]) -> int:
    """Of a multiset."""
    repeated = math.prod(math.factorial(count) for count in Counter(numbers).values())
    return math.factorial(len(numbers)) // repeated


def _renamed(process: Process, order: tuple[int, ...]) -> Process:
    """The process when job `order[k]` becomes job `k`."""
    job = 0 if process.phase == Phase.IDLE else order.index(process.job)
    if isinstance(process, Worker):
        return process._replace(job=job)
    return process._replace(
        job=job, seen=tuple(process.seen[number] for number in order if process.seen)
    )
