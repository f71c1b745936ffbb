"""The real files, where they are at hand."""

from __future__ import annotations

import numpy as np

from service.rows.spec import LIBSVM
from tests.data import real
from tests.service.rows.reading import upload


def test_tutorial_with_labels_beside_it() -> None:
    """6414 rows of zeros and ones, and a label a line."""
    result = upload(real("features.txt"), labels=real("target.txt"))
    assert result.arrays["X"].shape == (6414, 122)
    assert result.arrays["X"].sum() == 88_939
    assert (result.parsed.classes, result.parsed.class_counts) == ([-1, 1], [4845, 1569])


def test_digits_with_a_header() -> None:
    """256 named columns and the digit; the statistics are those of NumPy."""
    result = upload(real("coding5_train.csv"))
    assert result.arrays["X"].shape == (200, 256)
    assert result.parsed.columns is not None
    assert (result.parsed.columns[0], result.parsed.columns[-1]) == ("V1", "V256")
    assert (result.parsed.classes, result.parsed.class_counts) == ([5, 6], [100, 100])
    rows = real("coding5_train.csv").decode().splitlines()[1:]
    expected = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    assert np.array_equal(result.arrays["X"], expected[:, :-1])
    assert upload(real("coding5_test.csv")).parsed.class_counts == [300, 300]


def test_adult_in_libsvm() -> None:
    """Sparse, with all 123 columns also where the last ones are empty."""
    train = upload(real("a9a.libsvm"), LIBSVM)
    assert (train.parsed.n_samples, train.parsed.n_features) == (32_561, 123)
    assert (train.parsed.classes, train.parsed.class_counts) == ([-1, 1], [24_720, 7841])
    test = upload(real("a9a.t.libsvm"), LIBSVM, n_features=123)
    assert (test.parsed.n_samples, test.parsed.n_features) == (16_281, 123)
    assert test.parsed.class_counts == [12_435, 3846]
