"""Two replicas and two workers with PostgreSQL and S3: many jobs, each done once."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import servers
from tests.torture.specs import SPECS
from tests.torture.stacks import cluster
from tests.torture.stream import Stream

JOBS = 200
CALLERS = 4


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("workers", [1, 2])
def test_many_jobs_over_two_replicas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Each is done once; prints the throughput of one worker and of two."""
    with servers.postgres() as database_url, servers.seaweedfs() as s3:
        for name, value in s3.environment().items():
            monkeypatch.setenv(name, value)
        with cluster(tmp_path, database_url, f"{s3.url}/many", workers) as stack:
            stream = Stream(stack.urls)
            stream.measure_digests()
            began = time.monotonic()
            names = itertools.islice(itertools.cycle(SPECS), JOBS)
            with ThreadPoolExecutor(CALLERS) as callers:
                jobs = list(callers.map(stream.offer, names))
            assert None not in jobs
            assert len(set(jobs)) == JOBS
            accepted_s = time.monotonic() - began
            stream.drain()
            done_s = time.monotonic() - began
            assert stream.attempts == JOBS
            stream.check_all_versions()
    print(
        f"{workers} workers: {JOBS} jobs accepted in {accepted_s:.1f} s, done in {done_s:.1f} s, "
        f"{JOBS / done_s:.2f} a second"
    )
