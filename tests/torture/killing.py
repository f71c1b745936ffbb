"""SIGKILLs all kinds of processes of a stack in turn, during a stream of jobs and uploads."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable

import psutil

from tests.torture.stacks import Stack
from tests.torture.stream import Stream
from tests.torture.uploads import Uploads

WAIT_S = 90.0
SAMPLE_S = 0.02


def torture(
    stack: Stack, stream: Stream, kills: int, seed: int, within_s: float, outstanding: int = 6
) -> str:
    """Kill a process, restart it, and check everything within `within_s`; raises AssertionError.

    `outstanding`: queued and running jobs before a kill. Returns the figures.
    """
    try:
        return _torture(stack, stream, kills, seed, within_s, outstanding)
    except AssertionError as error:
        error.add_note("\n".join(stack.unexpected()))
        raise


def _torture(
    stack: Stack, stream: Stream, kills: int, seed: int, within_s: float, outstanding: int
) -> str:
    chance = random.Random(seed)
    killed: Counter[str] = Counter()
    slowest: dict[str, float] = defaultdict(float)
    stream.measure_digests()
    uploads = Uploads(stack.urls, seed)
    uploads.start()
    began, again_at_once = time.monotonic(), False
    for kind in itertools.islice(itertools.cycle(stack.kinds), kills):
        _offer(stream, outstanding)
        # Sometimes twice in a row; never three times, which can end a job.
        again_at_once = not again_at_once and chance.random() < 0.25
        if not again_at_once:
            _wait_for_checkpoints(stream)
            time.sleep(chance.uniform(0.0, 1.5))
        role, victim = _busy(stack, kind, uploads, killed, lambda: _offer(stream, outstanding))
        done, before = uploads.done, _permanent(stack)
        stack.kill(victim)
        killed[role] += 1
        started = time.monotonic()
        stack.restart()
        ready_s = 0.0
        while not (
            ready_s and uploads.done > done and _permanent(stack) >= before and stream.check()
        ):
            ready_s = ready_s or (time.monotonic() - started if stack.ready() else 0.0)
            uploads.check()
            assert time.monotonic() - started < within_s, f"not recovered after {role} died"
            time.sleep(SAMPLE_S)
        recovered_s = time.monotonic() - started
        slowest[f"{role} ready"] = max(slowest[f"{role} ready"], ready_s)
        slowest[f"{role} recovered"] = max(slowest[f"{role} recovered"], recovered_s)
        print(
            killed.total(),
            role,
            f"ready {ready_s:.1f} s, recovered {recovered_s:.1f} s",
            flush=True,
        )
    uploads.stop()
    stream.drain()
    stream.check_all_versions()
    return (
        f"{kills} kills {dict(killed)}; {len(stream.accepted)} jobs accepted and done in "
        f"{stream.attempts} attempts; {uploads.done} uploads read back unchanged; "
        f"{len(stream.refused)} calls for jobs refused, uploads tried again after "
        f"{dict(uploads.retries)}; slowest after a kill, in seconds: "
        f"{ {name: round(s, 1) for name, s in slowest.items()} }; "
        f"{time.monotonic() - began:.0f} s"
    )


def _offer(stream: Stream, outstanding: int) -> None:
    """Submit jobs until as many wait or run."""
    stream.check()
    while len(stream.outstanding()) < outstanding:
        stream.offer()


def _busy(
    stack: Stack, kind: str, uploads: Uploads, killed: Counter[str], offer: Callable[[], None]
) -> tuple[str, psutil.Process]:
    """A busy process of a kind, and its role: the role killed least often. `offer` submits jobs in
    the place of those that have ended meanwhile."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        roles = stack.victims()
        for role in sorted(stack.kinds[kind], key=lambda role: killed[role]):
            for process in roles.get(role, ()):
                if kind == "worker" and not _computes(process):
                    continue
                if kind == "parser" and not (_computes(process) and uploads.sending):
                    continue
                return role, process
        uploads.check()
        offer()
        time.sleep(SAMPLE_S)
    raise AssertionError(f"no {kind} is busy")


def _permanent(stack: Stack) -> Counter[str]:
    """Number of processes of each role that run also without work."""
    roles = stack.victims()
    return Counter({r: len(roles[r]) for r in roles if r not in ("parser", "database")})


def _computes(process: psutil.Process) -> bool:
    """Whether it uses processor time now."""
    try:
        before = process.cpu_times()
        time.sleep(SAMPLE_S)
        after = process.cpu_times()
    except psutil.NoSuchProcess:
        return False
    return after.user + after.system > before.user + before.system


def _wait_for_checkpoints(stream: Stream) -> None:
    """Wait until there is progress, and every running job has a checkpoint of its current attempt:
    a job fails after three attempts without one."""
    before, done = stream.checkpoints(), len(stream.done)
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        stream.check()
        now = stream.checkpoints()
        moved = any(number > before.get(job_id, 0) for job_id, number in now.items())
        if (moved or len(stream.done) > done) and now and all(now.values()):
            return
        time.sleep(0.1)
