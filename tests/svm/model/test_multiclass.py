"""One-vs-one votes, against a slow and obvious count."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from svm.data.matrices import CACHED_VALUES, Vector
from svm.model.multiclass import (
    FEW_CLASSES,
    codes_from_decision,
    decision,
    one_vs_one_decision,
    splits_of,
)
from tests.svm.cases.strategies import PROPERTY


def winner(scores: Vector, n_classes: int) -> int:
    """Most votes; of equally many the larger summed score; of equal sums the lower number."""
    votes, sums = [0] * n_classes, [0.0] * n_classes
    for score, (i, j) in zip(scores, combinations(range(n_classes), 2), strict=True):
        votes[j if score > 0 else i] += 1
        sums[j] += float(score)
        sums[i] -= float(score)
    return max(range(n_classes), key=lambda k: (votes[k], sums[k], -k))


def test_pairs_are_in_lexicographic_order() -> None:
    """i < j, the positive class of each is j."""
    assert [s.classes for s in splits_of("one-vs-one", 2)] == [(0, 1)]
    pairs = [split.classes for split in splits_of("one-vs-one", 4)]
    assert pairs == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


@PROPERTY
@given(n_classes=st.integers(3, 6), data=st.data())
def test_label_is_the_slow_counts(n_classes: int, data: st.DataObject) -> None:
    """With small integers as scores, so that ties of votes, of sums and of zeros are common."""
    n_pairs = n_classes * (n_classes - 1) // 2
    scores = data.draw(arrays(np.float64, (8, n_pairs), elements=st.integers(-2, 2).map(float)))
    expected = [winner(row, n_classes) for row in scores]
    assert codes_from_decision(one_vs_one_decision(scores, n_classes)).tolist() == expected


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3, 1e8, 1e15, 1e300])
def test_sums_decide_between_equal_votes_at_any_size(size: float) -> None:
    """Three classes with one vote each: the largest sum wins, for large and small scores."""
    for scores in ([-3.0, 2.0, -1.5], [-1.0, 4.0, -1.5], [-1.0, 2.0, -4.0]):
        row = size * np.array([scores])
        decision = one_vs_one_decision(row, 3)
        assert np.rint(decision).tolist() == [[1.0, 1.0, 1.0]]
        assert codes_from_decision(decision).tolist() == [winner(row[0], 3)]


@PROPERTY
@given(scores=arrays(np.float64, (5, 6), elements=st.floats(-1e9, 1e9)))
def test_sums_never_beat_a_vote(scores: Vector) -> None:
    """The decision values are the votes, changed by at most a third; each row sums to the number of
    pairs."""
    decision = one_vs_one_decision(scores, 4)
    votes = np.rint(decision)
    assert np.abs(decision - votes).max() <= 1.0 / 3.0 + 1e-12
    assert (votes.sum(axis=1) == 6).all()


@PROPERTY
@given(scores=arrays(np.float64, (5, 6), elements=st.floats(-100.0, 100.0)))
def test_row_is_decided_alone(scores: Vector) -> None:
    """The other rows of a batch do not change the bits of a row's decision values."""
    together = one_vs_one_decision(scores, 4)
    alone = np.concatenate([one_vs_one_decision(row[None], 4) for row in scores])
    assert together.tobytes() == alone.tobytes()


@pytest.mark.parametrize("n_classes", [3, FEW_CLASSES, FEW_CLASSES + 1, 60])
def test_many_rows_are_decided_as_alone(n_classes: int) -> None:
    """Few classes and many, in batches of several blocks: the votes and sums of a slow count."""
    n_pairs = n_classes * (n_classes - 1) // 2
    random = np.random.default_rng(0)
    scores = random.normal(size=(CACHED_VALUES // n_classes**2 + 3, n_pairs))
    together = one_vs_one_decision(scores, n_classes)
    some = [0, 1, len(scores) - 1]
    alone = np.concatenate([one_vs_one_decision(scores[[i]], n_classes) for i in some])
    assert together[some].tobytes() == alone.tobytes()
    assert one_vs_one_decision(np.asfortranarray(scores), n_classes).tobytes() == together.tobytes()
    assert codes_from_decision(alone).tolist() == [winner(scores[i], n_classes) for i in some]


def test_two_classes_are_decided_by_the_sign() -> None:
    """Greater than 0 is class 1; 0 is class 0."""
    assert codes_from_decision(np.array([-1.0, -0.0, 0.0, 1e-308])).tolist() == [0, 0, 0, 1]


def test_one_vs_rest_splits() -> None:
    """One problem per class; for two classes a single one."""
    splits = splits_of("one-vs-rest", 3)
    assert [(split.negative, split.positive) for split in splits] == [
        ((1, 2), 0),
        ((0, 2), 1),
        ((0, 1), 2),
    ]
    assert [split.classes for split in splits] == [(0,), (1,), (2,)]
    assert splits_of("one-vs-rest", 2) == splits_of("one-vs-one", 2)


def test_one_vs_rest_takes_the_largest_score() -> None:
    """The decision is the scores themselves; the first of equal ones wins."""
    scores = np.array([[0.5, -1.0, 0.2], [-3.0, -2.0, -2.0]])
    values = decision("one-vs-rest", scores, 3)
    assert values.tolist() == scores.tolist()
    assert codes_from_decision(values).tolist() == [0, 1]
