"""One pass over the data: ours against scikit-learn's solvers of the same kind.

`pegasos` against SGDClassifier (one epoch of n updates), `dual-coordinate-descent` against
LinearSVC (one pass of LIBLINEAR's coordinate descent with shrinking). Same data, same λ, one
thread, no stopping rule: both run a fixed number of epochs, and the time of one is given.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.alternate import cpu_seconds
from benchmarks.problems import image_like, text_like
from benchmarks.solver_cases import Case
from svm import DualCoordinateDescent, Pegasos, Pipeline, Training
from svm.data.matrices import is_sparse
from svm.solvers import AnySolver

EPOCHS = 10
PEERS = {"pegasos": "SGDClassifier", "dual-coordinate-descent": "LinearSVC"}


def cases() -> list[Case]:
    """Dense as images are, and sparse as texts."""
    return [
        Case("dense 12k × 784, C = 0.1", *image_like(12_000, 784), 0.1),
        Case("CSR 50k × 50k, 0.1 %, C = 0.1", *text_like(50_000, 50_000, 0.001), 0.1),
    ]


def main(problems: Sequence[Case] = (), rounds: int = 7) -> dict[tuple[str, str], float]:
    """Print the table; returns the ratio ours / theirs by problem and solver."""
    ratios = {}
    print(f"CPU ms of an epoch, medians of {rounds} alternating rounds")
    for problem in problems or cases():
        print(problem.name)
        seconds = _seconds(problem, rounds)
        for ours, peer in PEERS.items():
            ratio = ratios[problem.name, ours] = seconds[ours] / seconds[peer]
            print(
                f"{ours:>26} {1e3 * seconds[ours] / EPOCHS:8.2f}   "
                f"{peer:>14} {1e3 * seconds[peer] / EPOCHS:8.2f}   ratio {ratio:.2f}"
            )
    return ratios


def _seconds(problem: Case, rounds: int) -> dict[str, float]:
    X: Any = csr_matrix(problem.X) if is_sparse(problem.X) else problem.X
    y, C = problem.labels, problem.C
    sgd = SGDClassifier(loss="hinge", alpha=1.0 / (len(y) * C), max_iter=EPOCHS, tol=None)
    liblinear = LinearSVC(loss="hinge", C=C, max_iter=EPOCHS, tol=1e-12)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cpu_seconds(
            {
                "pegasos": _epochs_of(Pegasos(C=C), problem),
                "SGDClassifier": lambda: sgd.fit(X, y),
                "dual-coordinate-descent": _epochs_of(DualCoordinateDescent(C=C), problem),
                "LinearSVC": lambda: liblinear.fit(X, y),
            },
            rounds,
        )


def _epochs_of(solver: AnySolver, case: Case) -> Callable[[], object]:
    """`EPOCHS` epochs of the solver alone: what scikit-learn's `fit` does, no evaluation."""
    problem = Training(Pipeline(solver=solver), case.X, case.labels, seed=0).problems[0]

    def run() -> None:
        state = solver.start(problem)
        for _ in range(EPOCHS):
            state = solver.advance(problem, state)  # type: ignore[arg-type]

    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    main(rounds=parser.parse_args().rounds)
