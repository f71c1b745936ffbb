"""How the time of one update grows: with rows and features for Pegasos, with support vectors for
kernel Pegasos. Curves as SVG files; exponents fitted by least squares on logarithms to the larger
half of the sizes, where what an update costs anyway no longer counts.

    python -m benchmarks.growth [--folder benchmarks/results]

The figures that `docs/solvers.md` shows were made by `--folder docs/figures`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.alternate import cpu_seconds
from benchmarks.problems import image_like
from service import charts
from service.charts.chart import Axis, Chart, Panel, Series
from svm import GaussianKernel, KernelPegasos, Pegasos, Pipeline, Training
from svm.data.matrices import Vector
from svm.solvers.kernel_pegasos import KernelPegasosState

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Curve:
    """Time of one update against one size."""

    name: str
    """Of the file."""
    title: str
    size: str
    """What is varied: the label of the axis."""
    expected: str
    """The law: O(1) or O(size)."""
    sizes: Vector
    microseconds: Vector
    """CPU time of one update, medians over alternating rounds."""

    @cached_property
    def fit(self) -> tuple[float, float]:
        """(p, c) of time ≈ c size^p, over the larger half of the sizes."""
        half = len(self.sizes) // 2
        sizes, times = self.sizes[half:], self.microseconds[half:]
        slope, logarithm = np.polyfit(np.log(sizes), np.log(times), 1)
        return float(slope), float(np.exp(logarithm))


def main(folder: Path = FOLDER, largest: int = 1 << 14, rounds: int = 5) -> dict[str, float]:
    """Write the curves, print and return their exponents.

    Features and support vectors go up to `largest`, rows to four times as many.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        curves = [
            pegasos_rows(_doubling(4 * largest, 9), rounds),
            pegasos_features(_doubling(largest, 9), rounds),
            kernel_pegasos_support_vectors(_doubling(largest, 7), rounds),
        ]
    for curve in curves:
        path = folder / f"{curve.name}.svg"
        draw(curve, path)
        first, last = curve.microseconds[[0, -1]]
        print(
            f"{curve.title}: {first:.3g} µs at {curve.sizes[0]:.0f} {curve.size}, {last:.3g} µs at "
            f"{curve.sizes[-1]:.0f}; exponent {curve.fit[0]:.2f}, expected {curve.expected}; "
            f"{path}"
        )
    return {curve.name: curve.fit[0] for curve in curves}


def pegasos_rows(sizes: Sequence[int], rounds: int) -> Curve:
    """Pegasos on dense data with 784 features and more and more rows.

    What growth there is comes from the caches, which the smaller sizes fit into.
    """
    return _measured(
        *("pegasos-rows", "Pegasos, 784 features", "rows n", "O(1)"),
        {n: _pegasos(n, 784, updates=max(sizes)) for n in sizes},
        rounds,
    )


def pegasos_features(sizes: Sequence[int], rounds: int) -> Curve:
    """Pegasos on dense data with more and more features, and rows in proportion fewer.

    All sizes take the same memory, so that all meet the same caches.
    """
    values = 1024 * max(sizes)
    return _measured(
        *("pegasos-features", f"Pegasos, {values / (1 << 20):g} Mi values", "features d", "O(d)"),
        {d: _pegasos(values // d, d, updates=values // d) for d in sizes},
        rounds,
    )


def kernel_pegasos_support_vectors(sizes: Sequence[int], rounds: int) -> Curve:
    """Kernel Pegasos, an epoch from a model with that many support vectors."""
    return _measured(
        "kernel-pegasos-support-vectors",
        *("Kernel Pegasos, Gaussian, 64 features", "support vectors m", "O(m)"),
        {m: _kernel_pegasos(m, max(sizes)) for m in sizes},
        rounds,
    )


def draw(curve: Curve, path: Path) -> None:
    """Both axes logarithmic; the line is the fit."""
    sizes, times = curve.sizes, curve.microseconds
    (exponent, factor), upper = curve.fit, sizes[len(sizes) // 2 :]
    fit = f"fit: exponent {exponent:.2f}, expected {curve.expected}"
    series = [
        Series(upper, factor * upper**exponent, fit, 1),
        Series(sizes, times, "measured", 0, "dots"),
    ]
    # A flat curve looks flat: never less than two decades.
    middle = float(np.sqrt(times.min() * times.max()))
    low = min(times.min() / 2, middle / 10)
    high = max(times.max() * 2, middle * 10)
    y = Axis("CPU time of an update (µs)", "log", low=float(low), high=float(high))
    chart = Chart(curve.title, fit, Axis(curve.size, "log"), [Panel(y, series)])
    path.write_text(charts.write(chart, "svg"))


def _measured(
    name: str,
    title: str,
    size: str,
    expected: str,
    runs: dict[int, tuple[Callable[[], object], int]],
    rounds: int,
) -> Curve:
    """`runs` gives for every size what to run, and how many updates that makes."""
    seconds = cpu_seconds({str(size): run for size, (run, _) in runs.items()}, rounds)
    times = [1e6 * seconds[str(size)] / updates for size, (_, updates) in runs.items()]
    return Curve(name, title, size, expected, np.array(list(runs), dtype=float), np.array(times))


def _pegasos(n_samples: int, n_features: int, updates: int) -> tuple[Callable[[], object], int]:
    """Epochs with about that many updates in total, after one that is not measured."""
    solver = Pegasos(C=1.0)
    X, y = image_like(n_samples, n_features)
    problem = Training(Pipeline(solver=solver), X, y, seed=0).problems[0]
    begun = solver.advance(problem, solver.start(problem))
    epochs = max(1, updates // n_samples)

    def run() -> None:
        state = begun
        for _ in range(epochs):
            state = solver.advance(problem, state)

    return run, epochs * n_samples


def _kernel_pegasos(support_vectors: int, n_samples: int) -> tuple[Callable[[], object], int]:
    """One epoch in which no row is inside the margin, so that the support vectors stay those."""
    solver = KernelPegasos(kernel=GaussianKernel(gamma=1e-3), lambda_=1e-6, intercept="none")
    y = np.where(np.arange(n_samples) % 2, 1.0, -1.0)
    X = np.random.default_rng(0).normal(size=(n_samples, 64)) + 10.0 * y[:, None]
    problem = Training(Pipeline(solver=solver), X, y, seed=0).problems[0]
    violations = np.zeros(n_samples, dtype=np.int64)
    violations[:support_vectors] = 1
    # One epoch is over: the very first update would find f = 0, and its row inside the margin.
    begun = KernelPegasosState(epoch=1, step=n_samples, intercept=0.0, violations=violations)

    def run() -> None:
        after = solver.advance(problem, begun)
        assert np.count_nonzero(after.violations) == support_vectors

    return run, n_samples


def _doubling(largest: int, count: int) -> list[int]:
    """`count` sizes, each twice the one before."""
    return [largest >> k for k in reversed(range(count))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    main(parser.parse_args().folder)
