"""Processes that do jobs with parts, and parts of other processes' jobs, in simulated turns.

`Lending`, `Offers`, `PartLeases`, `PartWork` and `carry_out_part` are the real ones; only the work,
which counts units, and the clock are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np

from service.jobs.core.attempts import PASSING, Attempt, Command, Work
from service.jobs.core.job import State
from service.jobs.core.leases import Lease, LeaseLost, Outcome
from service.jobs.engine.worker_process import carry_out
from service.jobs.parts.leases import PartLease, PartLeases, PartWork, carry_out_part
from service.jobs.parts.lending import Lending, Offers, Part
from service.storage.arrays import Arrays, pack, unpack
from service.storage.blobs import BlobDamaged
from svm.errors import Interrupted
from tests.service.protocol.simulation import LEASE_S, Process, Service, Stopping

PARTS, UNITS = 3, 3


class SimulatedOffers(Offers):
    """With a turn before what a job reads, which can fail, too."""

    def __init__(self, service: Service) -> None:
        super().__init__(service.database, service.blobs)
        self._turns = service.turns

    def parts(self, lease: Lease) -> list[Part]:
        self._turns.give("read")
        self._turns.fail()
        return super().parts(lease)

    def content(self, part: Part) -> Arrays:
        self._turns.give("read")
        self._turns.fail()
        return super().content(part)


class Parts:
    """The stores of parts of a simulated service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.leases = PartLeases(service.database, service.blobs)
        self.offers = SimulatedOffers(service)

    @property
    def time(self) -> SimpleNamespace:
        """Instead of the module of that name."""
        service = self.service
        steady = lambda: service.clock.steady  # noqa: E731
        return SimpleNamespace(monotonic=steady, sleep=lambda _: service.turns.give("work"))


def packed(**values: Any) -> bytes:
    return pack({name: np.asarray(value) for name, value in values.items()})


class SimulatedPartWorker:
    """A worker process: it takes the next job, or else the next part of another's job."""

    def __init__(self, parts: Parts, name: str, fails: Callable[[], Exception | None]) -> None:
        self._parts, self._service, self.name, self._fails = parts, parts.service, name, fails
        self.stopping = Stopping(self._service.turns)
        self.process = Process(self._main)
        self.work: Work | None = None
        """The attempt, or the part."""

    @property
    def part(self) -> PartWork | None:
        return self.work if isinstance(self.work, PartWork) else None

    def _main(self) -> None:
        service = self._service
        settings, stopping = service.settings, self.stopping
        clock = lambda: service.clock.steady  # noqa: E731
        while not stopping.is_set():
            self.work = None
            service.turns.give("idle")
            with suppress(LeaseLost, *PASSING):
                lease = service.leases.take(self.name, LEASE_S)
                if lease is not None:
                    attempt = Attempt(lease, service.leases, settings, stopping, clock=clock)
                    self.work = attempt
                    carry_out(self._run, attempt, stopping)
                    continue
                leased = self._parts.leases.take(self.name, LEASE_S)
                if leased is not None:
                    part = self._part_work(leased)
                    self.work = part
                    carry_out_part(self._help, part)

    def _part_work(self, lease: PartLease) -> PartWork:
        service = self._service
        return PartWork(
            lease,
            self._parts.leases,
            service.settings,
            self.stopping,
            clock=lambda: service.clock.steady,
        )

    def _saved(self, work: Work) -> Arrays:
        job = work.job
        if job.checkpoint_key is None or job.checkpoint_sha256 is None:
            return {}
        return unpack(self._service.blobs.read(job.checkpoint_key, job.checkpoint_sha256))

    def _help(self, part: PartWork) -> None:
        """As the kinds of jobs do."""
        give = self._service.turns.give
        done = int(self._saved(part)["done"])
        try:
            while done < UNITS:
                give("work")
                part.check()
                if (error := self._fails()) is not None:
                    raise error
                done += 1
                part.show({"fraction": done / UNITS}, [])
                if part.checkpoint_is_due:
                    part.save(packed(done=done))
        except Interrupted:
            if part.command is Command.SAVE_AND_RELEASE:
                part.save(packed(done=done))
            raise
        part.deliver(packed(done=done))

    def _run(self, attempt: Attempt) -> None:
        run = _Run(self._parts, attempt)
        attempt.may_end = True
        try:
            run.all_parts(self._service.turns.give)
        except Interrupted:
            if attempt.command is Command.SAVE_AND_RELEASE:
                attempt.save(run.packed())
            if attempt.command is not Command.KEEP_AND_END:
                raise
            return attempt.finish(Outcome(state=State.CANCELED, stop_reason="canceled"))
        finally:
            attempt.may_end = False
        result = {"work": run.counts}
        attempt.finish(Outcome(state=State.SUCCEEDED, stop_reason="finished", result=result))


class _Run:
    """A job, as the kinds with parts do it."""

    def __init__(self, parts: Parts, attempt: Attempt) -> None:
        self._attempt = attempt
        self._lending = Lending(parts.offers, attempt)
        self.done = [0] * PARTS
        """Units of each part."""
        self.counts = [0] * PARTS
        """How often the whole of each part came into the job."""
        if attempt.job.checkpoint_key is not None and attempt.job.checkpoint_sha256 is not None:
            with suppress(BlobDamaged):
                blobs = parts.service.blobs
                saved = unpack(
                    blobs.read(attempt.job.checkpoint_key, attempt.job.checkpoint_sha256)
                )
                self.done = json.loads(str(saved["done_units"]))
                self.counts = json.loads(str(saved["counts"]))

    def packed(self) -> bytes:
        return packed(done_units=json.dumps(self.done), counts=json.dumps(self.counts))

    def all_parts(self, give: Callable[[str], None]) -> None:
        attempt = self._attempt
        while (number := self._next()) is not None:
            while self.done[number] < UNITS:
                give("work")
                attempt.check()
                self.done[number] += 1
                attempt.show({"done": self.done}, [])
                if self.done[number] == UNITS:
                    self.counts[number] += 1
                if attempt.checkpoint_is_due:
                    attempt.save(self.packed())
                self._lend(number)

    def _left(self) -> list[int]:
        return [number for number in range(PARTS) if self.done[number] < UNITS]

    def _next(self) -> int | None:
        """A part that is not done and not lent; None at the end."""
        lending = self._lending
        while self._left():
            self._attempt.check()
            for number, result in lending.results(self._left()):
                self.done[number] = int(result["done"])
                self.counts[number] += 1
            own = [number for number in self._left() if number not in lending]
            if own:
                return own[0]
            claimed = lending.claim(self._left())
            if claimed is not None:
                number, content = claimed
                self.done[number] = int(content.get("done", 0))
                if self.done[number] < UNITS:
                    return number
                self.counts[number] += 1
                continue
            if self._left():
                lending.wait()
        return None

    def _lend(self, current: int) -> None:
        lending = self._lending
        lending.look()
        if lending.is_due:
            new = [k for k in self._left() if k != current and k not in lending]
            if new:
                lending.offer({number: packed(done=self.done[number]) for number in new})
