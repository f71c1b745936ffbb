"""The data of a training: layouts, labels, validation rows, and data that is refused."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

from svm.errors import InvalidData
from svm.model.pipeline import Pipeline
from svm.solvers import Newton, Pegasos
from svm.stopping import Stopping
from svm.training.training import Training
from svm.transforms.scaling import ScalingName
from tests.svm.cases.problems import Form, blobs, in_form
from tests.svm.cases.trainings import bits, train

X, LABELS = blobs(4)
FEW = Stopping(max_epochs=6)


def test_layout_of_the_input_changes_no_bit() -> None:
    """Fortran order, strides, lists, other byte orders and unaligned memory: the same model."""
    pipeline = Pipeline(solver=Newton(), stopping=FEW)
    expected = bits(train(pipeline, X, LABELS).result())
    unaligned = np.frombuffer(b"\0" + X.tobytes(), dtype=np.float64, offset=1).reshape(X.shape)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    for same in (np.asfortranarray(X), wide, X.tolist(), X.astype(">f8"), unaligned):
        assert bits(train(pipeline, same, LABELS).result()) == expected


def test_form_of_a_sparse_input_changes_no_bit() -> None:
    """CSC, unsorted indices and duplicates give the model of the canonical CSR matrix."""
    sparse = csr_array(np.where(X > 0, X, 0.0))
    pipeline = Pipeline(solver=Newton(), stopping=FEW)
    expected = bits(train(pipeline, sparse, LABELS).result())
    unsorted = sparse.copy()
    for start, end in zip(unsorted.indptr, unsorted.indptr[1:], strict=False):
        unsorted.indices[start:end] = unsorted.indices[start:end][::-1].copy()
        unsorted.data[start:end] = unsorted.data[start:end][::-1].copy()
    unsorted.has_sorted_indices = False
    unsorted.has_canonical_format = False
    before = unsorted.indices.copy()
    for same in (csc_array(sparse), unsorted):
        assert bits(train(pipeline, same, LABELS).result()) == expected
    assert (unsorted.indices == before).all()  # the caller's matrix stays as it was


def test_caller_keeps_its_arrays() -> None:
    """Training changes neither X nor the labels, with any scaling."""
    rows, labels = X.copy(), LABELS.copy()
    for scaling in get_args(ScalingName):
        train(Pipeline(solver=Newton(), scaling=scaling, stopping=FEW), rows, labels)
    assert (rows == X).all()
    assert (labels == LABELS).all()


@pytest.mark.parametrize("labels", ["strings", "integers", "floats", "booleans"])
def test_labels_of_any_kind(labels: str) -> None:
    """Classes are the sorted labels, in their own type; predictions come from them."""
    two = LABELS % 2
    kinds = {
        "strings": np.array(["yes", "no"])[two],
        "integers": np.array([7, -3])[two],
        "floats": np.array([0.5, -0.5])[two],
        "booleans": np.array([True, False])[two],
    }
    given = kinds[labels]
    fitted = train(Pipeline(solver=Newton()), X, given).result().fitted
    assert fitted.classes.dtype == given.dtype
    assert fitted.classes.tolist() == sorted(set(given.tolist()))
    predicted = fitted.predict(X)
    assert predicted.dtype == given.dtype
    positive = fitted.decision_function(X) > 0
    assert (predicted == np.where(positive, fitted.classes[1], fitted.classes[0])).all()


def test_validation_error_is_that_of_each_pair() -> None:
    """The validation rows of a pair's two classes are scored, with the same scaling."""
    held_out = slice(40, None)
    pipeline = Pipeline(solver=Newton(), scaling="standardize", stopping=FEW)
    watched = (X[held_out], LABELS[held_out])
    training = Training(pipeline, X[:40], LABELS[:40], seed=0, validation=watched)
    last = {now.pair: now.evaluation for now in training if now.evaluation is not None}
    result = training.result()
    scores = result.fitted.problem_scores(watched[0])
    for pair, certificate in enumerate(result.certificate.pairs):
        i, j = certificate.classes
        rows = np.isin(watched[1], (i, j))
        expected = ((scores[rows, pair] > 0) != (watched[1][rows] == j)).mean()
        assert last[pair].validation_error == float(expected)


def test_watching_changes_no_bit() -> None:
    """A model is the same with and without validation rows."""
    pipeline = Pipeline(solver=Pegasos(), stopping=FEW)
    watched = train(pipeline, X, LABELS, validation=(X[:9] + 1.0, LABELS[:9]))
    assert bits(watched.result()) == bits(train(pipeline, X, LABELS).result())


def test_validation_rows_of_unknown_classes_belong_to_no_pair() -> None:
    """Only rows of a pair's own classes count; without any, there is no validation error."""
    pipeline = Pipeline(solver=Newton(), stopping=FEW)
    labels = np.where(LABELS == 3, 99, LABELS)
    some = Training(pipeline, X[LABELS < 2], LABELS[LABELS < 2], seed=0, validation=(X, labels))
    same = (X[LABELS < 2], LABELS[LABELS < 2])
    only = Training(pipeline, X[LABELS < 2], LABELS[LABELS < 2], seed=0, validation=same)
    none = Training(
        pipeline, X[LABELS < 2], LABELS[LABELS < 2], seed=0, validation=(X, labels + 100)
    )
    errors = [
        [now.evaluation.validation_error for now in training if now.evaluation is not None]
        for training in (some, only, none)
    ]
    assert errors[0] == errors[1]
    assert set(errors[2]) == {None}


@pytest.mark.parametrize("sparse", [False, True])
def test_validation_rows_must_fit(sparse: bool) -> None:
    """Other features or a wrong number of labels are refused before a loop reads beyond a row."""
    pipeline = Pipeline(solver=Newton())
    for width in (1, 2, 4, 50):
        rows = np.ones((5, width))
        held_out = csr_array(rows) if sparse else rows
        with pytest.raises(InvalidData, match="expected validation rows with 3 features") as caught:
            Training(pipeline, X, LABELS, seed=0, validation=(held_out, LABELS[:5]))
        assert caught.value.code == "feature-mismatch"
    with pytest.raises(InvalidData, match="expected 60 validation labels") as caught:
        Training(pipeline, X, LABELS, seed=0, validation=(X, LABELS[:5]))
    assert caught.value.code == "bad-shape"


@pytest.mark.parametrize(
    ("code", "X", "labels"),
    [
        ("single-class", X, np.zeros(60)),
        ("empty-data", np.empty((0, 3)), np.empty(0)),
        ("empty-data", np.empty((3, 0)), np.array([0, 1, 1])),
        ("bad-shape", X, LABELS[:-1]),
        ("bad-shape", X, LABELS[:, None]),
        ("bad-shape", X[0], LABELS),
        ("bad-shape", X[None], LABELS),
        ("not-a-number", [["a", "b"], ["c", "d"]], [0, 1]),
        ("not-a-number", [[1.0, 2.0], [3.0]], [0, 1]),
        ("not-a-number", X + 1j, LABELS),
        ("not-a-number", csr_array(X + 1j), LABELS),
        ("bad-labels", X, np.where(LABELS > 0, 1.0, np.nan)),
        ("bad-labels", X[:2], np.array([1, "a"], dtype=object)),
        ("bad-labels", X[:2], [None, 1]),
        ("non-finite-value", [[1.0], [np.nan]], [0, 1]),
        ("non-finite-value", [[1.0], [np.inf]], [0, 1]),
        ("non-finite-value", csr_array([[1.0], [-np.inf]]), [0, 1]),
        ("non-finite-value", [[1e101], [1.0]], [0, 1]),
        ("non-finite-value", csr_array([[1.0], [-1e101]]), [0, 1]),
    ],
)
def test_bad_data_are_refused(code: str, X: object, labels: object) -> None:
    """With an error code for programs, before any training."""
    with pytest.raises(InvalidData) as caught:
        Training(Pipeline(solver=Newton()), X, labels, seed=0)
    assert caught.value.code == code
    assert str(caught.value)


def test_finite_values_whose_sum_overflows_are_accepted() -> None:
    """The quick test is a sum, but only values that are not finite are refused."""
    huge = np.array([[1e308, 0.0], [1e308, 1.0], [-1e308, 0.5], [1e308, 2.0]])
    training = train(Pipeline(solver=Newton(), scaling="max-abs"), huge, [0, 1, 0, 1])
    assert training.result().certificate.worst.relative_gap <= 1e-3


@pytest.mark.parametrize("form", ["dense-float32", "csr-float32"])
def test_values_beyond_single_precision_are_refused(form: Form) -> None:
    """Converting 1e300 to float32 gives infinity, which is not trained on."""
    rows = in_form(X * 1e300, form.replace("32", "64"))  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match="not finite") as caught:
        Training(Pipeline(solver=Newton(dtype="float32")), rows, LABELS, seed=0)
    assert caught.value.code == "non-finite-value"
