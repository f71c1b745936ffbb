"""`newton`: how many steps it takes. That it ends at the optimum, `test_certificates` shows."""

from __future__ import annotations

import pytest

from benchmarks.problems import image_like
from svm import Newton, Pipeline
from svm.hyperparameters import Intercept
from tests.svm.trainings import train


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("C", [10.0, 100.0])
def test_less_smoothing_is_foreseen(C: float, intercept: Intercept) -> None:
    """Steps to a gap of 0.1 %. With the curvature of the rows near the new, narrower margin alone
    these took 39 to 58."""
    X, labels = image_like(1500, 120)
    result = train(Pipeline(solver=Newton(C=C, intercept=intercept)), X, labels).result()
    assert result.stop_reason == "gap-reached"
    assert result.epochs <= 36
