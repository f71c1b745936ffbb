"""Seeded schedules of the real code: each step must keep the invariants of parts."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from service.errors import Conflict, StorageFull, Unavailable
from service.jobs.core.attempts import Attempt
from service.storage.arrays import unpack
from service.storage.ownership import MIN_AGE_S, sweep
from tests.service.jobs.rows import new_job
from tests.service.protocol.parts.invariants import (
    FINAL,
    Change,
    Job,
    JobState,
    Row,
    RowState,
    broken_by,
    broken_by_result,
)
from tests.service.protocol.parts.simulation import UNITS, Parts, SimulatedPartWorker
from tests.service.protocol.schedules import DRAIN_ROUNDS, MOMENT_S, STEADY_S, Violation
from tests.service.protocol.simulation import CALLER, TICK_S

JOBS, WORKERS = 3, 3
STATES = {state.name.lower(): state for state in JobState} | {"failed": JobState.CANCELED}
"""A job that fails has no result either."""
PARTS_OF_JOBS = "SELECT * FROM job_parts ORDER BY job_id, number"
ALL_JOBS = "SELECT id, state, attempt, pause_requested, cancel_requested, result FROM jobs"

Key = tuple[str, int]
"""Job and number of a part."""


class Held(NamedTuple):
    """The last lease of a part that a worker took."""

    key: Key
    life: int
    """Of the row: how often the part was offered before."""
    attempt: int


class View(NamedTuple):
    jobs: dict[str, Job]
    attempts: dict[str, int]
    rows: dict[Key, Row]
    parts: dict[Key, Any]
    """As they are in the table."""


class PartsSchedule:
    """One run: `steps` random steps, then without faults until all jobs have ended."""

    def __init__(self, parts: Parts, dataset_id: str, seed: int) -> None:
        self._parts, self._service = parts, parts.service
        self._dataset_id, self._chance = dataset_id, random.Random(seed)
        self._faulty = True
        self._speeds = [self._chance.choice([0.05, 1, 3]) for _ in range(WORKERS)]
        self._born = 0
        self._created: list[str] = []
        self._lives: dict[Key, int] = {}
        self._held: dict[SimulatedPartWorker, Held] = {}
        self._young: dict[SimulatedPartWorker, set[str]] = {}
        """Files of writes in progress."""
        self._units: dict[str, int] = {}
        """By the digest of a file."""
        self.path: list[str] = []
        self._create()
        self._workers = [self._new_worker() for _ in range(WORKERS)]
        self._view = self._look()

    def run(self, steps: int) -> None:
        """Raises Violation."""
        acts: list[tuple[float, Callable[[], None]]] = [
            (60, self._work),
            (20, self._heartbeat),
            (3, self._request),
            (0.3, self._create),
            (2, self._kill),
            (0.7, self._stop),
            (3, self._tick),
            (0.5, self._sweep),
            (0.7, self._damage),
        ]
        weights, chosen = [weight for weight, _ in acts], [act for _, act in acts]
        for act in self._chance.choices(chosen, weights, k=steps):
            self._pass()
            act()
            self._view = self._look()
        self._drain()

    # Steps

    def _work(self) -> None:
        (number,) = self._chance.choices(range(WORKERS), self._speeds)
        worker = self._worker(number)
        often = worker.process.turn in ("read", "after")
        fault, files = self._fault(often), self._service.blobs.existing()
        self._service.turns.run(worker.process, fault)
        before = self._young.get(worker, set()) if worker.process.turn == "before" else set()
        self._young[worker] = before | (self._service.blobs.existing() - files)
        self._check(f"{worker.name}: {fault or 'goes'}", worker)

    def _heartbeat(self) -> None:
        self._beat(self._worker(self._chance.randrange(WORKERS)))

    def _beat(self, worker: SimulatedPartWorker) -> None:
        work = worker.work
        if work is None or worker.process.turn == "idle" or work._lost:
            return
        work.look(0)
        self._check(f"{worker.name}: heartbeat", worker)
        if worker.part is not None and not work._lost:
            job = self._view.jobs[work.job.id]
            waits = any(each.state == JobState.QUEUED for each in self._view.jobs.values())
            stops = bool(job.pause or job.state == JobState.PAUSED or waits)
            self._expect(work._flags.pause == stops, "a_job_that_stops_gets_no_help", job)

    def _request(self) -> None:
        jobs, job_id = self._service.jobs, self._chance.choice(self._created)
        requests: list[Callable[[], object]] = [
            partial(jobs.pause, job_id),
            partial(jobs.resume, job_id),
            partial(jobs.cancel, job_id, keep_model=True),
            partial(jobs.cancel, job_id, keep_model=False),
        ]
        (request,) = self._chance.choices(requests, [4, 6, 0.2, 0.2])
        with suppress(Conflict):
            request()
        self._check(f"request {request}", None)

    def _create(self) -> None:
        if len(self._created) < JOBS:
            new = new_job(self._dataset_id)
            self._created.append(self._service.jobs.create(new, CALLER).id)

    def _kill(self) -> None:
        number = self._chance.randrange(WORKERS)
        worker = self._workers[number]
        self._service.turns.kill(worker.process)
        if self._chance.random() < 0.5:  # the supervisor reports it
            self._service.leases.expire([worker.name])
        self._workers[number] = self._new_worker()
        self._check(f"{worker.name}: killed", None)

    def _stop(self) -> None:
        self._chance.choice(self._workers).stopping.set()

    def _tick(self) -> None:
        self._service.clock.steady += TICK_S
        self._service.clock.database += TICK_S
        self.path.append("tick")

    def _sweep(self) -> None:
        blobs = self._service.blobs
        young = {blobs.writing.get(worker.process) for worker in self._workers}
        young = young.union(*(self._young.get(worker, set()) for worker in self._workers))
        for key in blobs.existing() - young:
            with suppress(FileNotFoundError):
                os.utime(blobs.path(key), (0, 0))
        sweep(self._service.database, blobs, MIN_AGE_S, again_s=0)
        self._check("sweep", None)

    def _damage(self) -> None:
        """Of a result."""
        done = [part for part in self._view.parts.values() if part.result_key]
        if done:
            path = self._service.blobs.path(self._chance.choice(done).result_key)
            if path.exists():
                path.write_bytes(b"damaged")
                self.path.append("damage")

    # Checks

    def _check(self, label: str, actor: SimulatedPartWorker | None) -> None:
        self.path.append(label)
        before, after = self._view, self._look()
        self._view = after
        for key in before.rows.keys() | after.rows.keys():
            row, then = before.rows.get(key, Row()), after.rows.get(key, Row())
            if row.state == RowState.ABSENT:
                self._lives[key] = self._lives.get(key, 0) + 1
            job, job_after = before.jobs[key[0]], after.jobs[key[0]]
            by, current = "time", False
            if actor is not None and row != then:
                by, current = self._by(actor, key, before, after)
            change = Change(by, current, job, row, then, job_after, UNITS)
            broken = broken_by(change)
            self._expect(not broken, ", ".join(broken), change)
        for job in after.jobs.values():
            broken = broken_by_result(job)
            self._expect(not broken, ", ".join(broken), job)

    def _by(
        self, actor: SimulatedPartWorker, key: Key, before: View, after: View
    ) -> tuple[str, bool]:
        """Who changed a row, and whether it may."""
        part, then = before.parts.get(key), after.parts.get(key)
        if part is not None and then is not None and then.attempt != part.attempt:
            self._held[actor] = Held(key, self._lives[key], then.attempt)
            return "take", True
        held = self._held.get(actor)
        if isinstance(actor.work, Attempt):
            job_id = actor.work.job.id
            runs = before.jobs[job_id].state == JobState.RUNNING
            present = before.attempts[job_id] == actor.work.job.attempt
            return "worker", key[0] == job_id and runs and present
        if held is None or held.key != key:
            return "time", False
        same = part is not None and held == Held(key, self._lives[key], part.attempt)
        return "helper", same

    def _expect(self, holds: bool, rule: str, what: object) -> None:
        if not holds:
            last = " / ".join(self.path[-12:])
            raise Violation(f"{rule}\n{what}\nafter {len(self.path)} steps, the last: {last}")

    # Helpers

    def _drain(self) -> None:
        self._faulty = False
        for tick in range(DRAIN_ROUNDS):
            for number in range(WORKERS):
                self._pass()
                worker = self._worker(number)
                self._beat(worker)
                self._service.turns.run(worker.process)
                self._check(f"{worker.name}: drains", worker)
            for job_id, job in self._view.jobs.items():
                if job.state == JobState.PAUSED:
                    self._service.jobs.resume(job_id)
            self._view = self._look()
            if all(job.state in FINAL for job in self._view.jobs.values()):
                return
            if tick % 10 == 9:
                self._tick()
                self._view = self._look()
        self._expect(False, "the_job_can_end", self._view)

    def _pass(self) -> None:
        self._service.clock.steady += STEADY_S
        self._service.clock.database += MOMENT_S
        self._view = self._look()

    def _worker(self, number: int) -> SimulatedPartWorker:
        if self._workers[number].process.ended:
            self._workers[number] = self._new_worker()
        return self._workers[number]

    def _new_worker(self) -> SimulatedPartWorker:
        self._born += 1
        return SimulatedPartWorker(self._parts, f"w{self._born}", self._error)

    def _error(self) -> Exception | None:
        chance = self._chance.random() if self._faulty else 1
        if chance < 0.02:
            return ValueError("the part fails")
        return OSError("a file cannot be read") if chance < 0.04 else None

    def _fault(self, often: bool) -> Exception | None:
        chance = self._chance.random() / (4 if often else 1)
        if chance < 0.04:
            return Unavailable("storage-unavailable", "no reply", retry_after_s=1)
        return StorageFull("storage-full", "no space") if chance < 0.06 else None

    def _look(self) -> View:
        rows = self._service.rows(ALL_JOBS)
        jobs = {row.id: self._job(row) for row in rows}
        parts = {(row.job_id, row.number): row for row in self._service.rows(PARTS_OF_JOBS)}
        attempts = {row.id: row.attempt for row in rows}
        return View(jobs, attempts, {key: self._row(p) for key, p in parts.items()}, parts)

    def _job(self, row: Any) -> Job:
        state, work = STATES[row.state], ()
        if state == JobState.SUCCEEDED:
            work = tuple(json.loads(row.result)["work"])
        return Job(state, pause=int(row.pause_requested or row.cancel_requested), work=work)

    def _row(self, row: Any) -> Row:
        key, digest = row.checkpoint_key, row.checkpoint_sha256
        state = RowState.FREE if row.worker is None else RowState.LEASED
        if row.result_key is not None:
            key, digest, state = row.result_key, row.result_sha256, RowState.DONE
        left = 0
        if row.lease_expires_at is not None:
            seconds = row.lease_expires_at - self._service.clock.database
            left = max(0, math.ceil(seconds / TICK_S))
        stored = 0
        path = self._service.blobs.path(key)
        with suppress(FileNotFoundError):
            content = path.read_bytes()
            stored = int(hashlib.sha256(content).hexdigest() == digest)
            if stored and digest not in self._units:
                self._units[digest] = int(unpack(content)["done"])
        return Row(state, left, row.failures, self._units.get(digest, 0), stored)
