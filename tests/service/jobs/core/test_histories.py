"""Workers and callers at the same time: whatever they do to a job, its history is possible."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise

import pytest
import sqlalchemy as sa

from service.errors import Conflict
from service.jobs.core.events import EventKind, EventLog
from service.jobs.core.job import FINAL, TRANSITIONS, State
from service.jobs.core.leases import LeaseLost, Leases, Outcome
from service.jobs.core.store import JobStore
from service.storage.database import Database
from service.storage.database.tables import jobs as jobs_table
from tests.backends import ON_ALL_BACKENDS
from tests.seeds import seed_from
from tests.service.jobs.rows import queue, report

pytestmark = ON_ALL_BACKENDS

ENDINGS = (
    Outcome(state=State.SUCCEEDED, stop_reason="converged", converged=True, warnings=("slow",)),
    Outcome(state=State.FAILED, stop_reason="error", error={"code": "diverged"}),
)


def work(leases: Leases, number: int, draw: random.Random, quiet: threading.Event) -> None:
    """Take jobs, report, save, release them, end them, or die; obey no command in time."""
    while not quiet.is_set():
        lease = leases.take(f"worker {number}", 0.2 if draw.random() < 0.2 else 30)
        if lease is None:
            quiet.wait(0.01)
            continue
        with suppress(LeaseLost):
            for step in range(draw.randrange(4)):
                leases.report(lease, report(step))
                if draw.random() < 0.3:
                    leases.checkpoint(lease, step, b"state", report(step))
            if draw.random() < 0.6:
                leases.release(lease, report())
            elif draw.random() < 0.3:
                leases.finish(lease, draw.choice(ENDINGS), report(), lambda _: 1)
            # Else it is dead.


def steer(jobs: JobStore, ids: list[str], draw: random.Random, times: int) -> None:
    for _ in range(times):
        job_id, what = draw.choice(ids), draw.random()
        with suppress(Conflict):
            if what < 0.4:
                jobs.pause(job_id)
            elif what < 0.95:
                jobs.resume(job_id)
            else:
                jobs.cancel(job_id, keep_model=what < 0.97)


def read_on(log: EventLog, seen: dict[str, list[int]], quiet: threading.Event) -> None:
    """Read the events of all jobs, always after the last one seen."""
    while not quiet.is_set():
        for job_id, numbers in seen.items():
            batch = log.read(job_id, numbers[-1] if numbers else 0, 100)
            numbers += [event.number for event in batch.events]


@pytest.mark.parametrize(
    ("n_jobs", "times"), [(10, 60), pytest.param(200, 1500, marks=pytest.mark.torture)]
)
def test_history_is_whole_and_possible(
    database: Database, jobs: JobStore, leases: Leases, dataset_id: str, n_jobs: int, times: int
) -> None:
    """Numbers without gaps, also as a reader saw them meanwhile; no state that cannot follow the
    one before; one end, and nothing after it."""
    seed = seed_from("TORTURE_SEED")
    ids = [queue(jobs, dataset_id, caller=f"c{k % 3}").id for k in range(n_jobs)]
    log = EventLog(database)
    seen: dict[str, list[int]] = {job_id: [] for job_id in ids}
    quiet = threading.Event()
    with ThreadPoolExecutor(7) as pool:
        others = [pool.submit(work, leases, k, random.Random(seed + k), quiet) for k in range(3)]
        others.append(pool.submit(read_on, log, seen, quiet))
        callers = [
            pool.submit(steer, jobs, ids, random.Random(seed + 10 + k), times) for k in range(1, 4)
        ]
        try:
            for caller in callers:
                caller.result()
        finally:
            quiet.set()
        for other in others:
            other.result()
    with database.write() as connection:  # the dead are found
        connection.execute(sa.update(jobs_table).values(lease_expires_at=0.0))
    leases.reclaim()
    for job_id in ids:
        batch = log.read(job_id, 0, 100_000)
        job = jobs.get(job_id)
        assert [event.number for event in batch.events] == list(range(1, job.revision + 1))
        assert seen[job_id] == list(range(1, len(seen[job_id]) + 1))
        states = [State(e.data["state"]) for e in batch.events if e.kind is EventKind.STATE]
        assert (states[0], states[-1]) == (State.QUEUED, job.state)
        for before, after in pairwise(states):
            assert after in TRANSITIONS[before] or after is before
        ends = [event for event in batch.events if event.kind is EventKind.END]
        assert len(ends) == (job.state in FINAL)
        assert ends == [event for event in batch.events[-1:] if ends]
        assert job.state is not State.RUNNING
        attempts = [e.data["attempt"] for e in batch.events if e.kind is EventKind.STATE]
        assert attempts == sorted(attempts)
        assert attempts[-1] == job.attempt
