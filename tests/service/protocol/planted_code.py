"""Wrong versions of the protocol, planted in the real code: each replaces one function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from service.jobs.core import attempts, events, job, leases, store
from service.jobs.core.attempts import Work
from service.jobs.core.events import change
from service.jobs.core.job import Effect, Job, State
from service.jobs.core.leases import ControlFlags, Lease, Leases
from service.jobs.core.store import JobStore, checkpoint_folder
from service.storage import ownership as sweeping
from service.storage.blobs import Blob
from service.storage.database.idempotency import Reservation, Reservations
from service.storage.database.tables import idempotency_keys, jobs
from tests.service.protocol import schedules

Patch = pytest.MonkeyPatch


def _owned_if(patch: Patch, *conditions: Any) -> None:
    """Another fence in the statements of leases."""
    patch.setattr(Leases, "_owned", sa.and_(jobs.c.id == sa.bindparam("leased_job"), *conditions))


def no_attempt_in_the_fence(patch: Patch) -> None:
    attempt = sa.bindparam("leased_attempt", type_=sa.Integer())
    _owned_if(patch, jobs.c.attempt + attempt >= 0, jobs.c.state == State.RUNNING)


def no_state_in_the_fence(patch: Patch) -> None:
    patch.setattr(events, "sources", lambda target: frozenset(State))
    _owned_if(patch, jobs.c.attempt == sa.bindparam("leased_attempt"))


def attempt_not_counted(patch: Patch) -> None:
    def carry_out(connection: Any, update: Any, values: Any, *builders: Any) -> Job | None:
        if "worker" in values:
            update = update.values(attempt=sa.func.max(1, jobs.c.attempt))
        return events.carry_out(connection, update, values, *builders)

    patch.setattr(leases, "carry_out", carry_out)


def lease_not_renewed(patch: Patch) -> None:
    patch.setattr(Leases, "heartbeat", lambda self, lease, *_: self.control_flags(lease))


def live_leases_reclaimed(patch: Patch) -> None:
    patch.setattr(leases, "_expired", lambda: jobs.c.state == State.RUNNING)


def leases_forever(patch: Patch) -> None:
    patch.setattr(leases, "_expired", lambda: jobs.c.state == "never")


def checkpoint_named_before_it_is_written(patch: Patch) -> None:
    def checkpoint(self: Leases, lease: Lease, number: int, content: bytes, report: Any) -> None:
        key = lease.file(number)
        blob = Blob(key, hashlib.sha256(content).hexdigest(), len(content))
        previous = self._name(lease, report, "checkpoint", blob, {self._losses: 0})
        self._blobs.write(key, content)
        if previous is not None:
            self._blobs.delete(previous)

    patch.setattr(Leases, "checkpoint", checkpoint)


def old_checkpoint_deleted_first(patch: Patch) -> None:
    def checkpoint(self: Leases, lease: Lease, number: int, content: bytes, report: Any) -> None:
        key = lease.file(number)
        self._blobs.delete(checkpoint_folder(lease.job.id))
        blob = self._blobs.write(key, content)
        self._name(lease, report, "checkpoint", blob, {self._losses: 0})

    patch.setattr(Leases, "checkpoint", checkpoint)


def file_deleted_at_a_lost_reply(patch: Patch) -> None:
    real = Leases.checkpoint

    def checkpoint(self: Leases, lease: Lease, number: int, content: bytes, report: Any) -> None:
        try:
            real(self, lease, number, content, report)
        except attempts.PASSING:
            self._blobs.delete(lease.file(number))
            raise

    patch.setattr(Leases, "checkpoint", checkpoint)


def refused_checkpoint_kept(patch: Patch) -> None:
    def checkpoint(self: Leases, lease: Lease, number: int, content: bytes, report: Any) -> None:
        blob = self._blobs.write(lease.file(number), content)
        named = {"checkpoint_key": blob.key, "checkpoint_sha256": blob.sha256, self._losses: 0}
        with self._database.write() as connection:
            previous = self._first(connection, self._lock, lease).checkpoint_key
            self._write(connection, lease, report, named, events.checkpoint)
        if previous is not None:
            self._blobs.delete(previous)

    patch.setattr(Leases, "checkpoint", checkpoint)


def checkpoint_does_not_forgive(patch: Patch) -> None:
    real: Callable[..., Any] = Leases._name
    patch.setattr(Leases, "_name", lambda *given: real(*given[:-1], {}))


def checkpoints_deleted_at_release(patch: Patch) -> None:
    real = Leases.release

    def release(self: Leases, lease: Lease, report: Any) -> None:
        self._blobs.delete(checkpoint_folder(lease.job.id))
        real(self, lease, report)

    patch.setattr(Leases, "release", release)


def pause_forgotten_at_release(patch: Patch) -> None:
    def release(self: Leases, lease: Lease, report: Any) -> None:
        with self._database.write() as connection:
            self._write(connection, lease, report, {}, events.state, target=State.QUEUED)

    patch.setattr(Leases, "release", release)


def version_before_the_end(patch: Patch) -> None:
    real = Leases.finish

    def finish(self: Leases, lease: Lease, outcome: Any, report: Any, register: Any = None) -> None:
        if register is not None:
            with self._database.write() as connection:
                register(connection)
        real(self, lease, outcome, report)

    patch.setattr(Leases, "finish", finish)


def event_outside_the_transaction(patch: Patch) -> None:
    real = events.record

    def skip(connection: Any, changed: Sequence[Job], *builders: Any) -> None:
        if events.progress not in builders:
            real(connection, changed, *builders)

    patch.setattr(events, "record", skip)


def revision_not_counted(patch: Patch) -> None:
    def changed(connection: Any, update: Any, *builders: Any) -> Job | None:
        return change(connection, update, *builders[:1])

    patch.setattr(leases, "change", changed)


def end_without_its_event(patch: Patch) -> None:
    def changed(connection: Any, update: Any, *builders: Any) -> Job | None:
        kept = [build for build in builders if build is not events.end]
        return change(connection, update, *kept)

    patch.setattr(store, "change", changed)


def failed_at_the_second_loss(patch: Patch) -> None:
    patch.setattr(leases, "MAX_ATTEMPTS_WITHOUT_PROGRESS", 2)


def losses_never_fail(patch: Patch) -> None:
    patch.setattr(leases, "MAX_ATTEMPTS_WITHOUT_PROGRESS", 1000)


def _lost_as(patch: Patch, **seen: Any) -> None:
    """Lost jobs are resolved as if they were so."""
    real = leases.resolve_lost
    patch.setattr(leases, "resolve_lost", lambda c, job: real(c, replace(job, **seen)))


def lost_job_forgets_its_pause(patch: Patch) -> None:
    _lost_as(patch, pause_requested=False)


def lost_job_forgets_its_cancel(patch: Patch) -> None:
    _lost_as(patch, cancel_requested=False)


def cancel_forgotten_by_the_next_attempt(patch: Patch) -> None:
    real = Work.__init__

    def begin(self: Work, *given: Any, **also: Any) -> None:
        real(self, *given, **also)
        self._flags = ControlFlags(end=False, pause=False)

    patch.setattr(Work, "__init__", begin)


def pause_ignored_by_the_work(patch: Patch) -> None:
    for name in ("heartbeat", "control_flags"):
        patch.setattr(Leases, name, _without_pause(getattr(Leases, name)))


def _without_pause(real: Callable[..., ControlFlags]) -> Callable[..., ControlFlags]:
    return lambda *given: replace(real(*given), pause=False)


def failed_checkpoint_counts(patch: Patch) -> None:
    real = Work._write

    def write(self: Work, write: Callable[[], None], *failure: str) -> bool:
        return real(self, write, *failure) or "checkpoint failed" in failure

    patch.setattr(Work, "_write", write)


def checkpoint_without_progress(patch: Patch) -> None:
    real = Work.save

    def save(self: Work, content: bytes) -> None:
        self._moved = True
        real(self, content)

    patch.setattr(Work, "save", save)
    patch.setattr(
        Work,
        "checkpoint_is_due",
        property(lambda attempt: attempt.progress and attempt._clock() % 1 < 0.5),
    )


def cancel_of_an_ended_job(patch: Patch) -> None:
    patch.setattr(store, "cancellation", lambda state, **_: Effect.AT_ONCE)
    patch.setattr(events, "sources", lambda target: frozenset(State))


def cancel_only_requested(patch: Patch) -> None:
    real = job.cancellation

    def cancellation(state: State, **values: Any) -> Effect:
        return Effect.REQUESTED if state is State.RUNNING else real(state, **values)

    patch.setattr(store, "cancellation", cancellation)


def pause_of_a_canceled_job(patch: Patch) -> None:
    real = job.pausing
    patch.setattr(store, "pausing", lambda state, **_: real(state, cancel_requested=False))


def resume_of_an_ended_job(patch: Patch) -> None:
    patch.setattr(store, "resumption", lambda state, **_: Effect.AT_ONCE)

    def changed(connection: Any, job: Job, update: Any, *builders: Any) -> Job:
        if job.is_final:
            update = sa.update(jobs).values(state=State.QUEUED)
        after = change(connection, update.where(jobs.c.id == job.id), *builders)
        assert after is not None
        return after

    patch.setattr(store, "_changed", changed)


def job_created_before_its_reply(patch: Patch) -> None:
    real = JobStore.create

    def create(self: JobStore, new: Any, caller: str, also: Any = None) -> Job:
        job = real(self, new, caller)
        with self._database.write() as connection:
            also(connection, job)
        return job

    patch.setattr(JobStore, "create", create)


def key_not_unique(patch: Patch) -> None:
    def reserve(self: Reservations, caller: str, key: str, fingerprint: str) -> Reservation:
        with self._database.write() as connection:
            return self._take(connection, caller, key, fingerprint)

    patch.setattr(Reservations, "reserve", reserve)


def creation_without_the_reservation(patch: Patch) -> None:
    def held(self: Reservation) -> Any:
        keys = idempotency_keys.c
        return sa.and_(keys.caller == self.caller, keys.key == self.key)

    patch.setattr(Reservation, "held", property(held))


def events_read_twice(patch: Patch) -> None:
    real = events.EventLog.read
    patch.setattr(
        events.EventLog, "read", lambda self, id, after, limit: real(self, id, after - 1, limit)
    )


def events_end_early(patch: Patch) -> None:
    real = events.EventLog.read

    def read(self: events.EventLog, job_id: str, after: int, limit: int) -> events.Batch:
        return replace(real(self, job_id, after, limit), complete=True)

    patch.setattr(events.EventLog, "read", read)


def sweep_of_young_files(patch: Patch) -> None:
    real = sweeping.sweep
    patch.setattr(schedules, "sweep", lambda d, b, _, again_s: real(d, b, -1.0, again_s))


PLANTED: dict[str, Callable[[Patch], None]] = {
    name: plant
    for name, plant in list(globals().items())
    if callable(plant)
    and getattr(plant, "__annotations__", {}) == {"patch": "Patch", "return": "None"}
}
