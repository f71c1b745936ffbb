"""A worker's side of the jobs table: one job, one worker, whatever happens."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from service.jobs.core.job import MAX_ATTEMPTS_WITHOUT_PROGRESS, State
from service.jobs.core.leases import Lease, LeaseLost, Leases, Memory, Outcome
from service.jobs.core.store import JobStore
from service.settings import Settings
from service.storage.blobs import Blobs, open_blobs
from service.storage.database import Database
from service.storage.database.tables import jobs as jobs_table
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.rows import MEMORY, queue, report, take, trace_row

pytestmark = ON_ALL_BACKENDS

SUCCEEDED = Outcome(state=State.SUCCEEDED, stop_reason="converged", converged=True, result={"a": 1})


def expire(database: Database, lease: Lease) -> None:
    """As if the lease's time had passed."""
    with database.write() as connection:
        connection.execute(
            sa.update(jobs_table)
            .where(jobs_table.c.id == lease.job.id)
            .values(lease_expires_at=jobs_table.c.created_at - 1)
        )


def lose(database: Database, leases: Leases) -> Lease:
    """Take the next job and lose it."""
    lease = take(leases)
    expire(database, lease)
    leases.reclaim()
    return lease


def test_jobs_are_taken_by_priority_then_age(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Among equals the oldest job is the first."""
    ids = [queue(jobs, dataset_id, priority=priority).id for priority in (0, 5, 0, 5, -1)]
    taken = [take(leases).job.id for _ in ids]
    assert taken == [ids[i] for i in (1, 3, 0, 2, 4)]
    assert leases.take("test", 30) is None


def test_leased_job_is_running_and_keeps_its_first_start(
    database: Database, jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """The second attempt has another number, and the same start."""
    queue(jobs, dataset_id)
    first = lose(database, leases)
    second = take(leases)
    assert (first.job.state, first.job.attempt) == (State.RUNNING, 1)
    assert (second.job.state, second.job.attempt) == (State.RUNNING, 2)
    assert first.job.started_at == second.job.started_at is not None


def test_many_threads_never_take_a_job_twice(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Twelve threads share forty jobs."""
    ids = {queue(jobs, dataset_id).id for _ in range(40)}
    with ThreadPoolExecutor(12) as pool:
        taken = list(pool.map(lambda _: leases.take("test", 30), range(50)))
    found = [lease.job.id for lease in taken if lease is not None]
    assert len(found) == len(ids)
    assert set(found) == ids


def take_all(settings: Settings) -> list[str]:
    database = Database(settings.database_url)
    leases = Leases(database, open_blobs(settings))
    taken = []
    while (lease := leases.take("test", 30)) is not None:
        taken.append(lease.job.id)
    database.close()
    return taken


def test_many_processes_never_take_a_job_twice(
    settings: Settings, jobs: JobStore, dataset_id: str
) -> None:
    """Three processes share thirty jobs."""
    ids = {queue(jobs, dataset_id).id for _ in range(30)}
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(take_all, settings) for _ in range(3)]
        found = [job_id for part in parts for job_id in part.result(timeout=60)]
    assert len(found) == len(ids)
    assert set(found) == ids


@pytest.mark.parametrize(
    "write",
    [
        lambda leases, lease: leases.heartbeat(lease, 30, MEMORY),
        lambda leases, lease: leases.control_flags(lease),
        lambda leases, lease: leases.report(lease, report(trace=[trace_row()])),
        lambda leases, lease: leases.checkpoint(lease, 2, b"stale", report()),
        lambda leases, lease: leases.release(lease, report()),
        lambda leases, lease: leases.finish(lease, SUCCEEDED, report(), lambda _: 1),
    ],
    ids=["heartbeat", "orders", "report", "checkpoint", "release", "finish"],
)
@pytest.mark.parametrize("taken_again", [True, False])
def test_stale_attempt_cannot_write(
    database: Database,
    jobs: JobStore,
    leases: Leases,
    blobs: Blobs,
    dataset_id: str,
    write: Callable[[Leases, Lease], None],
    taken_again: bool,
) -> None:
    """A worker that comes back from the dead changes nothing, queued again or taken again."""
    job_id = queue(jobs, dataset_id).id
    stale = lose(database, leases)
    if taken_again:
        leases.checkpoint(take(leases), 1, b"newer", report(2))
    before, files = jobs.get(job_id), sorted(blobs.keys())
    with pytest.raises(LeaseLost):
        write(leases, stale)
    assert jobs.get(job_id) == before
    assert jobs.trace(job_id) == []
    assert sorted(blobs.keys()) == files


def test_heartbeat_keeps_a_lease_that_would_have_run_out(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Times are the database's: a lease of 1 s lives on, and then runs out."""
    queue(jobs, dataset_id)
    lease = take(leases, lease_s=1.0)
    leases.heartbeat(lease, 60.0, MEMORY)
    time.sleep(1.1)
    assert leases.take("test", 30) is None
    leases.heartbeat(lease, 0.1, MEMORY)
    time.sleep(0.2)
    assert take(leases).job.attempt == 2


def test_worker_lost_three_times_without_a_checkpoint_fails_the_job(
    database: Database, jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Two lost workers are forgiven, the third ends the job."""
    job_id = queue(jobs, dataset_id).id
    for _ in range(MAX_ATTEMPTS_WITHOUT_PROGRESS - 1):
        lose(database, leases)
        assert jobs.get(job_id).state is State.QUEUED
    lose(database, leases)
    job = jobs.get(job_id)
    assert (job.state, job.stop_reason) == (State.FAILED, "error")
    assert job.error is not None
    assert job.error["code"] == "worker-lost"
    assert job.finished_at is not None


@pytest.mark.parametrize(
    ("used", "said"),
    [
        (None, "the last one was lost before its first heartbeat"),
        (0.5, "the last one was lost when it used 1.00 of 2.00 GiB"),
        (0.9, "the last one ran out of memory: it was lost when it used 1.80 of 2.00 GiB"),
    ],
)
def test_error_of_a_lost_worker_says_what_was_seen(
    database: Database,
    jobs: JobStore,
    leases: Leases,
    dataset_id: str,
    used: float | None,
    said: str,
) -> None:
    """The memory that the last one used, and that it was too much."""
    job_id = queue(jobs, dataset_id).id
    for _ in range(MAX_ATTEMPTS_WITHOUT_PROGRESS):
        lease = take(leases)
        if used is not None:
            leases.heartbeat(lease, 30, Memory(int(used * 2**31), 2**31))
        expire(database, lease)
        leases.reclaim()
    error = jobs.get(job_id).error
    assert error is not None
    assert error["code"] == "worker-lost"
    assert error["detail"].endswith(said)
    assert ("SVM_LIMITS__WORKER_MEMORY_BYTES" in error["hint"]) == (used == 0.9)


def test_new_checkpoint_forgives_the_lost_workers_before_it(
    database: Database, jobs: JobStore, leases: Leases, blobs: Blobs, dataset_id: str
) -> None:
    """A job that moves on may lose any number of workers; only the newest checkpoint is kept."""
    job_id = queue(jobs, dataset_id).id
    for attempt in range(1, 6):
        if attempt % 2:
            lose(database, leases)
            continue
        lease = take(leases)
        leases.checkpoint(lease, 1, f"state {attempt}".encode(), report(attempt))
        expire(database, lease)
        leases.reclaim()
    job = jobs.get(job_id)
    assert job.state is State.QUEUED
    assert list(blobs.keys()) == [job.checkpoint_key]
    assert job.checkpoint_key is not None
    assert job.checkpoint_sha256 is not None
    assert blobs.read(job.checkpoint_key, job.checkpoint_sha256) == b"state 4"


def test_given_back_job_counts_as_no_lost_worker(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Stopping the service any number of times does not fail a job."""
    job_id = queue(jobs, dataset_id).id
    for _ in range(MAX_ATTEMPTS_WITHOUT_PROGRESS + 1):
        leases.release(take(leases), report())
    job = jobs.get(job_id)
    assert (job.state, job.attempts_without_progress, job.worker) == (State.QUEUED, 0, None)


def test_lost_job_that_was_canceled_is_not_taken_again(
    database: Database, jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Its worker died before it could obey; there is nothing left to do."""
    queue(jobs, dataset_id)
    lease = take(leases)
    jobs.cancel(lease.job.id, keep_model=True)
    expire(database, lease)
    assert leases.take("test", 30) is None
    assert jobs.get(lease.job.id).state is State.CANCELED


@pytest.mark.parametrize("losses", [1, MAX_ATTEMPTS_WITHOUT_PROGRESS])
def test_lost_job_that_was_to_pause_is_paused(
    database: Database, jobs: JobStore, leases: Leases, dataset_id: str, losses: int
) -> None:
    """Its worker died before it could obey; the job does not run on, however often that was."""
    job_id = queue(jobs, dataset_id).id
    for _ in range(losses - 1):
        lose(database, leases)
    lease = take(leases)
    jobs.pause(job_id)
    expire(database, lease)
    assert leases.take("test", 30) is None
    job = jobs.get(job_id)
    assert (job.state, job.pause_requested, job.attempts_without_progress) == (
        State.PAUSED,
        False,
        losses,
    )
    jobs.resume(job_id)
    assert take(leases).job.attempt == losses + 1


def test_callers_share_the_workers(jobs: JobStore, leases: Leases, dataset_id: str) -> None:
    """Among jobs of one priority the caller with the fewest running ones is served first."""
    names = {
        queue(jobs, dataset_id, caller=caller, priority=priority).id: name
        for name, caller, priority in [
            *(("a1", "a", 0), ("a2", "a", 0), ("a3", "a", 0), ("b1", "b", 0), ("c1", "c", 0)),
            *(("b2", "b", 0), ("a4", "a", 7), ("c2", "c", -1)),
        ]
    }
    taken = [take(leases) for _ in range(3)]
    assert [names[lease.job.id] for lease in taken] == ["a4", "b1", "c1"]
    leases.finish(taken[0], SUCCEEDED, report())
    taken = [take(leases) for _ in range(5)]
    # Nothing of a runs now; then all have one, and the oldest job decides.
    assert [names[lease.job.id] for lease in taken] == ["a1", "a2", "b2", "a3", "c2"]


def test_no_caller_gets_more_while_another_waits(
    database: Database, jobs: JobStore, dataset_id: str, blobs: Blobs
) -> None:
    """Six workers at once, each with its own connections: the shares never differ by two jobs."""
    for caller in ("greedy", "b", "c"):
        for _ in range(8 if caller == "greedy" else 2):
            queue(jobs, dataset_id, caller=caller)
    workers = [Leases(Database(database.url), blobs) for _ in range(6)]
    with ThreadPoolExecutor(len(workers)) as pool:
        taken = list(pool.map(lambda worker: worker.take("test", 30), workers))
    callers = sorted(lease.job.caller for lease in taken if lease is not None)
    assert callers == ["b", "b", "c", "c", "greedy", "greedy"]
    for worker in workers:
        worker._database.close()


def test_end_and_registration_are_one_transaction(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """If the model cannot be registered, the job has not ended."""
    queue(jobs, dataset_id)
    lease = take(leases)
    leases.checkpoint(lease, 1, b"state", report())

    def fail(_: sa.Connection) -> int:
        raise RuntimeError("the disk burns")

    with pytest.raises(RuntimeError):
        leases.finish(lease, SUCCEEDED, report(9), fail)
    job = jobs.get(lease.job.id)
    assert (job.state, job.progress) == (State.RUNNING, {"epoch": 1})
    leases.finish(lease, SUCCEEDED, report(9), lambda _: 4)
    job = jobs.get(lease.job.id)
    assert (job.state, job.model_version, job.result) == (State.SUCCEEDED, 4, {"a": 1})


def test_ended_job_leaves_no_checkpoint(
    jobs: JobStore, leases: Leases, blobs: Blobs, dataset_id: str
) -> None:
    """Neither in its row nor among the files."""
    queue(jobs, dataset_id)
    lease = take(leases)
    leases.checkpoint(lease, 1, b"state", report())
    leases.finish(lease, SUCCEEDED, report())
    assert jobs.get(lease.job.id).checkpoint_key is None
    assert list(blobs.keys()) == []


def test_trace_rows_seen_again_are_replaced(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """A resumed attempt repeats some epochs; the last row counts."""
    queue(jobs, dataset_id)
    lease = take(leases)
    leases.report(lease, report(trace=[trace_row(1, 2), trace_row(0, 1), trace_row(0, 2)]))
    again = [trace_row(0, 2, primal=1.7), trace_row(0, 4), trace_row(0, 2, primal=1.5)]
    leases.report(lease, report(trace=again))
    rows = jobs.trace(lease.job.id)
    assert [(row["pair"], row["updates"]) for row in rows] == [(0, 1), (0, 2), (0, 4), (1, 2)]
    assert [row["primal"] for row in rows] == [2.0, 1.5, 2.0, 2.0]


def test_a_caller_has_so_many_jobs_running(
    database: Database, blobs: Blobs, jobs: JobStore, dataset_id: str
) -> None:
    """Workers stay idle rather than to take more; the next caller's job comes before them."""
    leases = Leases(database, blobs, running_per_caller=1)
    for _ in range(3):
        queue(jobs, dataset_id, caller="greedy")
    first = take(leases)
    assert leases.take("test", 30) is None
    other = queue(jobs, dataset_id, caller="modest")
    assert take(leases).job.id == other.id
    leases.finish(first, Outcome(state=State.CANCELED, stop_reason="canceled"), report())
    assert take(leases).job.caller == "greedy"


def test_busy_workers_of_a_machine_are_counted(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """A training uses the processors that they leave."""
    for _ in range(3):
        queue(jobs, dataset_id)
    first = leases.take("one:a:1", 30)
    assert first is not None
    assert leases.control_flags(first).busy == 1
    assert leases.take("one:a:2", 30) is not None
    assert leases.take("other:a:3", 30) is not None
    assert leases.control_flags(first).busy == 2
    assert leases.heartbeat(first, 30, MEMORY).busy == 2
