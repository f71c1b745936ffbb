"""How long a job was in each of its phases."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from service.common.phases import COMPILING, QUEUED, READING
from service.jobs.core.job import Job, State


class PhaseTimes:
    """The times of all attempts together, by the job's `elapsed_s`, which is their sum. Safe to
    share between threads: loops are compiled in any of them, and that is a phase of its own."""

    def __init__(self, earlier: Iterable[Mapping[str, Any]], at_s: float) -> None:
        """`earlier` as the attempt before recorded them. This one begins with reading."""
        self._lock = threading.Lock()
        self._phases = {each["name"]: dict(each) for each in earlier}
        self._of_work, self.name = READING, ""
        """The phase without compiling; the phase now."""
        self._compiling = 0
        self._since_s = at_s
        self._enter(READING, at_s)

    def begin(self, name: str, at_s: float) -> bool:
        """The work is in this phase now. Whether it was in another one."""
        with self._lock:
            was, self._of_work = self._of_work, name
            if not self._compiling:
                self._enter(name, at_s)
            return was != name

    def compile(self, loops: int, at_s: float) -> None:
        """`loops` more are being compiled; negative: they are compiled."""
        with self._lock:
            self._compiling += loops
            self._enter(COMPILING if self._compiling else self._of_work, at_s)

    def _enter(self, name: str, at_s: float) -> None:
        self._spend(at_s)
        if name != self.name or name not in self._phases:
            new = {"name": name, "elapsed_s": 0.0}
            self._phases.setdefault(name, new)["started_at"] = time.time()
        self.name = name

    def _spend(self, at_s: float) -> None:
        if self.name in self._phases:
            self._phases[self.name]["elapsed_s"] += at_s - self._since_s
        self._since_s = at_s

    def recorded(self, at_s: float) -> dict[str, Any]:
        """The phase now, and all of them in the order that they first began."""
        with self._lock:
            self._spend(at_s)
            return {"phase": self.name, "phases": [dict(each) for each in self._phases.values()]}


def shown(job: Job) -> dict[str, Any]:
    """The progress of a job with the phase that it is in, and the time until its first attempt."""
    phases = list(job.progress.get("phases", ()))
    if job.started_at is not None:
        waited = {"elapsed_s": job.started_at - job.created_at, "started_at": job.created_at}
        phases.insert(0, {"name": QUEUED, **waited})
    phase = job.progress.get("phase", READING) if job.state is State.RUNNING else None
    phase = QUEUED if job.state is State.QUEUED else phase
    return {**job.progress, "phase": phase, "phases": phases}
