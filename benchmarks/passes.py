"""One pass over dense data: ours against scikit-learn's solvers of the same kind.

`pegasos` against SGDClassifier (one epoch of n updates), `dual-coordinate-descent` against
LinearSVC (one pass of LIBLINEAR's coordinate descent with shrinking). Same data, same λ, one
thread, no stopping rule: both run a fixed number of epochs, and the time of one is given.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.alternate import cpu_seconds
from svm import DualCoordinateDescent, Pegasos, Pipeline, Training
from svm.matrices import Vector
from svm.solvers import AnySolver

EPOCHS = 10
C = 0.1


def image_like(n_samples: int, n_features: int) -> tuple[Vector, Vector]:
    """Non-negative, correlated features, a noisy linear concept; labels ±1."""
    random = np.random.default_rng(0)
    latent = random.normal(size=(n_samples, 40))
    X = np.maximum(latent @ random.normal(size=(40, n_features)), 0.0) / 10.0
    y = np.where(latent[:, 0] + 0.5 * random.normal(size=n_samples) > 0, 1.0, -1.0)
    return X, y


def epochs_of(solver: AnySolver, X: Vector, y: Vector) -> Callable[[], object]:
    """`EPOCHS` epochs of the solver alone: what scikit-learn's `fit` does, no evaluation."""
    problem = Training(Pipeline(solver=solver), X, y, seed=0).problems[0]

    def run() -> None:
        state = solver.start(problem)
        for _ in range(EPOCHS):
            state = solver.advance(problem, state)  # type: ignore[arg-type]

    return run


def main(n_samples: int = 12_000, n_features: int = 784, rounds: int = 7) -> dict[str, float]:
    """Print the table; returns the ratios."""
    X, y = image_like(n_samples, n_features)
    alpha = 1.0 / (n_samples * C)
    warnings.simplefilter("ignore", ConvergenceWarning)
    sgd = SGDClassifier(loss="hinge", alpha=alpha, max_iter=EPOCHS, tol=None)
    liblinear = LinearSVC(loss="hinge", C=C, max_iter=EPOCHS, tol=1e-12)
    with threadpool_limits(1):
        seconds = cpu_seconds(
            {
                "pegasos": epochs_of(Pegasos(C=C), X, y),
                "SGDClassifier": lambda: sgd.fit(X, y),
                "dual-coordinate-descent": epochs_of(DualCoordinateDescent(C=C), X, y),
                "LinearSVC": lambda: liblinear.fit(X, y),
            },
            rounds,
        )
    pairs = [("pegasos", "SGDClassifier"), ("dual-coordinate-descent", "LinearSVC")]
    ratios = {ours: seconds[ours] / seconds[peer] for ours, peer in pairs}
    print(
        f"dense {n_samples} x {n_features}, C = {C}, {rounds} alternating rounds, CPU ms an epoch"
    )
    for ours, peer in pairs:
        print(
            f"{ours:>24} {1e3 * seconds[ours] / EPOCHS:7.2f}   "
            f"{peer:>14} {1e3 * seconds[peer] / EPOCHS:7.2f}   ratio {ratios[ours]:.2f}"
        )
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    main(rounds=parser.parse_args().rounds)
