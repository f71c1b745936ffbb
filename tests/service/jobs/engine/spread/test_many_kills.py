"""Clusters of several sizes, and many lost processes: the bits of the model stay."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import spread as benchmark
from tests.seeds import seed_from
from tests.service.jobs.engine.spread.clusters import Cluster, cluster
from tests.service.jobs.engine.spread.test_dask_passes import Spread

pytestmark = [pytest.mark.torture, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("TORTURE_KILLS", "50"))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_bits_do_not_depend_on_the_workers(count: int, tmp_path: Path) -> None:
    with cluster(count) as made:
        spread = Spread(made, tmp_path)
        made.wait(spread.connection, count)
        assert spread.bits_with(lambda _: None) == spread.expected
        assert not spread.warnings
        spread.connection.close()


def test_bits_survive_many_losses(tmp_path: Path) -> None:
    """Workers are killed or stopped, the scheduler is killed, at any step."""
    random = np.random.default_rng(seed_from("TORTURE_SEED"))
    with cluster(3) as made:
        spread = Spread(made, tmp_path)
        made.wait(spread.connection, 3)
        losses, trainings = 0, 0

        def at_epoch(epoch: int) -> None:
            nonlocal losses
            if random.random() < 0.5:
                losses += 1
                _lose(made, random)

        while losses < KILLS:
            began = time.monotonic()
            assert spread.bits_with(at_epoch, silent_s=2.0) == spread.expected
            assert not spread.warnings
            trainings += 1
            print(f"{losses} losses, training {trainings}: {time.monotonic() - began:.1f} s")
            for worker in made.workers:
                worker.send_signal(signal.SIGCONT)
        spread.connection.close()


def test_benchmark_runs() -> None:
    benchmark.main(20_000, 54)


def _lose(made: Cluster, random: np.random.Generator) -> None:
    """A worker, which is replaced, for a while a worker, or the scheduler."""
    what = random.integers(10)
    for k in range(len(made.workers) - 1, -1, -1):
        if made.workers[k].poll() is not None:  # they end with their scheduler
            made.workers.pop(k)
    if what < 6 and made.workers:
        made.lose_worker()
    elif what < 8 and made.workers:
        made.workers[0].send_signal(signal.SIGSTOP)
    else:
        made.restart_scheduler()
    while len(made.workers) < 3:
        made.add_worker()
