"""The effect of a pipeline's settings on the binary problems."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, get_args

import numpy as np
import pytest

from svm.errors import InvalidData
from svm.kernel.kernels import GaussianKernel
from svm.model.pipeline import Pipeline
from svm.solvers import SMO, KernelPegasos, Newton, Pegasos
from svm.stopping import Stopping
from svm.training.preparation import NARROW_KERNEL, prepare
from svm.training.training import Training
from svm.transforms.features import Nystroem, Square
from svm.transforms.scaling import ScalingName
from tests.svm.cases.problems import CASES, blobs
from tests.svm.cases.trainings import train

X, LABELS = blobs(3)


def test_balanced_weights_make_both_sides_equal() -> None:
    """In every problem the weights of the two classes have the same sum, n/2."""
    labels = np.where(np.arange(len(LABELS)) % 5 == 0, LABELS, 0)
    pipeline = Pipeline(solver=Newton(), class_weight="balanced", multiclass="one-vs-rest")
    for problem in Training(pipeline, X, labels, seed=0).problems:
        n = problem.n_samples
        assert problem.weights[problem.y > 0].sum() == pytest.approx(n / 2)
        assert problem.weights[problem.y < 0].sum() == pytest.approx(n / 2)


def test_weights_by_label() -> None:
    """Labels are given as text; others weigh 1; an unknown one is refused."""
    pipeline = Pipeline(solver=Newton(), class_weight={"2": 3.0})
    problems = Training(pipeline, X, LABELS, seed=0).problems
    assert problems[0].weights.tolist() == [1.0] * 30
    assert set(problems[1].weights[problems[1].y > 0]) == {3.0}
    wrong = Pipeline(solver=Newton(), class_weight={"seven": 3.0})
    with pytest.raises(InvalidData, match="'seven'") as caught:
        Training(wrong, X, LABELS, seed=0)
    assert caught.value.code == "unknown-class"


def test_weights_move_the_boundary() -> None:
    """Rows of the class with the larger weight are misclassified less often."""
    two, labels = CASES["noisy"].X, (CASES["noisy"].y > 0).astype(int)
    recalls = []
    for weight in (0.05, 1.0, 20.0):
        pipeline = Pipeline(solver=Newton(), class_weight={"1": weight})
        predicted = train(pipeline, two, labels).result().fitted.predict(two)
        recalls.append(float((predicted[labels == 1] == 1).mean()))
    assert recalls[0] < recalls[1] < recalls[2]


def test_squares_separate_inside_from_outside() -> None:
    """A circle is a line in the squares: almost all labels are right with them, and by chance
    without."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 2))
    inside = (rows**2).sum(axis=1) < 1.4
    plain = train(Pipeline(solver=Newton()), rows, inside).result().fitted
    squared = train(Pipeline(solver=Newton(C=100.0), features=Square()), rows, inside).result()
    assert (plain.predict(rows) == inside).mean() < 0.7
    assert (squared.fitted.predict(rows) == inside).mean() >= 0.99


def test_a_narrow_kernel_warns() -> None:
    """The result has the warning, and only for this kernel."""
    narrow = KernelPegasos(kernel=GaussianKernel(gamma=1e6))
    for solver, warned in ((narrow, True), (KernelPegasos(), False), (Pegasos(), False)):
        pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=2))
        warnings = train(pipeline, X, LABELS).result().warnings
        assert (NARROW_KERNEL in warnings) is warned


def test_rows_far_from_zero_are_refused_with_a_kernel() -> None:
    """Rounding of their kernel values can be larger than the gap; not after scaling."""
    kernel = SMO(kernel=GaussianKernel())
    for rows, solver, scaling, refused in (
        (X + 1e6, kernel, "none", True),
        (X + 1e6, kernel, "standardize", False),
        (X + 1e6, Newton(), "none", False),
        (X + 10.0, kernel, "none", False),
        (1e-9 * X, kernel, "none", False),
        (np.full_like(X, 1.0 / 3.0), kernel, "none", False),
    ):
        pipeline = Pipeline(solver=solver, scaling=scaling)  # type: ignore[arg-type]
        with pytest.raises(InvalidData, match="standardize") if refused else nullcontext():
            prepare(pipeline, rows, LABELS, 0)
    landmarks = Pipeline(solver=Newton(), features=Nystroem(n_components=20))
    with pytest.raises(InvalidData) as error:
        prepare(landmarks, X + 1e6, LABELS, 0)
    assert error.value.code == "rounded-kernel"


def test_median_gamma_is_kept_with_the_model() -> None:
    """The γ learned from the training rows is a number in the fitted pipeline."""
    pipeline = Pipeline(solver=KernelPegasos(), stopping=Stopping(max_epochs=2))
    fitted = train(pipeline, X, LABELS).result().fitted
    kernel = prepare(pipeline, X, LABELS, 0).kernel
    assert isinstance(kernel, GaussianKernel)
    assert isinstance(kernel.gamma, float)
    assert fitted.kernel == kernel


def test_single_precision_begins_after_scaling() -> None:
    """A large mean is subtracted in float64; features of size 1 become float32."""
    far = X + 1e9
    solver = Newton(dtype="float32")
    near = train(Pipeline(solver=solver, scaling="standardize"), X, LABELS).result().fitted
    fitted = train(Pipeline(solver=solver, scaling="standardize"), far, LABELS).result().fitted
    agree = fitted.predict(far) == near.predict(X)
    assert agree.mean() >= 0.97


@pytest.mark.parametrize("scaling", get_args(ScalingName))
def test_rows_are_scaled_in_place_if_they_may_be(scaling: Any) -> None:
    """Which saves a copy, and changes no bit."""
    pipeline, own = Pipeline(solver=Newton(), scaling=scaling), X.copy()
    expected = prepare(pipeline, X, LABELS, 0)
    assert np.array_equal(X, own)
    prepared = prepare(pipeline, own, LABELS, 0, owns_rows=True)
    assert isinstance(prepared.X, np.ndarray)
    assert isinstance(expected.X, np.ndarray)
    assert np.array_equal(prepared.X, expected.X)
    assert prepared.X is own
