"""Seeded schedules of the real code: each step must be one of the model and keep the invariants."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial

from service.errors import Conflict, StorageFull, Unavailable
from service.jobs.core.attempts import PASSING
from service.jobs.core.events import EventLog
from service.storage.ownership import MIN_AGE_S, sweep
from tests.service.protocol.invariants import broken_by_job, broken_by_worker
from tests.service.protocol.rules import Rules
from tests.service.protocol.simulation import (
    EPOCHS,
    LEASE_S,
    TICK_S,
    Process,
    Service,
    SimulatedReplica,
    SimulatedWorker,
)
from tests.service.protocol.states import FINAL, LEASE_TICKS, Job, Phase, Replica, State, Worker
from tests.service.protocol.views import View

JOBS, WORKERS, REPLICAS = 5, 3, 2
STEADY_S = 0.3
"""Time between two steps by the steady clock."""
MOMENT_S = 0.001
"""The same by the database's clock, which otherwise moves by ticks."""
DRAIN_ROUNDS = 400
RULES = Rules(EPOCHS)

FAULTS = frozenset({"no commit", "reply lost"})
ASIDE = frozenset({"beat", "look", "stop", "kill", "kill and expire"})
"""Steps of the heartbeat, and of those that stop or kill a worker."""
WORK = frozenset(
    {"start", "train", "obey", "drop", "diverge", "leave", "left", "ended", "refused", "cleared"}
    | {"write checkpoint", "commit checkpoint", "saved", "end", "give up", "take", "reclaim"}
    | (FAULTS | ASIDE - {"beat", "look"})
)
"""All others."""


class Violation(Exception):
    """A step that is not one of the model, or that breaks an invariant."""


class Schedule:
    """One run: `steps` random steps, then without faults until all jobs have ended."""

    def __init__(self, service: Service, dataset_id: str, seed: int) -> None:
        self._service, self._chance = service, random.Random(seed)
        self._workers: list[SimulatedWorker] = []
        self._born = 0
        self._replicas = [SimulatedReplica(service, dataset_id) for _ in range(REPLICAS)]
        self._acknowledged: dict[int, str] = {}
        self._log = EventLog(service.database)
        self._read: dict[str, int] = {}
        """Events that a reader has seen, by job."""
        self._closed: set[str] = set()
        self._renewed: list[tuple[Process | None, float]] = [(None, 0.0)] * WORKERS
        """When a worker's lease was last seen to be whole, by the steady clock."""
        self.path: list[str] = []
        for _ in range(WORKERS):
            self._workers.append(self._new_worker())
        self._before: View | None = None
        self._view = self._look()

    def run(self, steps: int) -> None:
        """Raises Violation."""
        acts: list[tuple[float, Callable[[], None]]] = [
            (40, self._work),
            (20, self._heartbeat),
            (20, self._request),
            (3, self._kill_worker),
            (1, self._kill_replica),
            (5, self._stop),
            (6, self._tick),
            (1, self._jump),
            (4, self._read_events),
            (0.5, self._sweep),
        ]
        weights, chosen = [weight for weight, _ in acts], [act for _, act in acts]
        for act in self._chance.choices(chosen, weights, k=steps):
            self._pass()
            act()
        self._drain()

    def close(self) -> None:
        """End all processes: one that waits for its turn would keep its memory."""
        processes = [worker.process for worker in self._workers]
        processes += [each.process for each in self._replicas if each.process is not None]
        for process in processes:
            self._service.turns.kill(process)

    # Steps

    def _work(self) -> None:
        number = self._chance.randrange(WORKERS)
        worker = self._workers[number]
        if worker.process.ended:
            self._workers[number] = worker = self._new_worker()
        self._note_previous(worker)
        before = self._view
        fault = self._fault(often=before.workers[number].phase == Phase.ENDING)
        self._service.turns.run(worker.process, fault)
        without = ASIDE if fault else ASIDE | FAULTS
        self._after_worker(f"worker {number}: {fault or 'goes'}", before, number, without)

    def _heartbeat(self) -> None:
        number = self._chance.randrange(WORKERS)
        worker = self._workers[number]
        if worker.attempt is None or worker.process.ended or worker.process.turn == "idle":
            return
        before = self._view
        if not worker.attempt._lost:
            worker.attempt.look(0)
        self._after_worker(f"worker {number}: heartbeat", before, number, WORK)
        job = self._view.jobs[self._view.workers[number].job]
        if job.left == LEASE_TICKS or worker.process is not self._renewed[number][0]:
            self._renewed[number] = worker.process, self._service.clock.steady
        elif not worker.attempt._lost and job.state == State.RUNNING:
            old = self._service.clock.steady - self._renewed[number][1] > LEASE_S / 2
            self._expect(not old, "a_live_lease_is_kept", f"{job} after a heartbeat")

    def _request(self) -> None:
        replica = self._chance.choice(self._replicas)
        before = self._view
        number = self._replicas.index(replica)
        if replica.process is None or replica.process.ended:
            job = self._chance.randrange(JOBS)
            rows = [row.id for row in before.rows.values() if int(row.number) == job]
            replica.begin(
                job, self._steering(rows[0]) if rows and self._chance.random() < 0.7 else None
            )
        assert replica.process is not None
        fault = self._fault()
        self._service.turns.run(replica.process, fault)
        if replica.replied is not None:
            self._acknowledged[replica.number] = replica.replied
        self._after_replica(f"replica {number}: {fault or 'goes'}", before, number)

    def _steering(self, job_id: str) -> Callable[[], None]:
        jobs = self._service.jobs
        requests: list[Callable[[], object]] = [
            partial(jobs.pause, job_id),
            partial(jobs.resume, job_id),
            partial(jobs.resume, job_id),
            partial(jobs.cancel, job_id, keep_model=True),
            partial(jobs.cancel, job_id, keep_model=False),
        ]
        (request,) = self._chance.choices(requests, [4, 3, 3, 4, 0.5])

        def steer() -> None:
            with suppress(Conflict, *PASSING):
                request()

        return steer

    def _kill_worker(self) -> None:
        number = self._chance.randrange(WORKERS)
        worker, before = self._workers[number], self._view
        self._service.turns.kill(worker.process)
        if self._chance.random() < 0.3:  # the supervisor reports it
            self._service.leases.expire([worker.name])
        self._workers[number] = self._new_worker()
        self._after_worker(f"worker {number}: killed", before, number)

    def _kill_replica(self) -> None:
        replica, before = self._chance.choice(self._replicas), self._view
        if replica.process is not None:
            self._service.turns.kill(replica.process)
        replica.process = None
        self._after_replica("a replica is killed", before, self._replicas.index(replica))

    def _stop(self) -> None:
        number = self._chance.randrange(WORKERS)
        worker, before = self._workers[number], self._view
        worker.stopping.set()
        self._after_worker(f"worker {number}: must stop", before, number)

    def _tick(self) -> None:
        self._service.clock.steady += TICK_S
        self._move_clock(TICK_S)

    def _jump(self) -> None:
        self._move_clock(self._chance.choice([-TICK_S, 3 * TICK_S]))

    def _move_clock(self, seconds: float) -> None:
        before = self._view
        self._service.clock.database += seconds
        self._view = self._look()
        label = f"clock {seconds:+.0f} s"
        self.path.append(label)
        for job, after in zip(before.jobs, self._view.jobs, strict=True):
            still = after._replace(left=job.left, key_left=job.key_left)
            self._expect(still == job, label, f"{job} became {after}")

    def _read_events(self) -> None:
        """As an event stream does: always after the last one seen."""
        if not self._view.rows:
            return
        job_id = self._chance.choice(list(self._view.rows))
        seen = self._read.get(job_id, 0)
        limit = self._chance.choice([2, 100])
        batch = self._log.read(job_id, seen, limit)
        numbers = [event.number for event in batch.events]
        expected = list(range(seen + 1, seen + 1 + len(numbers)))
        self._expect(numbers == expected, "events_have_no_gaps", f"{numbers} after {seen}")
        ended = [event.kind == "end" for event in batch.events]
        self._expect(not any(ended[:-1]), "it_ends_once", "events after the end")
        closed = job_id in self._closed
        self._expect(not (closed and numbers), "a_final_state_is_not_left", "events after the end")
        self._read[job_id] = seen + len(numbers)
        if batch.complete:
            row = self._view.rows[job_id]
            whole = self._read[job_id] == row.revision and row.ends == 1
            self._expect(whole, "events_have_no_gaps", "the end of the events is missing")
            self._closed.add(job_id)

    def _sweep(self) -> None:
        """The files of no row and of no write in progress are old by now."""
        before, blobs = self._view, self._service.blobs
        for key in blobs.existing() - before.in_progress:
            with suppress(FileNotFoundError):
                os.utime(blobs.path(key), (0, 0))
        sweep(self._service.database, blobs, MIN_AGE_S, again_s=0)
        self._view = self._look()
        self.path.append("sweep")
        for job, after in zip(before.jobs, self._view.jobs, strict=True):
            self._expect(after == RULES.swept(job)[0], "sweep", f"{job} became {after}")
        for worker, then in zip(before.workers, self._view.workers, strict=True):
            gone = worker != then and worker.phase != Phase.SAVED  # which deletes its file anyway
            self._expect(not gone, "sweep", f"{worker} became {then}")

    # Checks

    def _after_worker(
        self, label: str, before: View, number: int, without: frozenset[str] = frozenset()
    ) -> None:
        """`without` are the steps of the model that this cannot have been."""
        self._view = after = self._look()
        self.path.append(label)
        worker, then = before.workers[number], after.workers[number]
        home = then.job if worker.phase == Phase.IDLE and then.phase != Phase.IDLE else worker.job
        if worker.phase == Phase.IDLE:
            without -= {"stop"}  # it can be about to take a job
        busy = worker.phase != Phase.IDLE or then.phase != Phase.IDLE
        for job_number, (job, now) in enumerate(zip(before.jobs, after.jobs, strict=True)):
            if busy and job_number == home:
                labels = _ways(job, worker, job_number, without).get((now, then))
                what = f"{worker} with {job} became {then} with {now}"
                self._expect(labels is not None, label, what)
                assert labels is not None
                for step in labels:
                    self._keep(broken_by_worker(job, worker, now, then, step), step, what)
            elif now != job:
                allowed = {now for now, _ in _ways(job, Worker(), job_number, without)}
                what = f"{job} became {now}"
                allowed.add(job._replace(left=0))  # the supervisor knows that its worker died
                if job.state in FINAL:
                    allowed.add(job._replace(orphans=0))  # it was reclaimed, and has ended
                self._expect(now in allowed, label, what)
                step = "reclaim" if now.state != job.state else "expire or clear"
                self._keep(broken_by_job(job, now, step), label, what)

    def _after_replica(self, label: str, before: View, number: int) -> None:
        self._view = after = self._look()
        self.path.append(label)
        replica = before.replicas[number]
        for job_number, (job, now) in enumerate(zip(before.jobs, after.jobs, strict=True)):
            if now == job:
                continue
            mine = self._replicas[number].number == job_number
            what = f"{replica}: {job} became {now}"
            steps = _answers(job, replica, job_number).get(now) if mine else None
            self._expect(steps is not None, label, what)
            assert steps is not None
            for step in steps:
                self._keep(broken_by_job(job, now, step), step, what)
        for job_number, job_id in self._acknowledged.items():
            known = job_id in after.rows
            self._expect(known, "no_acknowledged_job_is_lost", f"{job_number} has no row")

    def _keep(self, broken: list[str], label: str, what: str) -> None:
        self._expect(not broken, ", ".join(broken), f"{label}: {what}")

    def _expect(self, holds: bool, rule: str, what: str) -> None:
        if not holds:
            last = " / ".join(self.path[-12:])
            raise Violation(f"{rule}\n{what}\nafter {len(self.path)} steps, the last: {last}")

    # Helpers

    def _drain(self) -> None:
        """Without faults all jobs end."""
        for tick in range(DRAIN_ROUNDS):
            for number in range(WORKERS):
                self._pass()
                self._drained(number)
            for number, replica in enumerate(self._replicas):
                while replica.process is not None and not replica.process.ended:
                    before = self._view
                    self._service.turns.run(replica.process)
                    if replica.replied is not None:
                        self._acknowledged[replica.number] = replica.replied
                    self._after_replica(f"replica {number}: drains", before, number)
            for row in list(self._view.rows.values()):
                if row.state == "paused":
                    self._service.jobs.resume(row.id)
            self._view = self._look()
            if all(job.state in (*FINAL, State.ABSENT) for job in self._view.jobs):
                return
            if tick % 10 == 9:
                self._tick()
        raise Violation(f"no_acknowledged_job_is_lost\nthey do not end: {self._view.jobs}")

    def _drained(self, number: int) -> None:
        worker = self._workers[number]
        if worker.process.ended:
            self._workers[number] = worker = self._new_worker()
            self._view = self._look()
        if worker.attempt is not None and worker.process.turn != "idle":
            before = self._view
            if not worker.attempt._lost:
                worker.attempt.look(0)
            self._after_worker(f"worker {number}: drains, heartbeat", before, number, WORK)
        before = self._view
        self._note_previous(worker)
        self._service.turns.run(worker.process)
        self._after_worker(f"worker {number}: drains", before, number, ASIDE | FAULTS)

    def _pass(self) -> None:
        """A moment; no two jobs are created at the same time, so a seed always gives one order."""
        self._service.clock.steady += STEADY_S
        self._service.clock.database += MOMENT_S

    def _look(self) -> View:
        known = set(self._acknowledged)
        self._before = View(self._service, JOBS, self._workers, self._replicas, known, self._before)
        return self._before

    def _note_previous(self, worker: SimulatedWorker) -> None:
        """The checkpoint that its commit would replace."""
        if worker.process.doing == "checkpoint" and worker.process.turn == "before":
            assert worker.attempt is not None
            worker.previous = self._view.rows[worker.attempt.job.id].checkpoint_key

    def _new_worker(self) -> SimulatedWorker:
        self._born += 1
        return SimulatedWorker(
            self._service, f"w{self._born}", lambda: self._chance.random() < 0.01
        )

    def _fault(self, *, often: bool = False) -> Exception | None:
        chance = self._chance.random() / (4 if often else 1)
        if chance < 0.04:
            return Unavailable("storage-unavailable", "no reply", retry_after_s=1)
        return StorageFull("storage-full", "no space") if chance < 0.07 else None


@lru_cache(maxsize=100_000)
def _ways(
    job: Job, worker: Worker, number: int, without: frozenset[str]
) -> dict[tuple[Job, Worker], tuple[str, ...]]:
    """What a worker can do up to its next turn, each with the labels of its steps: at most three,
    such as that a checkpoint is saved, and the work leaves."""
    ways: dict[tuple[Job, Worker], tuple[str, ...]] = {(job, worker): ()}
    level = [(job, worker)]
    for _ in range(3):
        following = []
        for before, actor in level:
            idle = actor.phase == Phase.IDLE
            moves = (
                RULES.idle_worker(before, actor, number) if idle else RULES.worker(before, actor)
            )
            for label, after, then, _effect in moves:
                assert isinstance(then, Worker)
                if label in without:
                    continue
                if then.phase == Phase.RECLAIMED:
                    then = Worker()
                if (after, then) not in ways:
                    ways[after, then] = (*ways[before, actor], label)
                    following.append((after, then))
        level = following
    return ways


@lru_cache(maxsize=100_000)
def _answers(job: Job, replica: Replica, number: int) -> dict[Job, tuple[str, ...]]:
    """The same for the job of a request."""
    ways: dict[Job, tuple[str, ...]] = {}
    level: list[tuple[Job, Replica, tuple[str, ...]]] = [(job, replica, ())]
    for _ in range(2):
        following = []
        for before, actor, labels in level:
            for label, after, then, _effect in RULES.replica(before, actor, number):
                assert isinstance(then, Replica)
                if after not in ways:
                    ways[after] = (*labels, label)
                    following.append((after, then, (*labels, label)))
        level = following
    return ways
