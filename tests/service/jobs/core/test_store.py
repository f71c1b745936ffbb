"""The jobs table as callers of the API use it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from service.errors import Conflict, NotFound, Unavailable
from service.jobs.core.job import Effect, State
from service.jobs.core.leases import LeaseLost, Leases, Outcome
from service.jobs.core.store import JobFilter, JobStore
from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.database.pages import COMMON, PageRequest
from service.storage.database.tables import job_tags
from service.storage.database.tables import jobs as job_rows
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.rows import MEMORY, add_dataset, queue, report, take, trace_row

pytestmark = ON_ALL_BACKENDS

UNKNOWN = "job_" + "0" * 32


def test_created_job_is_queued_with_all_it_was_given(jobs: JobStore, dataset_id: str) -> None:
    """What create returns is what get reads back."""
    job = queue(jobs, dataset_id, spec={"seed": 7}, priority=3, tags={"team": "x"})
    assert job == jobs.get(job.id)
    assert (job.state, job.priority, job.tags, job.spec) == (
        State.QUEUED,
        3,
        {"team": "x"},
        {"seed": 7},
    )
    assert job.started_at is None
    assert job.attempt == 0


def test_job_for_a_deleted_dataset_is_refused(jobs: JobStore) -> None:
    """The dataset is looked for in the transaction that inserts the job."""
    with pytest.raises(NotFound):
        queue(jobs, "ds_" + "0" * 32)
    assert jobs.counts()[State.QUEUED] == 0


def test_full_queue_refuses_and_running_jobs_do_not_count(
    database: Database, blobs: Blobs, leases: Leases, dataset_id: str
) -> None:
    """The limit is on waiting jobs; the refusal says when to come again."""
    jobs = JobStore(database, blobs, queue_limit=2)
    queue(jobs, dataset_id)
    queue(jobs, dataset_id)
    with pytest.raises(Unavailable) as refusal:
        queue(jobs, dataset_id)
    assert refusal.value.code == "queue-full"
    assert refusal.value.retry_after_s
    take(leases)
    queue(jobs, dataset_id)


def test_no_caller_keeps_others_out_of_the_queue(
    database: Database, blobs: Blobs, dataset_id: str
) -> None:
    """Some places beyond the limit are for callers of whom no job waits; they are bounded, too."""
    jobs = JobStore(database, blobs, queue_limit=3)
    for _ in range(3):
        queue(jobs, dataset_id, caller="greedy")
    for caller in ("greedy", "modest", "modest", "third"):
        if caller == "modest" and jobs.counts()[State.QUEUED] == 3:
            queue(jobs, dataset_id, caller=caller)
            continue
        with pytest.raises(Unavailable):
            queue(jobs, dataset_id, caller=caller)


def test_a_caller_has_so_many_places_in_the_queue(
    database: Database, blobs: Blobs, dataset_id: str
) -> None:
    jobs = JobStore(database, blobs, queue_limit=9, queued_per_caller=1)
    queue(jobs, dataset_id, caller="one")
    with pytest.raises(Unavailable, match="of this caller"):
        queue(jobs, dataset_id, caller="one")
    queue(jobs, dataset_id, caller="two")


def test_list_is_newest_first_and_pages_do_not_overlap(jobs: JobStore, dataset_id: str) -> None:
    """A job created between two pages does not move what the second one shows."""
    ids = [queue(jobs, dataset_id).id for _ in range(5)]
    first = jobs.page(JobFilter(), PageRequest(size=2))
    queue(jobs, dataset_id)
    second = jobs.page(JobFilter(), PageRequest(size=3, after=first.next))
    assert [job.id for job in (*first.items, *second.items)] == ids[::-1]
    assert second.next is None


def test_filters_combine(
    database: Database, jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """State, model, dataset and tag each narrow the list."""
    other = add_dataset(database)
    running = queue(jobs, dataset_id, tags={"team": "x"}, priority=1)
    take(leases)
    queue(jobs, dataset_id, tags={"team": "y"})
    queue(jobs, other, model_name="digits", tags={"a.b/c": "x"})

    def found(which: JobFilter) -> list[str]:
        return [job.id for job in jobs.page(which, PageRequest()).items]

    assert found(JobFilter(state=State.RUNNING)) == [running.id]
    assert found(JobFilter(tag=("team", "x"), model_name="iris")) == [running.id]
    assert len(found(JobFilter(dataset_id=other, tag=("a.b/c", "x")))) == 1
    assert found(JobFilter(tag=("team", "x"), model_name="digits")) == []
    assert found(JobFilter(tag=('" or 1=1', "x"))) == []


def test_tag_of_very_many_jobs_combines_with_other_filters(
    database: Database, jobs: JobStore, dataset_id: str
) -> None:
    """Then they lead to the jobs, and the tag is looked up for each."""
    first = queue(jobs, dataset_id)
    names = ("iris", "digits", "digits")
    with database.write() as connection:
        row = connection.execute(sa.select(job_rows)).mappings().one()
        made = [
            {
                **row,
                "id": f"job_{k}",
                "number": first.number + k,
                "model_name": names[k % 3],
            }
            for k in range(1, COMMON + 10)
        ]
        connection.execute(sa.insert(job_rows), made)
        tags = [
            {"id": job["id"], "key": "team", "value": "x", "number": job["number"]} for job in made
        ]
        connection.execute(sa.insert(job_tags), tags)

    def found(which: JobFilter) -> list[str]:
        """The last two of all pages."""
        page = jobs.page(which, PageRequest(100))
        items = list(page.items)
        while page.next is not None:
            page = jobs.page(which, PageRequest(100, page.next))
            items += page.items
        return [job.id for job in items][-2:]

    tag = ("team", "x")
    assert found(JobFilter(tag=tag)) == ["job_2", "job_1"]
    assert found(JobFilter(tag=tag, model_name="iris")) == ["job_6", "job_3"]
    assert found(JobFilter(tag=tag, model_name="iris", state=State.FAILED)) == []
    assert found(JobFilter(model_name="iris")) == ["job_3", first.id]


def test_canceling_a_queued_job_ends_it_at_once_and_again_is_no_error(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Nothing runs, so no worker is asked."""
    job = queue(jobs, dataset_id)
    canceled, what = jobs.cancel(job.id, keep_model=False)
    assert (canceled.state, canceled.stop_reason, what) == (
        State.CANCELED,
        "canceled",
        Effect.AT_ONCE,
    )
    assert canceled.finished_at is not None
    assert jobs.cancel(job.id, keep_model=True) == (canceled, Effect.ALREADY)
    assert leases.take("test", 30) is None


def test_canceling_a_running_job_asks_its_worker(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Where the model is to be kept, the worker makes it; a second thought ends the job at once."""
    queue(jobs, dataset_id)
    lease = take(leases)
    job, what = jobs.cancel(lease.job.id, keep_model=True)
    assert (job.state, job.cancel_requested, what) == (
        State.RUNNING,
        True,
        Effect.REQUESTED,
    )
    assert leases.control_flags(lease).end
    job, what = jobs.cancel(lease.job.id, keep_model=False)
    assert (job.state, what) == (State.CANCELED, Effect.AT_ONCE)
    with pytest.raises(LeaseLost):
        leases.control_flags(lease)


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
def test_job_that_ended_otherwise_cannot_be_canceled(
    jobs: JobStore, leases: Leases, dataset_id: str, state: State
) -> None:
    """Conflict, and the job stays as it is."""
    queue(jobs, dataset_id)
    lease = take(leases)
    leases.finish(lease, Outcome(state=state, stop_reason="converged"), report())
    with pytest.raises(Conflict) as refusal:
        jobs.cancel(lease.job.id, keep_model=False)
    assert refusal.value.code == "invalid-state"
    assert jobs.get(lease.job.id).state is state


def test_canceled_job_with_a_checkpoint_to_keep_waits_for_a_worker(
    jobs: JobStore, leases: Leases, dataset_id: str, blobs: Blobs
) -> None:
    """Only a worker can make a model of a checkpoint."""
    queue(jobs, dataset_id)
    lease = take(leases)
    leases.checkpoint(lease, 1, b"state", report())
    leases.release(lease, report())
    job, what = jobs.cancel(lease.job.id, keep_model=True)
    assert (job.state, what) == (State.QUEUED, Effect.REQUESTED)
    job, what = jobs.cancel(lease.job.id, keep_model=False)
    assert (job.state, what) == (State.CANCELED, Effect.AT_ONCE)
    assert list(blobs.keys()) == []


def test_only_ended_jobs_are_deleted_and_their_trace_with_them(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """A waiting or running job must be canceled first."""
    job = queue(jobs, dataset_id)
    with pytest.raises(Conflict):
        jobs.delete(job.id)
    lease = take(leases)
    with pytest.raises(Conflict):
        jobs.delete(job.id)
    leases.finish(
        lease, Outcome(state=State.FAILED, stop_reason="error"), report(trace=[trace_row()])
    )
    assert len(jobs.trace(job.id)) == 1
    jobs.delete(job.id)
    for missing in (jobs.get, jobs.trace, jobs.delete):
        with pytest.raises(NotFound):
            missing(job.id)


def test_unknown_job_is_not_found(jobs: JobStore) -> None:
    """Reading, steering and deleting say so alike."""
    for missing in (jobs.get, jobs.pause, jobs.resume, jobs.delete):
        with pytest.raises(NotFound):
            missing(UNKNOWN)
    with pytest.raises(NotFound):
        jobs.cancel(UNKNOWN, keep_model=False)


def test_counts_name_every_state(jobs: JobStore, leases: Leases, dataset_id: str) -> None:
    """States without jobs are counted as 0."""
    queue(jobs, dataset_id)
    queue(jobs, dataset_id)
    take(leases)
    assert jobs.counts() == dict.fromkeys(State, 0) | {State.QUEUED: 1, State.RUNNING: 1}


def test_every_visible_change_moves_the_revision(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """The revision is the ETag: a heartbeat shows nothing and leaves it alone."""
    revisions = [queue(jobs, dataset_id).revision]
    lease = take(leases)
    job_id = lease.job.id
    revisions.append(jobs.get(job_id).revision)
    leases.heartbeat(lease, 30, MEMORY)
    assert jobs.get(job_id).revision == revisions[-1]
    leases.report(lease, report())
    revisions.append(jobs.get(job_id).revision)
    leases.checkpoint(lease, 1, b"state", report())
    revisions.append(jobs.get(job_id).revision)
    jobs.cancel(job_id, keep_model=True)
    revisions.append(jobs.get(job_id).revision)
    leases.finish(lease, Outcome(state=State.CANCELED, stop_reason="canceled"), report())
    revisions.append(jobs.get(job_id).revision)
    assert revisions == sorted(set(revisions))


def test_paused_job_is_not_taken_until_it_is_resumed(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Waiting, it pauses at once, and keeps its place in the queue."""
    first = queue(jobs, dataset_id)
    second = queue(jobs, dataset_id)
    paused, effect = jobs.pause(first.id)
    assert (paused.state, effect) == (State.PAUSED, Effect.AT_ONCE)
    assert jobs.pause(first.id) == (paused, Effect.ALREADY)
    assert not paused.is_final
    assert take(leases).job.id == second.id
    assert leases.take("test", 30) is None
    resumed, effect = jobs.resume(first.id)
    assert (resumed.state, effect) == (State.QUEUED, Effect.AT_ONCE)
    assert jobs.resume(first.id) == (resumed, Effect.ALREADY)
    assert take(leases).job.id == first.id


def test_pausing_a_running_job_asks_its_worker(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """The heartbeat reads the request; once released, the job is paused with its checkpoint."""
    job_id = queue(jobs, dataset_id).id
    lease = take(leases)
    asked, effect = jobs.pause(job_id)
    assert (asked.state, asked.pause_requested, effect) == (State.RUNNING, True, Effect.REQUESTED)
    assert jobs.pause(job_id) == (asked, Effect.REQUESTED)
    assert leases.control_flags(lease).pause
    leases.checkpoint(lease, 1, b"state", report())
    leases.release(lease, report())
    paused = jobs.get(job_id)
    assert (paused.state, paused.pause_requested, paused.worker) == (State.PAUSED, False, None)
    assert paused.checkpoint_key is not None
    jobs.resume(job_id)
    assert take(leases).job.checkpoint_key == paused.checkpoint_key


def test_pause_can_be_withdrawn_before_the_worker_obeys(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """If it has begun to save, the job is queued again instead of paused."""
    job_id = queue(jobs, dataset_id).id
    lease = take(leases)
    jobs.pause(job_id)
    job, effect = jobs.resume(job_id)
    assert (job.state, job.pause_requested, effect) == (State.RUNNING, False, Effect.AT_ONCE)
    assert not leases.control_flags(lease).pause
    leases.release(lease, report())
    assert jobs.get(job_id).state is State.QUEUED


def test_job_that_ends_before_its_worker_hears_of_the_pause_has_ended(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """From then on it can be neither paused nor resumed."""
    job_id = queue(jobs, dataset_id).id
    lease = take(leases)
    jobs.pause(job_id)
    leases.finish(lease, Outcome(state=State.SUCCEEDED, stop_reason="converged"), report())
    ended = jobs.get(job_id)
    assert (ended.state, ended.pause_requested) == (State.SUCCEEDED, False)
    for steer in (jobs.pause, jobs.resume):
        with pytest.raises(Conflict) as refusal:
            steer(job_id)
        assert refusal.value.code == "invalid-state"
    assert jobs.get(job_id) == ended


def test_canceling_overrules_a_pause(jobs: JobStore, leases: Leases, dataset_id: str) -> None:
    """The other way round it does not: what is being canceled ends."""
    job_id = queue(jobs, dataset_id).id
    lease = take(leases)
    jobs.pause(job_id)
    jobs.cancel(job_id, keep_model=True)
    orders = leases.control_flags(lease)
    assert (orders.end, orders.pause) == (True, False)
    with pytest.raises(Conflict):
        jobs.pause(job_id)


def test_canceled_while_paused_a_job_is_queued_only_for_a_model_to_keep(
    jobs: JobStore, leases: Leases, dataset_id: str, blobs: Blobs
) -> None:
    """Else it ends at once, and nothing of it stays."""
    for keep_model, state in ((True, State.QUEUED), (False, State.CANCELED)):
        job_id = queue(jobs, dataset_id).id
        lease = take(leases)
        leases.checkpoint(lease, 1, b"state", report())
        jobs.pause(job_id)
        leases.release(lease, report())
        job, _ = jobs.cancel(job_id, keep_model=keep_model)
        assert (job.state, job.cancel_requested) == (state, True)
        if job.state is State.QUEUED:
            lease = take(leases)
            assert (lease.job.id, lease.job.keep_model) == (job_id, True)
            canceled = Outcome(state=State.CANCELED, stop_reason="canceled")
            leases.finish(lease, canceled, report(), lambda _: 1)
    assert list(blobs.keys()) == []


def test_paused_jobs_count_as_waiting(database: Database, blobs: Blobs, dataset_id: str) -> None:
    """Otherwise resuming them could fill the queue beyond its limit."""
    jobs = JobStore(database, blobs, queue_limit=1)
    job_id = queue(jobs, dataset_id).id
    jobs.pause(job_id)
    with pytest.raises(Unavailable):
        queue(jobs, dataset_id)
    with pytest.raises(Conflict):
        jobs.delete(job_id)
    jobs.resume(job_id)
