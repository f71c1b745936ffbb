"""Changes of a job: its row, its revision and its events, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from service.common.schemas import rfc3339
from service.errors import NotFound
from service.jobs.callbacks import deliveries
from service.jobs.core.events import EventBuilder, end, record
from service.jobs.core.job import Job
from service.jobs.core.lifecycle import FINAL, State, sources
from service.storage.database import now
from service.storage.database.tables import job_parts, jobs


def locked(connection: sa.Connection, job_id: str) -> Job:
    """The job, locked until the transaction ends. Raises NotFound."""
    # SQLite has one writer at a time anyway, and no FOR UPDATE.
    row = connection.execute(sa.select(jobs).where(jobs.c.id == job_id).with_for_update()).first()
    if row is None:
        raise NotFound("not-found", f"there is no job {job_id}")
    return Job.from_row(row)


def move(target: State) -> sa.Update:
    """An update to the state `target`, of jobs in a state that it may follow."""
    values: dict[str, Any] = {"state": target}
    if target is not State.RUNNING:
        values |= {"worker": None, "lease_expires_at": None, "pause_requested": False}
    if target in FINAL:
        values |= {"checkpoint_key": None, "checkpoint_sha256": None, "finished_at": now()}
    return sa.update(jobs).where(jobs.c.state.in_(sources(target))).values(values)


def change(connection: sa.Connection, update: sa.Update, *builders: EventBuilder) -> Job | None:
    """Update one job and record its events; None if no job matched."""
    return carry_out(connection, revised(update), {}, *builders)


def revised(update: sa.Update) -> sa.Executable:
    """The update for `carry_out`. Statements that are built once are compiled once."""
    return update.values(revision=jobs.c.revision + _EVENTS).returning(*jobs.c)


def carry_out(
    connection: sa.Connection,
    update: sa.Executable,
    values: Mapping[str, Any],
    *builders: EventBuilder,
) -> Job | None:
    """As `change`, with an update from `revised`; `values` of columns and parameters."""
    row = connection.execute(update, {"n_events": len(builders), **values}).one_or_none()
    if row is None:
        return None
    job = Job.from_row(row)
    record(connection, [job], *builders)
    if job.is_final:
        connection.execute(_DELETE_PARTS, {"ended": job.id})
        if job.callback is not None:
            deliveries.write(connection, job.id, job.callback, _report(job))
    return job


def _report(job: Job) -> dict[str, Any]:
    """What a callback gets: the event `end`, and what job it is about."""
    about = {"id": job.id, "kind": job.kind, "url": f"/v1/jobs/{job.id}", "tags": job.tags}
    data = {**about, **end(job)[1]}
    return {"type": f"job.{job.state}", "timestamp": rfc3339(job.finished_at), "data": data}


_DELETE_PARTS = sa.delete(job_parts).where(job_parts.c.job_id == sa.bindparam("ended"))
_EVENTS = sa.bindparam("n_events", type_=sa.Integer())
