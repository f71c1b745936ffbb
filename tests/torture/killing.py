"""Random SIGKILLs over the processes of a stack under a stream of jobs."""

from __future__ import annotations

import random
import time
from collections import Counter

from tests.torture.stacks import Stack
from tests.torture.stream import Stream

WAIT_S = 90.0


def torture(
    stack: Stack, stream: Stream, kills: int, seed: int, within_s: float, outstanding: int = 6
) -> str:
    """Kill, start again, and look at everything `within_s` of that; raises AssertionError.

    `outstanding`: jobs that wait or run before a kill. Returns the figures.
    """
    chance = random.Random(seed)
    killed: Counter[str] = Counter()
    stream.learn_digests()
    began, slowest, again_at_once = time.monotonic(), 0.0, False
    for _ in range(kills):
        while len(stream.outstanding()) < outstanding:
            stream.offer()
        # Sometimes twice in a row; never three times, for that is allowed to end a job.
        again_at_once = not again_at_once and chance.random() < 0.25
        if not again_at_once:
            _wait_for_checkpoints(stream)
            time.sleep(chance.uniform(0.0, 1.5))
        roles = stack.victims()
        role = chance.choice(sorted(roles))
        stack.kill(chance.choice(roles[role]))
        killed[role] += 1
        started = time.monotonic()
        stack.start_the_dead()
        while not (stack.ready() and stream.check()):
            assert time.monotonic() - started < within_s, f"not consistent after {role} died"
            time.sleep(0.05)
        slowest = max(slowest, time.monotonic() - started)
        print(sum(killed.values()), role, f"{time.monotonic() - started:.1f} s", flush=True)
    stream.drain()
    stream.check_all_versions()
    return (
        f"{kills} kills {dict(killed)}; {len(stream.accepted)} jobs accepted and done in "
        f"{stream.attempts} attempts; {len(stream.refused)} calls refused; all consistent "
        f"{slowest:.1f} s after a kill at most; {time.monotonic() - began:.0f} s"
    )


def _wait_for_checkpoints(stream: Stream) -> None:
    """Until work is done again, and every running job has a checkpoint of its present attempt:
    three attempts without end a job."""
    before, done = stream.checkpoints(), len(stream.done)
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        stream.check()
        now = stream.checkpoints()
        moved = any(number > before.get(job_id, 0) for job_id, number in now.items())
        if (moved or len(stream.done) > done) and now and all(now.values()):
            return
        time.sleep(0.1)
