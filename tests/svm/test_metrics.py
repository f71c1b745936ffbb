"""Classification metrics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import confusion_matrix as counted_by_peer
from sklearn.metrics import precision_recall_fscore_support

from svm.metrics import classification_metrics, confusion_matrix
from tests.svm.strategies import PROPERTY

codes = arrays(np.int64, 12, elements=st.integers(0, 3))


@PROPERTY
@given(true=codes, predicted=codes)
def test_as_the_peer_has_them(
    true: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64]
) -> None:
    """Confusion matrix with true classes in rows; precision, recall, F1 and support of every
    class, absent ones included."""
    found = classification_metrics(confusion_matrix(true, predicted, 4))
    labels = [0, 1, 2, 3]
    assert found["confusion_matrix"] == counted_by_peer(true, predicted, labels=labels).tolist()
    assert found["accuracy"] == pytest.approx(float((true == predicted).mean()))
    expected = precision_recall_fscore_support(true, predicted, labels=labels, zero_division=0.0)
    for k, each in enumerate(found["per_class"]):
        ratios = [each["precision"], each["recall"], each["f1"]]
        assert ratios == pytest.approx([part[k] for part in expected[:3]])
        assert each["support"] == expected[3][k]


def test_values_are_plain_numbers() -> None:
    """For JSON: Python's own integers and floats."""
    found = classification_metrics(confusion_matrix(np.array([0, 1, 1]), np.array([0, 1, 0]), 2))
    assert found == {
        "accuracy": 2 / 3,
        "confusion_matrix": [[1, 0], [1, 1]],
        "per_class": [
            {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "support": 1},
            {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2},
        ],
    }
    assert type(found["accuracy"]) is float
    assert type(found["confusion_matrix"][0][0]) is type(found["per_class"][0]["support"]) is int


def test_narrow_codes_do_not_overflow() -> None:
    """100 classes in 8-bit codes: the cells of the confusion matrix are counted in 64 bits."""
    true = np.arange(100, dtype=np.int8)
    found = classification_metrics(confusion_matrix(true, true, 100))
    assert found["confusion_matrix"] == np.eye(100, dtype=int).tolist()


def test_no_rows() -> None:
    """Nothing to be right about: 0 everywhere, no division by zero."""
    nothing = np.empty(0, dtype=np.int64)
    found = classification_metrics(confusion_matrix(nothing, nothing, 2))
    assert found["accuracy"] == 0.0
    assert found["confusion_matrix"] == [[0, 0], [0, 0]]
