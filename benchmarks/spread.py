"""One `newton` training whose passes two workers of Dask compute, beside one thread.

Both read the rows from a file, and then keep them in memory. Workers and the training are processes
of this machine. Stated are CPU seconds beside the times, as other work on the machine changes
these. `python -m benchmarks.spread 2000000 100`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from service.jobs.spread.connection import Connection
from service.jobs.spread.dask_passes import DaskPasses
from service.jobs.spread.remote_passes import nothing
from svm import Newton
from svm.data.matrices import Vector
from svm.model.pipeline import Pipeline
from svm.problem.passes import Pass
from svm.problem.problem import Problem
from svm.stopping import Stopping
from svm.training.preparation import Prepared
from svm.training.training import Execution, Training
from tests.service.jobs.engine.spread.clusters import FileRecipe, cluster

ROUNDS = 5
PASSES = 30
"""Passes that do nothing, of which the median is the overhead."""

MEMORY = {"SVM_LIMITS__WORKER_MEMORY_BYTES": str(8 << 30)}
"""Of a worker, so that its half of the rows stays in memory."""


def problem_of(n: int, d: int) -> tuple[Vector, Vector]:
    """Two classes that overlap."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, d))
    return X, np.sign(X[:, :10].sum(axis=1) + 2.0 * random.normal(size=n))


def measured(train: Callable[[], Training]) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds of this process, and steps."""
    wall, cpu = time.perf_counter(), time.process_time()
    training = train()
    for _ in training:
        pass
    result = training.result()
    return time.perf_counter() - wall, time.process_time() - cpu, result.epochs


def main(n: int, d: int) -> None:
    """Print the figures."""
    X, y = problem_of(n, d)
    pipeline = Pipeline(solver=Newton(C=1.0), stopping=Stopping(duality_gap=1e-3))
    made: list[DaskPasses] = []
    with tempfile.TemporaryDirectory() as folder, cluster(2, MEMORY) as workers:
        recipe = FileRecipe(str(Path(folder, "X.npy")))
        np.save(recipe.path, X)
        connection = Connection(workers.address)
        workers.wait(connection, 2)

        def given(prepared: Prepared, problem: Problem) -> DaskPasses:
            made.append(DaskPasses(problem, recipe, connection, warn=print))
            return made[-1]

        alone: list[float] = []
        spread: list[float] = []
        for k in range(ROUNDS + 1):  # the first one compiles
            wall, cpu, steps = measured(lambda: Training(pipeline, np.load(recipe.path), y, seed=0))
            wall_of_two, cpu_of_own, _ = measured(
                lambda: Training(pipeline, X, y, seed=0, how=Execution(spread=given))
            )
            print(
                f"{'first round' if k == 0 else 'round'}: one thread {wall:.2f} s ({cpu:.2f} of "
                f"CPU), two workers {wall_of_two:.2f} s ({cpu_of_own:.2f} of CPU in the process "
                f"of the job), {steps} steps, load {os.getloadavg()[0]:.1f}"
            )
            if k:
                alone.append(wall)
                spread.append(wall_of_two)
        print(f"median {median(alone) / median(spread):.2f} times as fast")
        moved, passes = made[-1].moved_bytes, made[-1].passes
        print(f"moved {moved:,} bytes, {100 * moved / X.nbytes:.2f} % of the data, {passes} passes")
        times = []
        for _ in range(PASSES):
            began = time.perf_counter()
            made[-1].compute(Pass(function=nothing), [])
            times.append(time.perf_counter() - began)
        print(f"a pass that does nothing: {1e3 * median(times):.1f} ms")
        connection.close()


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:] or ("2000000", "100")))
