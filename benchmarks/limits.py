"""Two measurements against their limits: a gradient pass against the memory's bandwidth, and
scores by many support vectors against LIBSVM's.

    python -m benchmarks.limits [--rounds 5]

The gradient pass is one epoch of batch `gradient-descent` on float32 rows; the bandwidth is that
of `np.sum` over the same array, which reads it once, as the pass does. The scores are those of a
Gaussian model in float64, the same bits for a row in any batch; scikit-learn's SVC is LIBSVM with
the dense rows with which it is fastest. One thread, CPU time, medians of alternating rounds.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.alternate import cpu_seconds
from benchmarks.problems import image_like
from svm import FittedPipeline, GaussianKernel, GradientDescent, Pipeline, Training
from svm.data.matrices import Vector
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling


def main(rows: int = 60_000, vectors: int = 12_000, asked: int = 400, rounds: int = 5) -> None:
    """Print both ratios."""
    with threadpool_limits(1):
        gradient_pass(rows, rounds)
        scores(vectors, asked, rounds)


def gradient_pass(n: int, rounds: int) -> float:
    """The share of the bandwidth that a pass over n × 784 reaches."""
    X, y = image_like(n, 784)
    solver = GradientDescent(C=1.0, dtype="float32")
    problem = Training(Pipeline(solver=solver), X, y, seed=0).problems[0]
    state = solver.advance(problem, solver.start(problem))
    read = problem.matrix
    assert isinstance(read, np.ndarray)
    seconds = cpu_seconds(
        {"pass": lambda: solver.advance(problem, state), "read": lambda: read.sum()}, rounds
    )
    share = seconds["read"] / seconds["pass"]
    speeds = {name: read.nbytes / spent / 1e9 for name, spent in seconds.items()}
    print(
        f"gradient pass over {n} × 784 float32: {speeds['pass']:.1f} GB/s, np.sum reads "
        f"{speeds['read']:.1f} GB/s: {share:.0%}"
    )
    return share


def scores(m: int, asked: int, rounds: int) -> float:
    """Ours over LIBSVM's time for `asked` rows and m support vectors of 784 features."""
    X, y = image_like(m + asked, 784)
    gamma = float(GaussianKernel().fitted(X).gamma)
    theirs = _machine(X[:m], y[:m], gamma)
    ours = FittedPipeline(
        classes=theirs.classes_,
        scaling=Scaling(),
        features=FeatureMap(Identity(), 784),
        coefficients=theirs.dual_coef_,
        intercepts=theirs.intercept_,
        kernel=GaussianKernel(gamma=gamma),
        support_vectors=theirs.support_vectors_,
    )
    rest = X[m:]
    np.testing.assert_allclose(
        ours.decision_function(rest), theirs.decision_function(rest), rtol=1e-6, atol=1e-9
    )
    seconds = cpu_seconds(
        {
            "ours": lambda: ours.decision_function(rest),
            "LIBSVM": lambda: theirs.decision_function(rest),
        },
        rounds,
    )
    ratio = seconds["ours"] / seconds["LIBSVM"]
    print(
        f"{asked} rows by {len(theirs.support_vectors_)} support vectors, float64: "
        f"{seconds['ours']:.3f} s, LIBSVM {seconds['LIBSVM']:.3f} s: {ratio:.3f}"
    )
    return ratio


def _machine(vectors: Vector, y: Vector, gamma: float) -> SVC:
    """LIBSVM's model with these support vectors, put together: it would train for minutes."""
    order = np.argsort(y, kind="stable")  # the negative class first
    machine = SVC(C=1.0, gamma=gamma).fit(vectors[:100], y[:100])
    machine.support_ = np.arange(len(y), dtype=np.int32)
    machine.support_vectors_ = np.ascontiguousarray(vectors[order])
    machine._n_support = np.array([(y < 0).sum(), (y > 0).sum()], dtype=np.int32)
    coefficients = y[order] * np.random.default_rng(1).random(len(y))
    machine.dual_coef_ = coefficients[None, :]
    machine._dual_coef_ = -machine.dual_coef_  # scikit-learn turns the sign of two classes
    return machine


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    main(rounds=parser.parse_args().rounds)
