"""Time to a given distance from the optimum: `dual-coordinate-descent` against LinearSVC.

Ours is a whole training from the raw arrays that stops when it has *proved* the gap. LinearSVC
computes no gap, so it gets the smallest `max_iter` with which its primal value is in truth as near
to the optimum, found beforehand and at no cost to it.
"""

from __future__ import annotations

import argparse
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.alternate import cpu_seconds
from benchmarks.problems import TimedProblem, dense, sparse
from svm import DualCoordinateDescent, Pipeline, Stopping, Training, TrainingResult
from svm.hyperparameters import Dtype

MOST_PASSES = 20_000


def main(
    problems: Iterable[TimedProblem] | None = None,
    gaps: tuple[float, ...] = (1e-2, 1e-3),
    rounds: int = 5,
) -> dict[tuple[str, float, str], float]:
    """Print the table; returns the ratio ours / theirs by problem, gap and precision."""
    ratios = {}
    print(f"CPU ms to a relative gap, medians of {rounds} alternating rounds")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for problem in problems or (dense(), sparse()):
            print(problem.name)
            optimum = _trained(problem, 1e-5).certificate.worst.primal
            for gap in gaps:
                passes = _passes_within(problem, gap, optimum)
                candidates: dict[str, Callable[[], object]] = {
                    "float64": partial(_trained, problem, gap),
                    "float32": partial(_trained, problem, gap, "float32"),
                    "theirs": partial(_peer, problem, passes),
                }
                seconds = cpu_seconds(candidates, rounds)
                theirs = seconds.pop("theirs")
                print(f"{gap:>8.1%} {'LinearSVC':>24} {1e3 * theirs:8.1f} ({passes} passes)")
                for dtype, ours in seconds.items():
                    ratio = ratios[problem.name, gap, dtype] = ours / theirs
                    print(
                        f"{f'dual-coordinate-descent {dtype}':>33} {1e3 * ours:8.1f} {ratio:6.2f}"
                    )
    return ratios


def _trained(problem: TimedProblem, gap: float, dtype: Dtype = "float64") -> TrainingResult:
    pipeline = Pipeline(
        solver=DualCoordinateDescent(C=problem.C, dtype=dtype),
        stopping=Stopping(duality_gap=gap, max_epochs=MOST_PASSES),
    )
    training = Training(pipeline, problem.X, problem.y, seed=0)
    for _ in training:
        pass
    result = training.result()
    assert result.stop_reason == "gap-reached"
    return result


def _peer(problem: TimedProblem, passes: int) -> LinearSVC:
    """LinearSVC after that many passes; its tolerance never ends it sooner."""
    peer = LinearSVC(loss="hinge", C=problem.C, max_iter=passes, tol=1e-12, random_state=0)
    return peer.fit(problem.X_peer, problem.y)


def _passes_within(problem: TimedProblem, gap: float, optimum: float) -> int:
    """The smallest `max_iter` that brings LinearSVC's primal to (1 + gap) times the optimum."""

    def near(passes: int) -> bool:
        peer = _peer(problem, passes)
        w, b = peer.coef_[0], float(peer.intercept_[0])
        losses = np.maximum(0.0, 1.0 - problem.y * (problem.X_peer @ w + b))
        # The constant feature's weight is part of the norm there as here.
        penalty = 0.5 * (float(w @ w) + b * b) / (len(losses) * problem.C)
        return penalty + float(losses.mean()) <= (1.0 + gap) * optimum

    enough = 1
    while not near(enough):
        enough *= 2
        assert enough <= MOST_PASSES, "LinearSVC does not get there"
    return bisect_left(range(enough), True, lo=enough // 2 + 1, key=near)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    main(rounds=parser.parse_args().rounds)
