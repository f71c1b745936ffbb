"""How the time of a training grows if rows, features or classes are doubled, for every solver.

    python -m benchmarks.doubling [--rounds 3]

Time is that of `EPOCHS` epochs of all binary problems from the raw arrays, without certificates;
of `smo`, whose working sets of 512 rows count as 512 / n epochs. Classes are
trained one against one. The exponent p of time ≈ c size^p is fitted to the largest three sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.alternate import cpu_seconds
from benchmarks.problems import image_like
from svm import Pipeline, Training
from svm.data.matrices import Vector
from svm.solvers import SOLVERS
from svm.training.warm_up import warm_up

EPOCHS = 4
KERNEL_SHARE = 8
"""Factor by which kernel solvers get fewer rows."""
FITTED = 3


@dataclass(frozen=True)
class Growth:
    """Time of a training against one size, the others fixed."""

    solver: str
    size: str
    sizes: Sequence[int]
    seconds: Vector
    """CPU time, medians over alternating rounds."""

    @property
    def exponent(self) -> float:
        sizes, seconds = self.sizes[-FITTED:], self.seconds[-FITTED:]
        return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def main(n: int = 4096, d: int = 64, doublings: int = 4, rounds: int = 3) -> list[Growth]:
    """Print the table, and give its lines.

    Rows are doubled from `n`, features from `d`, classes from 2; the other sizes stay there (rows
    at 4 n where classes are doubled, so that pairs keep some).
    """
    warm_up()
    grown = []
    print(f"CPU ms of {EPOCHS} epochs, and the exponent of the largest {FITTED} sizes")
    with threadpool_limits(1):
        for name, solver in SOLVERS.items():
            rows = n // KERNEL_SHARE if "kernel" in solver.__dataclass_fields__ else n
            steps = [1 << k for k in range(doublings + 1)]
            cases = {
                "rows n": {rows * k: (rows * k, d, 2) for k in steps},
                "features d": {d * k: (rows, d * k, 2) for k in steps},
                "classes K": {2 * k: (4 * rows, d, 2 * k) for k in steps[:4]},
            }
            for size, shapes in cases.items():
                runs = {str(s): _training(solver(), *shape) for s, shape in shapes.items()}
                seconds = cpu_seconds(runs, rounds)
                grown.append(Growth(name, size, list(shapes), np.array(list(seconds.values()))))
                _print(grown[-1])
    return grown


def _training(solver: Any, n: int, d: int, n_classes: int) -> Callable[[], object]:
    X, y = image_like(n, d)
    labels = y if n_classes == 2 else np.argmax(X[:, :n_classes], axis=1).astype(np.float64)
    return partial(_train, solver, X, labels)


def _train(solver: Any, X: Vector, labels: Vector) -> None:
    for problem in Training(Pipeline(solver=solver), X, labels, seed=0).problems:
        state = solver.start(problem)
        while state.epoch < EPOCHS and not state.stopped:
            state = solver.advance(problem, state)


def _print(growth: Growth) -> None:
    times = "".join(
        f"{f'{1e3 * seconds:.3g}':>7} at {size:<6}"
        for size, seconds in zip(growth.sizes, growth.seconds.tolist(), strict=True)
    )
    print(f"{growth.solver:>24} {growth.size:<11}{growth.exponent:5.2f}  {times}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    main(rounds=parser.parse_args().rounds)
