"""Reads the states of the model from the real tables, files and attempts."""

from __future__ import annotations

import math
from typing import Any

from service.jobs.core.attempts import Command
from tests.service.protocol import states
from tests.service.protocol.rules import dropping, leaving
from tests.service.protocol.simulation import TICK_S, Service, SimulatedReplica, SimulatedWorker
from tests.service.protocol.states import FINAL, MAX_FAILED, Key, Phase, Replica, State, Worker

STATES = {state.name.lower(): state for state in State}
JOBS = (
    "SELECT j.id, j.state, j.attempt, j.lease_expires_at, j.checkpoint_key, j.revision, j.worker,"
    " j.attempts_without_progress AS failed, j.cancel_requested, j.keep_model, j.pause_requested,"
    " (SELECT value FROM job_tags t WHERE t.id = j.id AND key = 'number') AS number,"
    " (SELECT count(*) FROM job_events e WHERE e.job_id = j.id) AS events,"
    " (SELECT max(number) FROM job_events e WHERE e.job_id = j.id) AS last,"
    " (SELECT count(*) FROM job_events e WHERE e.job_id = j.id AND e.kind = 'end') AS ends,"
    " (SELECT count(*) FROM model_versions v WHERE v.job_id = j.id) AS versions"
    " FROM jobs j ORDER BY j.number, j.id"
)
KEYS = "SELECT key, holder, status, lease_expires_at FROM idempotency_keys"
WRITES = {
    ("checkpoint", "before"): Phase.SAVING,
    ("checkpoint", "after"): Phase.SAVED,
    ("release", "before"): Phase.LEAVING,
    ("release", "after"): Phase.LEFT,
    ("finish", "before"): Phase.ENDING,
    ("finish", "after"): Phase.ENDED,
}


class View:
    """Everything at one moment."""

    def __init__(
        self,
        service: Service,
        n_jobs: int,
        workers: list[SimulatedWorker],
        replicas: list[SimulatedReplica],
        acknowledged: set[int],
        before: View | None,
    ) -> None:
        self._service = service
        self._attempts = {row.id: row.attempt for row in before.rows.values()} if before else {}
        self._now = service.clock.database
        rows = service.rows(JOBS)
        self._keys = {row.key: row for row in service.rows(KEYS)}
        self.rows: dict[str, Any] = {row.id: row for row in rows}
        self._numbers = {row.id: int(row.number) for row in rows}
        self._files = service.blobs.existing()
        self.workers = [self._worker(worker) for worker in workers]
        self.in_progress = {key for worker in workers if (key := self._file(worker))}
        self.jobs = [self._job(number, number in acknowledged) for number in range(n_jobs)]
        self.replicas = [self._replica(replica) for replica in replicas]

    def _job(self, number: int, acknowledged: bool) -> states.Job:
        rows = [row for row in self.rows.values() if int(row.number) == number]
        key = self._keys.get(f"key-{number}")
        held, key_left = Key.FREE, 0
        if key is not None:
            held = Key.RESERVED if key.status is None else Key.REPLIED
            key_left = self._ticks(key.lease_expires_at) if held is Key.RESERVED else 0
        job = states.Job(key=held, key_left=key_left, acknowledged=int(acknowledged))
        if not rows:
            return job
        row = rows[0]
        folder = {key for key in self._files if key.startswith(f"checkpoints/{row.id}/")}
        return job._replace(
            state=STATES[row.state],
            left=self._ticks(row.lease_expires_at) if row.state == "running" else 0,
            checkpoint=self._service.blobs.contents.get(row.checkpoint_key, 0),
            stored=int(row.checkpoint_key in self._files),
            orphans=int(bool(folder - {row.checkpoint_key} - self.in_progress)),
            failed=min(MAX_FAILED, row.failed),
            cancel=int(row.cancel_requested),
            keep=int(row.keep_model),
            pause=int(row.pause_requested),
            versions=row.versions,
            ends=row.ends,
            gaps=int(not row.events == row.last == row.revision),
            created=len(rows),
        )

    def _ticks(self, expires_at: float | None) -> int:
        """Until this time has passed."""
        if expires_at is None:
            return 0
        return max(0, math.ceil((expires_at - self._now) / TICK_S))

    def _phase(self, worker: SimulatedWorker) -> Phase:
        process = worker.process
        if process.ended or process.turn in ("", "idle"):
            return Phase.IDLE
        if (process.doing, process.turn) == ("take", "after"):
            leased = self._leased(worker)
            return Phase.IDLE if leased is None else Phase.TAKEN
        if worker.attempt is None:
            return Phase.IDLE  # also with jobs reclaimed that have ended: several at once
        if process.turn == "wait":  # before it tries again
            return WRITES.get((process.last_done, "before"), Phase.WORKING)
        return WRITES.get((process.doing, process.turn), Phase.WORKING)

    def _leased(self, worker: SimulatedWorker) -> tuple[str, int, Worker] | None:
        """What it has leased before it knows: job, attempt, and what the lease says."""
        if worker.taken is None:
            for row in self.rows.values():
                # It may have leased another before, and never have known.
                if row.worker == worker.name and row.attempt != self._attempts.get(row.id):
                    view = Worker(
                        Phase.TAKEN,
                        self._numbers[row.id],
                        progress=self._service.blobs.contents.get(row.checkpoint_key, 0),
                        end=int(row.cancel_requested),
                        told=int(row.cancel_requested),
                    )
                    worker.taken = row.id, row.attempt, view
        return worker.taken

    def _file(self, worker: SimulatedWorker) -> str | None:
        """Of a write in progress: the new file, then the one before."""
        process = worker.process
        phase = self._phase(worker)
        if phase is Phase.SAVING:
            return self._service.blobs.writing.get(process)
        return worker.previous if phase is Phase.SAVED else None

    def _worker(self, worker: SimulatedWorker) -> Worker:
        phase = self._phase(worker)
        if phase is not Phase.TAKEN:
            worker.taken = None
        if phase is Phase.IDLE:
            return Worker()
        if worker.taken is not None:
            job_id, attempt, view = worker.taken
            current = int(self.rows[job_id].attempt == attempt)
            return view._replace(current=current, stopping=int(worker.stopping.is_set()))
        assert worker.attempt is not None
        work, job = worker.attempt, worker.attempt.job
        row = self.rows[job.id]
        view = Worker(
            phase=phase,
            job=self._numbers[job.id],
            current=int(row.attempt == job.attempt),
            progress=worker.progress,
            moved=int(work._moved),
            file=int(self._file(worker) in self._files),
            end=int(work._flags.end),
            pause=int(work._flags.pause),
            stopping=int(worker.stopping.is_set()),
            told=int(worker.told),
        )
        if phase in (Phase.LEAVING, Phase.LEFT):
            return leaving(view)._replace(phase=phase)
        if phase in (Phase.ENDING, Phase.ENDED):
            assert worker.process.outcome is not None
            outcome, has_model = worker.process.outcome
            ending = 2 * STATES[outcome.state] + has_model
            return leaving(view)._replace(phase=phase, outcome=ending)
        return dropping(view) if work.command is Command.DROP else view

    def _replica(self, replica: SimulatedReplica) -> Replica:
        process = replica.process
        if process is None or process.ended:
            return Replica()
        number, key = replica.number, self._keys.get(f"key-{replica.number}")
        if replica.is_steering:
            ended = process.turn == "after" and self.jobs[number].state in FINAL
            return Replica(Phase.CANCELING, number) if ended else Replica()
        if replica.reservation is None:  # or the reply to its commit is on its way
            return Replica(Phase.RESERVING, number, 0) if process.turn == "after" else Replica()
        mine = key is not None and key.holder == replica.reservation.holder
        if key is not None and mine and key.status is not None:
            return Replica(Phase.CREATED, number)
        return Replica(Phase.RESERVING, number, int(mine))
