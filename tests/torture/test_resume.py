"""A job whose worker is killed ends with the bits of an undisturbed one: every solver, at twenty
random moments each."""

from __future__ import annotations

import random
import time
from pathlib import Path

import psutil
import pytest

from tests.torture.specs import SPECS
from tests.torture.stacks import one_machine
from tests.torture.stream import Stream

MOMENTS = 20


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_every_solver_killed_at_random_moments(tmp_path: Path, compiled: None) -> None:
    """All workers are killed at a moment between the acceptance of a job and its end."""
    seed = random.randrange(1000)
    chance = random.Random(seed)
    with one_machine(tmp_path) as stack:
        stream = Stream(stack.urls)
        stream.learn_digests()
        for _ in range(MOMENTS):
            for name in SPECS:
                job_id = stream.offer(name)
                assert job_id is not None
                time.sleep(chance.uniform(0.0, 1.2 * stream.durations[name]))
                for worker in stack.victims().get("worker", []):
                    try:
                        worker.kill()
                    except psutil.NoSuchProcess:
                        continue
                stream.finished(job_id)
        stream.drain()
        stream.check_all_versions()
    print(
        f"{len(stream.accepted)} jobs, {stream.attempts - len(stream.accepted)} of them killed "
        f"while they ran, all with the bits of undisturbed ones; seed {seed}"
    )
