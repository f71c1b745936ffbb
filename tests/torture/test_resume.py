"""A job whose worker is killed has the bits of an undisturbed one: every solver, twenty times at
random."""

from __future__ import annotations

import random
import time
from pathlib import Path

import psutil
import pytest

from tests.seeds import seed_from
from tests.torture.specs import SPECS
from tests.torture.stacks import one_machine
from tests.torture.stream import Stream

MOMENTS = 20
TIMEOUT_S = 60.0


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_every_solver_killed_at_random_moments(tmp_path: Path) -> None:
    """All workers are killed while the job runs; a job that ended before is repeated."""
    seed = seed_from("TORTURE_SEED")
    chance = random.Random(seed)
    with one_machine(tmp_path) as stack:
        stream = Stream(stack.urls, seed=seed)
        stream.measure_digests()
        killed = dict.fromkeys(SPECS, 0)
        while min(killed.values()) < MOMENTS:
            for name in SPECS:
                if killed[name] == MOMENTS:
                    continue
                job_id = stream.offer(name)
                assert job_id is not None
                _wait_until_it_runs(stream, job_id)
                time.sleep(chance.uniform(0.0, stream.durations[name]))
                for worker in stack.victims().get("worker", []):
                    try:
                        worker.kill()
                    except psutil.NoSuchProcess:
                        continue
                killed[name] += stream.finished(job_id)["attempt"] > 1
        stream.drain()
        stream.check_all_versions()
    print(f"{len(stream.accepted)} jobs, killed while they ran: {killed}")


def _wait_until_it_runs(stream: Stream, job_id: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while stream.job(job_id)["state"] == "queued" and time.monotonic() < deadline:
        time.sleep(0.02)
