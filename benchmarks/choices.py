"""`auto` beside the two solvers between which it chooses: CPU time to a proven gap of 0.1 %.

Ten datasets, dense and sparse, narrow and wide, separable and unscaled, each with four C. A dash
means that the gap was not proven in 1,000 epochs or `BUDGET_S` seconds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_limits

from benchmarks.problems import binary_like, cover_like, image_like, text_like
from svm import Auto, DualCoordinateDescent, Newton, Pipeline, Stopping, Training
from svm.data.matrices import Vector
from svm.training.warm_up import warm_up

STRENGTHS = (0.01, 1.0, 100.0, 1e4)
SOLVERS = {"auto": Auto, "newton": Newton, "dual-coordinate-descent": DualCoordinateDescent}
BUDGET_S = 30.0
"""Seconds by the clock after which a training has failed."""
NOTABLE_S = 0.02
"""Ratios of shorter times are noise."""

Data = tuple[Any, Vector]


@dataclass(frozen=True)
class Cell:
    """A dataset with one C."""

    seconds: Mapping[str, float]
    reached: Mapping[str, bool]

    @property
    def best(self) -> float:
        """Seconds of the faster of the two solvers; infinite if neither proves the gap."""
        return min(
            (self.seconds[name] for name in SOLVERS if name != "auto" and self.reached[name]),
            default=np.inf,
        )

    @property
    def ratio(self) -> float:
        """Of `auto` to the best."""
        return self.seconds["auto"] / self.best


def main(datasets: Mapping[str, Callable[[], Data]] | None = None, rounds: int = 3) -> list[Cell]:
    """Print the table, and give its cells."""
    warm_up()
    print("CPU seconds to a gap of 0.1 %, medians of alternating rounds")
    cells = []
    with threadpool_limits(1):
        for name, make in (datasets or DATASETS).items():
            X, y = make()
            for C in STRENGTHS:
                cell = _cell(X, y, C, rounds)
                cells.append(cell)
                times = (
                    f"{each} {cell.seconds[each]:.3f}{' ' if cell.reached[each] else '–'}"
                    for each in SOLVERS
                )
                print(f"{name:>24} C = {C:<6g}", *times, f"ratio {cell.ratio:.2f}", flush=True)
    long = [cell.ratio for cell in cells if NOTABLE_S <= cell.best < np.inf] or [1.0]
    missed = sum(cell.best < np.inf and not cell.reached["auto"] for cell in cells)
    print(
        f"{len(cells)} cells, {missed} in which only auto misses the gap; in {len(long)} cells "
        f"above {1e3 * NOTABLE_S:.0f} ms: median ratio {statistics.median(long):.2f}, "
        f"largest {max(long):.2f}"
    )
    assert missed == 0, "auto misses a gap that one of its solvers reaches"
    return cells


def _cell(X: Any, y: Vector, C: float, rounds: int) -> Cell:
    times: dict[str, list[float]] = {name: [] for name in SOLVERS}
    reached: dict[str, bool] = {}
    for number in range(rounds):
        for name, solver in list(SOLVERS.items())[:: -1 if number % 2 else 1]:
            if name in reached and not reached[name]:
                continue
            stopping = Stopping(duality_gap=1e-3, max_epochs=1000, time_budget_s=BUDGET_S)
            pipeline = Pipeline(solver=solver(C=C, intercept="augmented"), stopping=stopping)
            training = Training(pipeline, X, y, seed=0)
            start = time.process_time()
            for _ in training:
                pass
            times[name].append(time.process_time() - start)
            reached[name] = training.result().stop_reason == "gap-reached"
    return Cell({name: statistics.median(some) for name, some in times.items()}, reached)


def _iris() -> Data:
    X, y = load_iris(return_X_y=True)
    return X[y > 0], y[y > 0].astype(np.float64)


def _wide() -> Data:
    X, y = text_like(2000, 1000, 0.5)
    return X.toarray(), y


def _separable() -> Data:
    random = np.random.default_rng(0)
    X, w = random.normal(size=(20_000, 30)), random.normal(size=30)
    scores = X @ w / np.linalg.norm(w)
    apart = np.abs(scores) > 0.3
    return X[apart], np.where(scores[apart] > 0, 1.0, -1.0)


def _unscaled() -> Data:
    random = np.random.default_rng(0)
    X = random.normal(size=(5000, 20))
    scores = X @ random.normal(size=20) + 0.5 * random.normal(size=5000)
    return X * 10.0 ** random.uniform(-1, 2, size=20), np.where(scores > 0, 1.0, -1.0)


def _narrow() -> Data:
    random = np.random.default_rng(0)
    X = random.normal(size=(100_000, 4))
    return X, np.where(X[:, 0] + 0.7 * random.normal(size=100_000) > 0, 1.0, -1.0)


DATASETS: dict[str, Callable[[], Data]] = {
    "iris, two classes": _iris,
    "32,000 × 123, binary": lambda: binary_like(32_000),
    "6,000 × 784": lambda: image_like(6000, 784),
    "50,000 × 54": lambda: cover_like(50_000),
    "20,000 × 20,000, sparse": lambda: text_like(20_000, 20_000, 0.001),
    "20,000 × 1,000, sparse": lambda: text_like(20_000, 1000, 0.01),
    "2,000 × 1,000": _wide,
    "16,000 × 30, separable": _separable,
    "5,000 × 20, unscaled": _unscaled,
    "100,000 × 4": _narrow,
}


if __name__ == "__main__":
    main()
