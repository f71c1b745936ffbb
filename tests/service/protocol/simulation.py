"""The real stores and attempts in simulated processes: one runs at a time, up to its next turn.

A process gives up its turn before and after each commit, and while it trains. There it can be
killed, or its commit or the reply to it can fail. The clock stands still unless it is moved. Only
what a process waits for is replaced: stores, step function and tables are the real ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import greenlet
import sqlalchemy as sa

from service.errors import ServiceError, StorageFull, Unavailable
from service.jobs.core.attempts import PASSING, Attempt, Command
from service.jobs.core.job import Job, State
from service.jobs.core.leases import Lease, LeaseLost, Leases, Outcome, Report
from service.jobs.core.store import JobStore
from service.jobs.engine.worker_process import carry_out
from service.models.files import PreparedVersion
from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.arrays import Content
from service.storage.blobs import Blob, BlobDamaged
from service.storage.blobs.local import LocalBlobs
from service.storage.database import Database
from service.storage.database.idempotency import (
    Reservation,
    Reservations,
    StoredReply,
    keep_reply,
)
from service.storage.database.tables import ModelOrigin, StoredModel, metadata
from svm.errors import Diverged, Interrupted
from tests.service.jobs.rows import new_job
from tests.service.protocol.states import KEY_TICKS, LEASE_TICKS, Worker

TICK_S = 10.0
LEASE_S, KEY_S = ((ticks - 0.5) * TICK_S for ticks in (LEASE_TICKS, KEY_TICKS))
START = 1_800_000_000.0
EPOCHS = 4
CALLER = "caller"
SIMULATED_CLOCK = """
    CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
        'SELECT to_timestamp(current_setting(''simulated.now'')::double precision)';
    SET search_path = public, pg_catalog;
"""
"""For PostgreSQL: a function of the same name, which is found first."""


class Killed(BaseException):
    """The process was killed: it runs no further statement of its own."""


class Clock:
    """The database's clock, which can jump, and a steady one."""

    def __init__(self) -> None:
        self.database, self.steady = START, 0.0


class Process:
    """A simulated process. `go` runs it up to its next turn."""

    def __init__(self, main: Callable[[], None]) -> None:
        self._main = main
        self._greenlet = greenlet.greenlet(self._run)
        self.killed = False
        self.turn = ""
        """What it waits for."""
        self.doing = ""
        self.last_done = ""
        self.fault: Exception | None = None
        """Raised by its next commit, or by the reply to it."""
        self.error: BaseException | None = None
        self.outcome: tuple[Outcome, bool] | None = None
        """Of the job that it is ending, and whether with a model."""

    def go(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self._greenlet.switch()
        self.fault = None
        if self.error is not None:
            raise self.error

    def kill(self) -> None:
        if self._greenlet:  # it has started, and not ended
            self._greenlet.throw(Killed)
        self.killed = True

    @property
    def ended(self) -> bool:
        return self.killed or self._greenlet.dead

    def _run(self) -> None:
        try:
            self._main()
        except Killed:
            pass
        except BaseException as error:
            self.error = error


class Turns:
    """Who runs now; None while the schedule itself looks at something."""

    def __init__(self) -> None:
        self.process: Process | None = None

    def give(self, turn: str) -> None:
        """Wait until the process runs again."""
        process = self.process
        if process is not None:
            process.turn, self.process = turn, None
            try:
                process._greenlet.parent.switch()
            finally:
                self.process = process

    def run(self, process: Process, fault: Exception | None = None) -> None:
        self.process = process
        try:
            process.go(fault)
        finally:
            self.process = None

    def kill(self, process: Process) -> None:
        process.kill()
        self.process = None

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        process = self.process
        if process is None:
            yield
            return
        before, process.doing = process.doing, what
        try:
            yield
        finally:
            process.doing, process.last_done = before, what

    def fail(self) -> None:
        process = self.process
        if process is not None and process.fault is not None:
            fault, process.fault = process.fault, None
            raise fault


class SimulatedDatabase(Database):
    """With turns before and after commits, and the simulated clock."""

    def __init__(self, url: str, clock: Clock, turns: Turns) -> None:
        super().__init__(url)
        self._turns, self._clock = turns, clock
        for engine in (self._reading, self._writing):
            sa.event.listen(engine, "connect", self._configure)
            if not self._is_sqlite:
                sa.event.listen(engine, "begin", self._set_clock)

    @contextmanager
    def write(self, *, makes_room: bool = False, synced: bool = True) -> Iterator[sa.Connection]:
        self._turns.give("before")
        self._turns.fail()
        with super().write(makes_room=makes_room) as connection:
            yield connection
        self._turns.give("after")
        self._turns.fail()

    def _configure(self, connection: Any, _: object) -> None:
        if self._is_sqlite:
            # The names of SQLite's own functions can be given to others.
            julian = lambda _: self._clock.database / 86400 + 2440587.5  # noqa: E731
            connection.create_function("julianday", 1, julian)
            connection.execute("PRAGMA synchronous = OFF")  # no loss of power is simulated
        else:
            connection.execute(SIMULATED_CLOCK)
            connection.commit()

    def _set_clock(self, connection: sa.Connection) -> None:
        """No process gives up its turn within a transaction, so the clock stands still there."""
        now = str(self._clock.database)
        connection.exec_driver_sql("SELECT set_config('simulated.now', %s, false)", (now,))


class SimulatedBlobs(LocalBlobs):
    """Remembers the content of each file, and which one a process writes."""

    def __init__(self, directory: Path, turns: Turns) -> None:
        super().__init__(directory)
        self._turns = turns
        self.contents: dict[str, int] = {}
        """Progress in each checkpoint, also in those that are deleted."""
        self.writing: dict[Process, str] = {}

    def write(self, key: str, content: Content) -> Blob:
        process = self._turns.process
        assert process is not None
        assert isinstance(content, bytes)
        if isinstance(process.fault, StorageFull):
            self._turns.fail()
        self.contents[key] = content[0]
        self.writing[process] = key
        return super().write(key, content)

    def existing(self) -> set[str]:
        return {key for key in self.contents if self.path(key).exists()}


class SimulatedLeases(Leases):
    """Names what a process is doing."""

    def __init__(self, database: Database, blobs: LocalBlobs, turns: Turns) -> None:
        super().__init__(database, blobs)
        self._turns = turns

    def take(self, worker: str, lease_s: float) -> Lease | None:
        with self._turns.doing("take"):
            return super().take(worker, lease_s)

    def reclaim(self) -> None:
        with self._turns.doing("reclaim"):
            super().reclaim()

    def report(self, lease: Lease, report: Report) -> None:
        with self._turns.doing("report"):
            super().report(lease, report)

    def checkpoint(self, lease: Lease, number: int, content: Content, report: Report) -> None:
        with self._turns.doing("checkpoint"):
            super().checkpoint(lease, number, content, report)

    def release(self, lease: Lease, report: Report) -> None:
        with self._turns.doing("release"):
            super().release(lease, report)

    def finish(self, lease: Lease, outcome: Outcome, report: Report, register: Any = None) -> None:
        process = self._turns.process
        assert process is not None
        process.outcome = outcome, register is not None
        with self._turns.doing("finish"):
            super().finish(lease, outcome, report, register)


class Stopping(threading.Event):
    """A process that waits for its stop waits for its turn."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def wait(self, timeout: float | None = None) -> bool:
        self._turns.give("wait")
        return self.is_set()


class Service:
    """The stores that all processes share, and the clocks."""

    def __init__(self, url: str, folder: Path) -> None:
        self.clock, self.turns = Clock(), Turns()
        self.database = SimulatedDatabase(url, self.clock, self.turns)
        self.blobs = SimulatedBlobs(folder, self.turns)
        self.leases = SimulatedLeases(self.database, self.blobs, self.turns)
        self.jobs = JobStore(self.database, self.blobs, queue_limit=100)
        self.reservations = Reservations(self.database, KEY_S)
        self.registry = ModelRegistry(self.database, self.blobs)
        self.settings = Settings(data_dir=folder, lease_s=LEASE_S, checkpoint_s=1.0)
        self._raw = self.database._reading.raw_connection()

    def rows(self, query: str) -> list[Any]:
        """Without the cost of SQLAlchemy: it is called after each step."""
        cursor = self._raw.cursor()
        cursor.execute(query)
        names = [column[0] for column in cursor.description]
        rows = [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]
        cursor.close()
        self._raw.rollback()
        return rows

    def empty(self) -> None:
        """For the next schedule: that is sooner done than new tables."""
        with Database.write(self.database) as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
        self.clock.database, self.clock.steady = START, 0.0
        self.turns.process = None
        self.blobs.delete("checkpoints")
        self.blobs.contents.clear()
        self.blobs.writing.clear()
        self.leases = SimulatedLeases(self.database, self.blobs, self.turns)  # as it is planted

    def close(self) -> None:
        self._raw.close()
        self.database.close()


class SimulatedWorker:
    """A worker process, which trains by counting."""

    def __init__(self, service: Service, name: str, diverges: Callable[[], bool]) -> None:
        self._service, self.name, self._diverges = service, name, diverges
        self.stopping = Stopping(service.turns)
        self.process = Process(self._main)
        self.lease: Lease | None = None
        self.attempt: Attempt | None = None
        self.progress = 0
        self.told = False
        """The job was canceled when it was taken."""
        self.taken: tuple[str, int, Worker] | None = None
        """Job, attempt and what the lease says, from its commit to the reply."""
        self.previous: str | None = None
        """The checkpoint before the one that it writes."""

    def _main(self) -> None:
        service = self._service
        while not self.stopping.is_set():
            self.lease = self.attempt = None
            service.turns.give("idle")
            try:
                self.lease = service.leases.take(self.name, LEASE_S)
                if self.lease is None:
                    continue
                arguments = self.lease, service.leases, service.settings, self.stopping
                self.attempt = Attempt(*arguments, clock=lambda: service.clock.steady)
                self.told = self.lease.job.cancel_requested
                self.progress = self._saved(self.lease.job)
                carry_out(self._train, self.attempt, self.stopping)
            except (LeaseLost, *PASSING):
                pass

    def _saved(self, job: Job) -> int:
        if job.checkpoint_key is None or job.checkpoint_sha256 is None:
            return 0
        try:
            return self._service.blobs.read(job.checkpoint_key, job.checkpoint_sha256)[0]
        except BlobDamaged:
            return 0

    def _train(self, attempt: Attempt) -> None:
        """As the kinds of jobs do."""
        attempt.may_end = True
        turns = self._service.turns
        state, stop_reason = State.SUCCEEDED, "finished"
        try:
            while self.progress < EPOCHS:
                turns.give("work")
                attempt.check()
                if self._diverges():
                    raise Diverged("the cost grows", "use a smaller step")
                self.progress += 1
                attempt.show({"epoch": self.progress}, [])
                turns.give("work")
                if attempt.checkpoint_is_due:
                    attempt.save(bytes([self.progress]))
        except Interrupted:
            if attempt.command is Command.SAVE_AND_RELEASE:
                attempt.save(bytes([self.progress]))
            if attempt.command is not Command.KEEP_AND_END or not self.progress:
                raise
            state, stop_reason = State.CANCELED, "canceled"
        finally:
            attempt.may_end = False
        attempt.finish(Outcome(state=state, stop_reason=stop_reason), self._register)

    def _register(self, connection: sa.Connection) -> int:
        assert self.lease is not None
        job = self.lease.job
        model = StoredModel(
            digest="0" * 64,
            artifact_key=f"models/{job.id}/{job.attempt}",
            artifact_sha256="0" * 64,
            size_bytes=1,
            warm_start_key=None,
            warm_start_sha256=None,
            classes=[0, 1],
            columns=None,
            n_features=2,
            calibration=None,
        )
        origin = ModelOrigin(job_id=job.id, spec={}, result={})
        prepared = PreparedVersion(model, {})
        return self._service.registry.register(connection, "iris", prepared, origin)


class SimulatedReplica:
    """An API process, which carries out one request at a time."""

    def __init__(self, service: Service, dataset_id: str) -> None:
        self._service, self._dataset_id = service, dataset_id
        self.process: Process | None = None
        self.number = 0
        """The job of its request, by number."""
        self.reservation: Reservation | None = None
        self.is_steering = False
        self.replied: str | None = None
        """The id of the job that the caller was given."""

    def begin(self, number: int, request: Callable[[], None] | None = None) -> None:
        """Create the job `number`, or carry out a request about it."""
        self.number, self.reservation, self.replied = number, None, None
        self.is_steering = request is not None
        self.process = Process(self.create if request is None else request)

    def create(self) -> None:
        """As `web.bodies.idempotency.Creation` does it."""
        service, key = self._service, f"key-{self.number}"
        try:
            reservation = service.reservations.reserve(CALLER, key, "fingerprint")
        except ServiceError:
            return
        if isinstance(reservation, StoredReply):
            self.replied = reservation.body.decode()
            return
        self.reservation = reservation

        def keep(connection: sa.Connection, job: Job) -> None:
            keep_reply(connection, reservation, StoredReply(202, {}, job.id.encode()))

        try:
            job = self.queue(keep)
        except ServiceError:
            with suppress(Unavailable, StorageFull):
                service.reservations.release(reservation)
            return
        self.replied = job.id

    def queue(self, also: Callable[[sa.Connection, Job], None]) -> Job:
        new = new_job(self._dataset_id, tags={"number": str(self.number)})
        return self._service.jobs.create(new, CALLER, also=also)
