"""The losses besides the hinge: processor time to a gap of 0.1 %, beside LIBLINEAR.

    python -m benchmarks.losses [ROUNDS]

LIBLINEAR (scikit-learn's copy) makes 1, 2, 4, 8 … passes until its cost is within 0.1 % of our
lower bound, or a fit took `LONGEST_S`. Fits alternate; the medians of their times are compared.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC, LinearSVR
from threadpoolctl import threadpool_limits

from benchmarks.problems import cover_like, image_like
from svm.data.matrices import Vector
from svm.model.pipeline import Pipeline
from svm.problem.losses import Loss
from svm.solvers import Newton
from svm.training.training import Training

GAP = 1e-3
LONGEST_S = 100.0
EPSILON = 0.1


@dataclass(frozen=True)
class Case:
    """A problem at C = 1, with the target of mean square 1 if it is a number."""

    name: str
    X: Vector
    target: Vector
    loss: Loss
    peer: type[Any] | None

    def cost(self, w: Vector, b: float) -> float:
        """P with a penalized intercept."""
        scores = self.X @ w + b
        short = 1.0 - self.target * scores
        if self.loss.numeric:
            short = np.abs(self.target - scores) - self.loss.epsilon
        norm = 0.5 * float(w @ w + b * b) / len(scores)
        return norm + float(self.loss.of_shortfalls(short).mean())


def cases() -> list[Case]:
    """Cover types and images; 5,000,000 × 18 without a peer, which takes minutes."""
    random = np.random.default_rng(1)
    X, _ = cover_like(500_000)
    images, labels = image_like(12_000, 784)
    tall = random.normal(size=(5_000_000, 18))
    numeric = Loss("epsilon-insensitive", EPSILON)
    return [
        Case("500,000 × 54, ε", X, _target(X, random), numeric, LinearSVR),
        Case("12,000 × 784, squared hinge", images, labels, Loss("squared-hinge"), LinearSVC),
        Case("5,000,000 × 18, ε", tall, _target(tall, random), numeric, None),
    ]


def _target(X: Vector, random: np.random.Generator) -> Vector:
    """A linear function with heavy noise, of median 0 and standard deviation 1."""
    t = X @ random.normal(size=X.shape[1]) + random.standard_t(3, size=len(X))
    standardized: Vector = (t - np.median(t)) / t.std()
    return standardized


def ours(case: Case) -> tuple[float, float]:
    """(Seconds, lower bound of the cost)."""
    given: dict[str, Any] = {"epsilon": EPSILON} if case.loss.numeric else {}
    solver = Newton(C=1.0, intercept="augmented", loss=case.loss.name, **given)
    start = time.process_time()
    training = Training(Pipeline(solver=solver), case.X, case.target, seed=0)
    for _ in training:
        pass
    worst = training.result().certificate.worst
    assert worst.relative_gap <= GAP
    return time.process_time() - start, worst.dual


def peer(case: Case, passes: int) -> tuple[float, float]:
    """(Seconds, cost) after some passes."""
    assert case.peer is not None
    given: dict[str, Any] = {"epsilon": EPSILON} if case.loss.numeric else {"dual": True}
    model = case.peer(C=1.0, tol=1e-12, max_iter=passes, random_state=0, **given)
    start = time.process_time()
    model.fit(case.X, case.target)
    seconds = time.process_time() - start
    return seconds, case.cost(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]))


def main(rounds: int) -> None:
    """One line for each case."""
    warnings.simplefilter("ignore")
    for case in cases():
        some = slice(0, 5000)
        ours(Case(case.name, case.X[some], case.target[some], case.loss, None))  # compiles
        times, theirs, passes, bound = [], [], 1, 0.0
        for number in range(rounds):
            seconds, bound = ours(case)
            times.append(seconds)
            if case.peer is None:
                continue
            taken, cost = peer(case, passes)
            while number == 0 and cost > bound * (1.0 + GAP) and taken < LONGEST_S:
                passes *= 2
                taken, cost = peer(case, passes)
            theirs.append(taken)
        line = f"{case.name:28} newton {np.median(times):.2f} s"
        if theirs:
            reached = "" if cost <= bound * (1.0 + GAP) else f", not reached: {cost / bound:.4f}"
            ratio = np.median(times) / np.median(theirs)
            line += f", LIBLINEAR {np.median(theirs):.1f} s ({passes} passes{reached}): {ratio:.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
