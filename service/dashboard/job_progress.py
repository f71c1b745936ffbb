"""What the page of a job shows of its phases, and of what it waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from service.common import phases
from service.common.figures import counted, duration
from service.jobs.core.job import FINAL, Job, State
from service.jobs.core.phase_times import shown
from service.jobs.core.store import JobStore


@dataclass(frozen=True, slots=True)
class Step:
    """A phase, as the page lists it."""

    name: str
    place: Literal["done", "now", "next"]
    took: str = ""
    """How long it lasted, or has lasted."""
    spent_s: float = 0.0
    since: float | None = None
    """When it began, if it continues: it lasts since then, and at least `spent_s`."""

    @property
    def words(self) -> str:
        return phases.WORDS[self.name]

    @property
    def meaning(self) -> str | None:
        return phases.MEANINGS.get(self.name)


def steps_of(job: Job) -> list[Step]:
    """The phases that a job had, the present one, and, until it ends, those that are to come."""
    known = {each["name"]: each for each in shown(job)["phases"]}
    order = list(phases.WORDS)
    if job.state in FINAL:
        had = sorted(known, key=order.index)
        return [Step(name, "done", duration(known[name]["elapsed_s"])) for name in had]
    now = job.progress.get("phase", phases.READING if known else phases.QUEUED)
    first = {phases.QUEUED: {"elapsed_s": 0.0, "started_at": job.created_at}}
    coming = order[order.index(now) :]
    expected = {name for name in phases.expected(job.kind, job.spec) if name in coming}
    steps = []
    for name in sorted({*known, *expected, now}, key=order.index):
        one = (known or first).get(name)
        if one is None:
            steps.append(Step(name, "now" if name == now else "next"))
        elif name != now:
            steps.append(Step(name, "done", duration(one["elapsed_s"])))
        else:
            goes = job.state is (State.QUEUED if name == phases.QUEUED else State.RUNNING)
            since, spent_s = one["started_at"] if goes else None, one["elapsed_s"]
            lasts = spent_s if since is None else max(spent_s, time.time() - since)
            steps.append(Step(name, "now", phases.whole(lasts) if lasts else "", spent_s, since))
    return steps


def forecast_of(job: Job, jobs: JobStore, *, has_workers: bool) -> str:
    """What is known about the time to its end, or what it waits for."""
    match job.state:
        case State.RUNNING:
            return phases.left(job.progress.get("eta_s"))
        case State.PAUSED:
            return "it waits until you resume it"
        case State.QUEUED:
            before, running = jobs.ahead(job)
            if before:
                return f"{counted(before, 'job')} {'is' if before == 1 else 'are'} before it"
            if running:
                return f"the next one, when a worker is free: {counted(running, 'job')} running"
            return "a worker takes it now" if has_workers else "no worker is running"
    return ""


def fraction_of(job: Job) -> float | None:
    """How much is done; None if a worker has it, and that is not known."""
    if job.state is State.SUCCEEDED:
        return 1.0
    done: float = job.progress.get("fraction", 0.0)
    return None if job.state is State.RUNNING and not done else done
