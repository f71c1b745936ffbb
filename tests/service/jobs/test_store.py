"""The jobs table as callers of the API use it."""

from __future__ import annotations

import pytest

from service.errors import Conflict, NotFound, Unavailable
from service.jobs.leases import Ending, Leases
from service.jobs.lifecycle import FINAL, Cancellation, State
from service.jobs.store import JobFilter, JobStore
from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.pages import PageRequest
from tests.service.jobs.rows import add_dataset, queue, report, take, trace_row

UNKNOWN = "job_" + "0" * 32


def test_created_job_is_queued_with_all_it_was_given(jobs: JobStore, dataset_id: str) -> None:
    """What create returns is what get reads back."""
    job = queue(jobs, dataset_id, spec={"seed": 7}, priority=3, labels={"team": "x"})
    assert job == jobs.get(job.id)
    assert (job.state, job.priority, job.labels, job.spec) == (
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
    """State, model, dataset and label each narrow the list."""
    other = add_dataset(database)
    running = queue(jobs, dataset_id, labels={"team": "x"}, priority=1)
    take(leases)
    queue(jobs, dataset_id, labels={"team": "y"})
    queue(jobs, other, model_name="digits", labels={"a.b/c": "x"})

    def found(which: JobFilter) -> list[str]:
        return [job.id for job in jobs.page(which, PageRequest()).items]

    assert found(JobFilter(state=State.RUNNING)) == [running.id]
    assert found(JobFilter(label=("team", "x"), model_name="iris")) == [running.id]
    assert len(found(JobFilter(dataset_id=other, label=("a.b/c", "x")))) == 1
    assert found(JobFilter(label=("team", "x"), model_name="digits")) == []
    assert found(JobFilter(label=('" or 1=1', "x"))) == []


def test_canceling_a_queued_job_ends_it_at_once_and_again_is_no_error(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """Nothing runs, so there is nobody to ask."""
    job = queue(jobs, dataset_id)
    canceled, what = jobs.cancel(job.id, keep_model=False)
    assert (canceled.state, canceled.stop_reason, what) == (
        State.CANCELED,
        "canceled",
        Cancellation.AT_ONCE,
    )
    assert canceled.finished_at is not None
    assert jobs.cancel(job.id, keep_model=True) == (canceled, Cancellation.ALREADY)
    assert leases.take("test", 30) is None


def test_canceling_a_running_job_asks_its_worker(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """The next heartbeat brings the wish to the worker; a second thought counts."""
    queue(jobs, dataset_id)
    lease = take(leases)
    job, what = jobs.cancel(lease.job.id, keep_model=True)
    assert (job.state, job.cancel_requested, what) == (
        State.RUNNING,
        True,
        Cancellation.REQUESTED,
    )
    orders = leases.heartbeat(lease, 30)
    assert (orders.cancel, orders.keep_model) == (True, True)
    jobs.cancel(lease.job.id, keep_model=False)
    assert leases.heartbeat(lease, 30).keep_model is False


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
def test_job_that_ended_otherwise_cannot_be_canceled(
    jobs: JobStore, leases: Leases, dataset_id: str, state: State
) -> None:
    """Conflict, and the job stays as it is."""
    queue(jobs, dataset_id)
    lease = take(leases)
    leases.finish(lease, Ending(state=state, stop_reason="converged"), report())
    with pytest.raises(Conflict) as refusal:
        jobs.cancel(lease.job.id, keep_model=False)
    assert refusal.value.code == "invalid-state"
    assert jobs.get(lease.job.id).state is state


def test_canceled_job_with_a_checkpoint_to_keep_waits_for_a_worker(
    jobs: JobStore, leases: Leases, dataset_id: str, blobs: Blobs
) -> None:
    """What an earlier attempt learnt becomes a model only in a worker."""
    queue(jobs, dataset_id)
    lease = take(leases)
    leases.checkpoint(lease, 1, b"state", report())
    leases.release(lease, report())
    job, what = jobs.cancel(lease.job.id, keep_model=True)
    assert (job.state, what) == (State.QUEUED, Cancellation.REQUESTED)
    job, what = jobs.cancel(lease.job.id, keep_model=False)
    assert (job.state, what) == (State.CANCELED, Cancellation.AT_ONCE)
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
        lease, Ending(state=State.FAILED, stop_reason="error"), report(trace=[trace_row()])
    )
    assert len(jobs.trace(job.id)) == 1
    jobs.delete(job.id)
    for missing in (jobs.get, jobs.trace, jobs.delete):
        with pytest.raises(NotFound):
            missing(job.id)


def test_unknown_job_is_not_found(jobs: JobStore) -> None:
    """Reading, canceling and deleting say so alike."""
    with pytest.raises(NotFound):
        jobs.get(UNKNOWN)
    with pytest.raises(NotFound):
        jobs.cancel(UNKNOWN, keep_model=False)
    with pytest.raises(NotFound):
        jobs.delete(UNKNOWN)


def test_counts_name_every_state(jobs: JobStore, leases: Leases, dataset_id: str) -> None:
    """States without jobs are counted as 0."""
    queue(jobs, dataset_id)
    queue(jobs, dataset_id)
    take(leases)
    assert jobs.counts() == {State.QUEUED: 1, State.RUNNING: 1} | dict.fromkeys(FINAL, 0)


def test_every_visible_change_moves_the_revision(
    jobs: JobStore, leases: Leases, dataset_id: str
) -> None:
    """The revision is the ETag: a heartbeat shows nothing and leaves it alone."""
    revisions = [queue(jobs, dataset_id).revision]
    lease = take(leases)
    job_id = lease.job.id
    revisions.append(jobs.get(job_id).revision)
    leases.heartbeat(lease, 30)
    assert jobs.get(job_id).revision == revisions[-1]
    leases.report(lease, report())
    revisions.append(jobs.get(job_id).revision)
    leases.checkpoint(lease, 1, b"state", report())
    revisions.append(jobs.get(job_id).revision)
    jobs.cancel(job_id, keep_model=False)
    revisions.append(jobs.get(job_id).revision)
    leases.finish(lease, Ending(state=State.CANCELED, stop_reason="canceled"), report())
    revisions.append(jobs.get(job_id).revision)
    assert revisions == sorted(set(revisions))
