"""Certificates of trainings in single precision are about rows as the model sees them later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from svm.kernel.kernels import GaussianKernel, PolynomialKernel
from svm.model.pipeline import Pipeline
from svm.problem.certificate import PairCertificate, for_moved_rows
from svm.solvers import SMO, DualCoordinateDescent, Newton
from svm.stopping import Stopping, StopReason
from svm.transforms.features import Square
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import train

N = 120
GAP = Stopping(duality_gap=1e-6, max_epochs=3000)
CASES: dict[str, Pipeline] = {
    "linear": Pipeline(solver=Newton(C=1e3, dtype="float32"), stopping=GAP),
    "free intercept": Pipeline(
        solver=Newton(C=1e3, intercept="free", dtype="float32"), stopping=GAP
    ),
    "coordinates": Pipeline(solver=DualCoordinateDescent(C=10.0, dtype="float32"), stopping=GAP),
    "squares": Pipeline(solver=Newton(C=100.0, dtype="float32"), features=Square(), stopping=GAP),
    "scaled": Pipeline(solver=Newton(C=100.0, dtype="float32"), scaling="max-abs", stopping=GAP),
    "gaussian": Pipeline(
        solver=SMO(C=1e3, kernel=GaussianKernel(gamma=2.0), dtype="float32"), stopping=GAP
    ),
    "squared hinge": Pipeline(
        solver=Newton(C=1e3, loss="squared-hinge", dtype="float32"), stopping=GAP
    ),
    "squared hinge, gaussian": Pipeline(
        solver=SMO(C=1e3, kernel=GaussianKernel(gamma=2.0), loss="squared-hinge", dtype="float32"),
        stopping=GAP,
    ),
    "polynomial": Pipeline(
        solver=SMO(C=10.0, kernel=PolynomialKernel(degree=2), dtype="float32"), stopping=GAP
    ),
}


def rows(offset: float, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Two classes whose distance is a few roundings, if the spread is small."""
    random = np.random.default_rng(3)
    labels = np.arange(N) % 2
    X = random.normal(size=(N, 2)) + 1.5 * labels[:, None]
    return offset + spread * X, labels


def cost(result: Any, X: Any, labels: np.ndarray) -> float:
    """Of the model, for the rows themselves."""
    fitted, regularization = result.fitted, result.warm_start.regularization[0]
    w, b = fitted.coefficients[0], fitted.intercepts[0]
    if fitted.kernel is not None:
        SV = fitted.support_vectors
        SV = SV.toarray() if hasattr(SV, "toarray") else SV
        norms = np.square(SV).sum(axis=1)
        squared = w @ fitted.kernel.of_products(SV @ SV.T, norms, norms) @ w
    else:
        squared = w @ w
    if result.warm_start.pipeline.solver.intercept == "augmented":
        squared += b * b
    margins = np.where(labels == 1, 1.0, -1.0) * fitted.problem_scores(X)[:, 0]
    short = np.maximum(0.0, 1.0 - margins)
    power = 2 if result.warm_start.pipeline.solver.loss_name == "squared-hinge" else 1
    return float(0.5 * regularization * squared + (short**power).mean())


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("spread", [1e-4, 1.0])
@pytest.mark.parametrize("case", CASES)
def test_bounds_hold_for_the_rows_themselves(case: str, spread: float, sparse: bool) -> None:
    """The cost is at least that of the model, and no lower bound is above the cost of the model
    that double precision finds, also if rounding leaves nothing of the difference of classes."""
    pipeline = CASES[case]
    # With kernels, rows far from 0 are refused.
    X, labels = rows(30.0 if spread < 1.0 and pipeline.kernel is None else 0.1, spread)
    given = csr_array(X) if sparse else X
    single = train(pipeline, given, labels).result()
    double = train(
        replace(pipeline, solver=replace(pipeline.solver, dtype="float64")), given, labels
    ).result()
    found, best = single.certificate.worst, double.certificate.worst.primal
    assert cost(single, given, labels) <= found.primal * (1 + 1e-9)
    assert found.dual <= best * (1 + 1e-9)
    if single.converged:
        assert found.relative_gap <= 1e-6


def test_what_rounding_leaves_open_is_said() -> None:
    """Not certified, not converged, with the way out; rows that were in single precision before
    lose nothing."""
    X, labels = rows(30.0, 1e-4)
    solver = Newton(C=1e8, intercept="free", dtype="float32")
    pipeline = Pipeline(solver=solver, stopping=Stopping(duality_gap=1e-3))
    result = train(pipeline, X, labels).result()
    assert result.certificate.status != "certified"
    assert result.stop_reason is StopReason.STALLED
    assert not result.converged
    assert '"dtype": "float64"' in result.warnings[-1]
    exact = train(pipeline, X.astype(np.float32), labels).result()
    assert exact.converged
    assert not exact.warnings
    again = train(pipeline, X.astype(np.float32).astype(np.float64), labels).result()
    assert again.certificate == exact.certificate


def test_rows_in_files_are_certified_alike(tmp_path: Path) -> None:
    X, labels = rows(30.0, 1e-3)
    memory, files = (
        train(CASES["linear"], given, labels).result().certificate
        for given in (X, stored(X, tmp_path))
    )
    assert files == memory


def test_costs_of_moved_rows_are_enclosed() -> None:
    """The bound on the gap solves its own inequality."""
    own = PairCertificate(classes=(0, 1), primal=0.5, dual=0.4, solver_objective=0.5)
    assert for_moved_rows(own, 0.0, 3.0, 0.1).dual == pytest.approx(0.4)
    moved = for_moved_rows(own, 0.01, 3.0, 0.1)
    gap = moved.primal - moved.dual
    assert moved.primal == pytest.approx(0.53)
    assert gap == pytest.approx(0.1 + 0.06 + 0.01 * np.sqrt(2 * gap / 0.1))
