"""Events of a job: each once and in order, and the requests that they wake."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from service.common.event_stream import HEARTBEAT, RECONNECT, Health
from service.jobs.collection.routes import follow
from service.jobs.core import events as watcher_module
from service.jobs.core.events import Event, EventKind, EventLog, Watcher
from service.jobs.core.job import State
from service.jobs.core.leases import Leases, Outcome
from service.jobs.core.store import JobStore
from service.storage.database import CHANGES, Database, listen
from service.storage.database.tables import jobs as jobs_table
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.rows import MEMORY, queue, report, take, trace_row

pytestmark = ON_ALL_BACKENDS

SUCCEEDED = Outcome(
    state=State.SUCCEEDED, stop_reason="converged", converged=True, warnings=("look out",)
)
FAILED = Outcome(state=State.FAILED, stop_reason="error", error={"code": "diverged"})


@pytest.fixture
def log(database: Database) -> EventLog:
    return EventLog(database)


def events_of(log: EventLog, job_id: str, after: int = 0) -> list[Event]:
    return list(log.read(job_id, after, 10_000).events)


def kinds_of(log: EventLog, job_id: str, after: int = 0) -> list[str]:
    """The events in short; of a state its name."""
    return [
        str(event.data["state"]) if event.kind is EventKind.STATE else str(event.kind)
        for event in events_of(log, job_id, after)
    ]


def test_whole_life_is_told_in_order(
    jobs: JobStore, leases: Leases, log: EventLog, dataset_id: str
) -> None:
    """Every state, every request, every checkpoint; the last number is the job's revision."""
    job_id = queue(jobs, dataset_id).id
    lease = take(leases)
    leases.heartbeat(lease, 30, MEMORY)
    leases.report(lease, report(1))
    leases.checkpoint(lease, 1, b"state", report(2))
    jobs.pause(job_id)
    jobs.pause(job_id)
    leases.release(lease, report(2))
    jobs.resume(job_id)
    jobs.resume(job_id)
    lease = take(leases)
    leases.report(lease, report(3))
    leases.finish(lease, SUCCEEDED, report(4), lambda _: 7)
    assert kinds_of(log, job_id) == [
        *("queued", "running", "progress", "checkpoint", "running", "paused", "queued"),
        *("running", "progress", "warning", "succeeded", "end"),
    ]
    events = events_of(log, job_id)
    numbers = [event.number for event in events]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == jobs.get(job_id).revision
    times = [event.created_at for event in events]
    assert times == sorted(times)
    assert events[2].data == {"epoch": 1, "elapsed_s": 1.0}
    assert [event.data["pause_requested"] for event in events[4:6]] == [True, False]
    assert events[-3].data == {"message": "look out"}
    assert events[-1].data["model"] == {"name": "iris", "version": 7}
    assert events[-1].data["progress"] == {"epoch": 4}


def test_lost_worker_is_told(
    database: Database, jobs: JobStore, leases: Leases, log: EventLog, dataset_id: str
) -> None:
    """A warning, then where the job is now; the third loss ends it."""
    job_id = queue(jobs, dataset_id).id
    for _ in range(3):
        lease = take(leases)
        with database.write() as connection:
            connection.execute(sa.update(jobs_table).values(lease_expires_at=0.0))
        leases.reclaim()
    lost = ["running", "warning", "queued"]
    assert kinds_of(log, job_id) == ["queued", *lost, *lost, "running", "warning", "failed", "end"]
    assert events_of(log, job_id)[-1].data["error"]["code"] == "worker-lost"
    assert lease.job.attempt == 3


@pytest.mark.parametrize("paused", [False, True])
def test_canceled_while_waiting_the_job_ends(
    jobs: JobStore, log: EventLog, dataset_id: str, paused: bool
) -> None:
    """A second request gives no event."""
    job_id = queue(jobs, dataset_id).id
    if paused:
        jobs.pause(job_id)
    before = len(events_of(log, job_id))
    for _ in range(2):
        jobs.cancel(job_id, keep_model=False)
    assert kinds_of(log, job_id)[before:] == ["canceled", "end"]


def test_change_that_is_rolled_back_is_not_told(
    jobs: JobStore, leases: Leases, log: EventLog, dataset_id: str
) -> None:
    """Job, model and events are one transaction."""
    queue(jobs, dataset_id)
    lease = take(leases)

    def fail(_: sa.Connection) -> int:
        raise RuntimeError("the disk burns")

    with pytest.raises(RuntimeError):
        leases.finish(lease, SUCCEEDED, report(), fail)
    assert kinds_of(log, lease.job.id) == ["queued", "running"]
    leases.finish(lease, FAILED, report())
    assert kinds_of(log, lease.job.id)[2:] == ["failed", "end"]


def test_read_goes_on_after_a_number(
    jobs: JobStore, leases: Leases, log: EventLog, dataset_id: str
) -> None:
    """In batches, and it says when nothing more will come."""
    job_id = queue(jobs, dataset_id).id
    leases.finish(take(leases), FAILED, report())
    numbers, after, complete = [], 0, False
    while not complete:
        batch = log.read(job_id, after, 2)
        numbers += [event.number for event in batch.events]
        after, complete = numbers[-1], batch.complete
        assert batch.revision == numbers[-1] or not complete
    assert numbers == [event.number for event in events_of(log, job_id)]
    assert log.read(job_id, 10**6, 2).events == ()
    assert not log.read(queue(jobs, dataset_id).id, 0, 2).complete


def test_history_of_jobs_long_ended_is_forgotten(
    database: Database, jobs: JobStore, leases: Leases, log: EventLog, dataset_id: str
) -> None:
    """Events and trace go, the job stays; what has not ended keeps all."""
    old, young, waiting = (queue(jobs, dataset_id).id for _ in range(3))
    for _ in range(2):
        leases.finish(take(leases), FAILED, report(trace=[trace_row()]))
    with database.write() as connection:
        for job_id in (old, waiting):
            row = sa.update(jobs_table).where(jobs_table.c.id == job_id)
            connection.execute(row.values(created_at=0.0))
        ended = sa.update(jobs_table).where(jobs_table.c.id == old)
        connection.execute(ended.values(finished_at=jobs_table.c.finished_at - 101))
    log.prune(100)
    assert kinds_of(log, old) == []
    assert jobs.trace(old) == []
    assert log.read(old, 0, 10).complete
    assert jobs.get(old).state is State.FAILED
    assert len(events_of(log, young)) == 4
    assert len(jobs.trace(young)) == 1
    assert len(events_of(log, waiting)) == 1


def test_deleted_job_leaves_no_events(
    database: Database, jobs: JobStore, log: EventLog, dataset_id: str
) -> None:
    """They go with the row."""
    job_id = queue(jobs, dataset_id).id
    jobs.cancel(job_id, keep_model=False)
    jobs.delete(job_id)
    with database.read() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM job_events")).scalar() == 0


@asynccontextmanager
async def running_tail(log: EventLog, health: Health | None = None) -> AsyncIterator[Watcher]:
    tail = Watcher(log, health or Health())
    task = asyncio.create_task(tail.run())
    try:
        yield tail
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_one_query_serves_all_who_wait(
    database: Database, jobs: JobStore, log: EventLog, dataset_id: str
) -> None:
    """Two hundred waiters for two jobs cost what one costs; without waiters there is no query."""
    ids = [queue(jobs, dataset_id).id for _ in range(2)]
    queries: list[str] = []
    sa.event.listen(
        database._reading,
        "before_cursor_execute",
        lambda *arguments: queries.append(arguments[2]),
    )

    async def wait() -> list[bool]:
        async with running_tail(log) as tail:
            await asyncio.sleep(0.3)
            assert queries == []
            waits = [tail.until(ids[k % 2], lambda job: job.is_final, 2.0) for k in range(200)]
            waiting = asyncio.gather(*waits)
            while not queries:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            assert 0 < sum(query.startswith("SELECT") for query in queries) <= 6
            assert not waiting.done()
            await asyncio.to_thread(jobs.cancel, ids[0], keep_model=False)
            return await waiting

    assert asyncio.run(wait()) == [True, False] * 100


def test_streams_of_one_job_share_their_queries(
    database: Database, jobs: JobStore, log: EventLog, dataset_id: str
) -> None:
    """Each of two hundred gets all events of one query, as bytes that are made once; between groups
    of them other requests are served."""
    job_id = queue(jobs, dataset_id).id
    first = log.read(job_id, 0, 500)
    queries: list[str] = []
    sa.event.listen(
        database._reading,
        "before_cursor_execute",
        lambda *arguments: queries.append(arguments[2]),
    )

    async def listen() -> list[list[bytes]]:
        async with running_tail(log) as tail:

            async def chunks() -> list[bytes]:
                return [chunk async for chunk in follow(tail, job_id, 0, first)]

            streams = asyncio.gather(*(chunks() for _ in range(200)))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(jobs.cancel, job_id, keep_model=False)
            return await streams

    streams = asyncio.run(listen())
    assert {tuple(numbers_in(b"".join(chunks))) for chunks in streams} == {(1, 2, 3)}
    assert len({id(chunks[-1]) for chunks in streams}) == 1
    assert sum("FROM job_events" in query for query in queries) == 1


def test_waiting_ends_with_the_job_or_with_the_process(
    jobs: JobStore, log: EventLog, dataset_id: str
) -> None:
    """A job that is gone will never meet a condition; a process that drains does not wait."""
    job_id = queue(jobs, dataset_id).id

    async def wait(then: Callable[[], Any], health: Health) -> bool:
        async with running_tail(log, health) as tail:
            waiting = asyncio.create_task(tail.until(job_id, lambda job: False, 30.0))
            await asyncio.sleep(0.25)
            then()
            return await asyncio.wait_for(waiting, 2.0)

    draining = Health()
    assert asyncio.run(wait(lambda: setattr(draining, "draining", True), draining))
    jobs.cancel(job_id, keep_model=False)
    assert asyncio.run(wait(lambda: jobs.delete(job_id), Health()))


def test_change_wakes_those_that_wait_for_it(
    database: Database,
    jobs: JobStore,
    log: EventLog,
    dataset_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At its commit; also if it came between a look at the job and the wait."""
    monkeypatch.setattr(watcher_module, "POLL_S", 60.0)
    ended = threading.Event()

    async def wait() -> list[bool]:
        async with running_tail(log) as tail:
            database.on_jobs_changed = tail.wake
            listen(database.url, CHANGES, tail.wake, ended)
            first, second = (queue(jobs, dataset_id).id for _ in range(2))
            waiting = asyncio.create_task(tail.until(first, lambda job: job.is_final, 20.0))
            await asyncio.sleep(0.5)
            await asyncio.to_thread(jobs.cancel, first, keep_model=False)
            woken = [await waiting]
            jobs.cancel(second, keep_model=False)
            await asyncio.sleep(0.5)
            return [*woken, await tail.until(second, lambda job: job.is_final, 20.0)]

    assert asyncio.run(wait()) == [True, True]
    ended.set()


def test_tail_outlives_a_database_that_is_away(
    jobs: JobStore, log: EventLog, dataset_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who wait are woken once it is back."""
    job_id = queue(jobs, dataset_id).id
    monkeypatch.setattr(watcher_module, "FAILED_S", 0.1)

    async def wait() -> bool:
        away = EventLog(Database("sqlite:////nowhere/service.db"))
        async with running_tail(away) as tail:
            waiting = asyncio.create_task(tail.until(job_id, lambda job: job.is_final, 30.0))
            await asyncio.sleep(0.4)
            assert not waiting.done()
            tail._log = log
            await asyncio.to_thread(jobs.cancel, job_id, keep_model=False)
            return await asyncio.wait_for(waiting, 3.0)

    assert asyncio.run(wait())


async def collect(log: EventLog, tail: Watcher, job_id: str, **options: Any) -> list[bytes]:
    batch = log.read(job_id, 0, 500)
    return [chunk async for chunk in follow(tail, job_id, 0, batch, **options)]


def test_quiet_stream_beats_and_ends_with_its_job(
    jobs: JobStore, log: EventLog, dataset_id: str
) -> None:
    """Comments keep the connection alive while nothing happens."""
    job_id = queue(jobs, dataset_id).id

    async def listen() -> list[bytes]:
        async with running_tail(log) as tail:
            threading.Timer(0.6, jobs.cancel, [job_id], {"keep_model": False}).start()
            return await collect(log, tail, job_id, heartbeat_s=0.1)

    first, queued, *beats, ended = asyncio.run(listen())
    assert first == RECONNECT
    assert queued.startswith(b"id: 1\nevent: state\ndata: {")
    assert len(beats) >= 2
    assert set(beats) == {HEARTBEAT}
    assert b"event: end" in ended


def test_stream_ends_when_the_process_drains(
    jobs: JobStore, log: EventLog, dataset_id: str
) -> None:
    """At once, between two events."""
    job_id = queue(jobs, dataset_id).id
    health = Health()

    async def listen() -> list[bytes]:
        async with running_tail(log, health) as tail:
            threading.Timer(0.3, setattr, [health, "draining", True]).start()
            return await collect(log, tail, job_id)

    started = time.monotonic()
    assert len(asyncio.run(listen())) == 2
    assert time.monotonic() - started < 3


def test_follower_that_keeps_losing_its_connection_misses_nothing(
    jobs: JobStore, leases: Leases, log: EventLog, dataset_id: str
) -> None:
    """While a worker writes: every event once, in order."""
    job_id = queue(jobs, dataset_id).id

    def work() -> None:
        for attempt in range(1, 9):
            lease = take(leases)
            for epoch in range(6):
                leases.report(lease, report(10 * attempt + epoch))
            leases.checkpoint(lease, 1, b"state", report())
            leases.release(lease, report())
        leases.finish(take(leases), SUCCEEDED, report())

    random.seed(1)
    found: list[int] = []

    async def listen() -> None:
        worker = threading.Thread(target=work)
        worker.start()
        async with running_tail(log) as tail:
            while not (batch := log.read(job_id, found[-1] if found else 0, 3)).complete:
                after = found[-1] if found else 0
                patience = random.randrange(1, 4)
                # A batch of three may be the last one of a job that has ended, and the stream
                # then waits until it looks again.
                async for chunk in follow(tail, job_id, after, batch, heartbeat_s=0.05):
                    found.extend(numbers_in(chunk))
                    patience -= 1
                    if patience == 0:
                        break
        found.extend(event.number for event in batch.events)
        worker.join()

    asyncio.run(listen())
    assert found == [event.number for event in events_of(log, job_id)]
    assert len(found) == 1 + 8 * (1 + 6 + 1 + 1) + 4


def numbers_in(chunk: bytes) -> list[int]:
    return [int(line[4:]) for line in chunk.decode().splitlines() if line.startswith("id: ")]
