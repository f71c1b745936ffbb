"""Training and validation rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from svm.data.splitting import Apart, fold_numbers, folds, held_out_rows, split
from svm.errors import InvalidData
from tests.svm.cases.strategies import PROPERTY


@PROPERTY
@given(
    counts=st.lists(st.integers(2, 30), min_size=1, max_size=5),
    fraction=st.floats(0.05, 0.95),
    stratify=st.booleans(),
    seed=st.integers(0, 2**63 - 1),
)
def test_split_parts_all_rows(
    counts: list[int], fraction: float, stratify: bool, seed: int
) -> None:
    """Every row is in one part, both ascending, and classes in proportion if stratified; equal
    arguments give equal rows."""
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    try:
        training, held_out = split(codes, fraction, stratify=stratify, seed=seed)
    except InvalidData:
        assume(False)
    assert sorted([*training, *held_out]) == list(range(len(codes)))
    assert (np.diff(training) > 0).all()
    assert (np.diff(held_out) > 0).all()
    assert set(codes[training]) == set(codes)
    if stratify:
        for code, count in enumerate(counts):
            expected = held_out_rows(count, fraction)
            assert (codes[held_out] == code).sum() == expected
            assert abs(expected - fraction * count) <= 0.5 or expected == count - 1
    else:
        assert len(held_out) == min(max(1, round(fraction * len(codes))), len(codes) - 1)
    again = split(codes, fraction, stratify=stratify, seed=seed)
    assert (again[0] == training).all()
    assert (again[1] == held_out).all()


@PROPERTY
@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    n_folds=st.integers(2, 12),
    seed=st.integers(0, 2**63 - 1),
)
def test_folds_share_every_class(counts: list[int], n_folds: int, seed: int) -> None:
    """Each fold has its share of all rows and of each class, up to one row; the only row of a class
    is in none; equal arguments give equal folds."""
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    counts = [count if count > 1 else 0 for count in counts]
    if sum(counts) < n_folds:
        with pytest.raises(InvalidData, match="too few") as caught:
            fold_numbers(codes, n_folds, seed=seed)
        assert caught.value.code == "class-too-small"
        return
    numbers = fold_numbers(codes, n_folds, seed=seed)
    for members in (numbers, *(numbers[codes == code] for code in range(len(counts)))):
        sizes = np.bincount(members[members >= 0], minlength=n_folds)
        assert len(sizes) == n_folds
        assert sizes.max() - sizes.min() <= 1
    assert np.bincount(codes[numbers >= 0], minlength=len(counts)).tolist() == counts
    assert (fold_numbers(codes, n_folds, seed=seed) == numbers).all()


def test_seeds_give_different_folds() -> None:
    """Every seed gives other folds."""
    codes = np.arange(40) % 2
    assert len({tuple(fold_numbers(codes, 5, seed=seed)) for seed in range(40)}) == 40


@pytest.mark.parametrize("stratify", [True, False])
def test_seeds_give_different_rows(stratify: bool) -> None:
    """Every seed gives another split, and over many seeds every row is held out."""
    codes = np.arange(40) % 2
    seen = [split(codes, 0.25, stratify=stratify, seed=seed)[1] for seed in range(40)]
    assert len({tuple(rows) for rows in seen}) == 40
    assert set(np.concatenate(seen)) == set(range(40))


@pytest.mark.parametrize(
    ("counts", "fraction", "stratify"),
    [
        ([2, 1], 0.2, True),  # nothing to hold out
        ([1, 1], 0.5, False),  # one of the two classes has no row left
        ([50, 1], 0.99, False),
    ],
)
def test_class_too_small(counts: list[int], fraction: float, stratify: bool) -> None:
    """No class may be missing in the training rows, and some rows have to be held out."""
    codes = np.repeat(np.arange(len(counts)), counts)
    with pytest.raises(InvalidData, match="class") as caught:
        split(codes, fraction, stratify=stratify, seed=0)
    assert caught.value.code == "class-too-small"


def test_other_random_streams_are_not_the_splits() -> None:
    """A solver's permutation under the same seed is not the order of the split."""
    codes = np.zeros(1000, dtype=np.int64)
    held_out = split(codes, 0.5, stratify=False, seed=3)[1]
    generator = np.random.Generator(np.random.Philox(key=np.array([3, 0], dtype=np.uint64)))
    assert set(held_out) != set(generator.permutation(1000)[:500])


SPLITS = st.sampled_from(["groups", "times", "both"])


@PROPERTY
@given(
    what=SPLITS,
    seed=st.integers(0, 2**32 - 1),
    n_folds=st.integers(1, 7),
    gap=st.sampled_from([0.0, 2.0]),
)
def test_groups_and_times_stay_apart(what: str, seed: int, n_folds: int, gap: float) -> None:
    """No group is on both sides, and no training row is of the future or the gap; every training
    has all classes; of groups, each fold has its share of every class up to the largest group."""
    random = np.random.default_rng(seed)
    n, n_classes, n_groups = (int(random.integers(*ends)) for ends in ((5, 300), (1, 6), (1, 40)))
    codes = random.choice(n_classes, n, p=random.dirichlet(np.ones(n_classes)))
    few = random.dirichlet(np.full(n_groups, random.choice([0.2, 1.0, 10.0])))
    groups = random.choice(n_groups, n, p=few) * random.choice([1, n_classes]) + codes * (seed % 2)
    times = random.integers(0, random.choice([3, 20, 1000]), n).astype(np.float64)
    apart = Apart(None if what == "times" else groups, None if what == "groups" else times, gap)
    try:
        if n_folds == 1:
            pairs = [split(codes, 0.3, stratify=bool(seed % 3), seed=seed, apart=apart)]
        else:
            pairs = folds(codes, n_folds, seed=seed, apart=apart)
    except InvalidData as error:
        assume(error.code != "not-separable")
        raise
    assert len(pairs) in range(1, n_folds + 1)
    for training, held_out in pairs:
        assert len(held_out) > 0
        assert not set(training) & set(held_out)
        assert set(codes[training]) == set(codes)
        if apart.groups is not None:
            assert not set(groups[training]) & set(groups[held_out])
        if apart.times is not None:
            first, last = times[held_out].min(), times[training].max()
            assert last < first
            assert last <= first - gap
    if what == "groups" and len(pairs) == n_folds > 1:
        measured = np.concatenate([held_out for _, held_out in pairs])
        counts = np.zeros((groups.max() + 1, n_classes))
        np.add.at(counts, (groups, codes), 1)
        share = np.bincount(codes[measured], minlength=n_classes) / n_folds
        for _, held_out in pairs:
            own = np.bincount(codes[held_out], minlength=n_classes)
            assert np.abs(own - share).max() <= counts.max()


def test_splits_by_time_hold_out_the_last_rows() -> None:
    """Rows of equal time stay together, and folds go forward."""
    times = np.repeat(np.arange(10.0), 10)
    codes = np.tile([0, 1], 50)
    training, held_out = split(codes, 0.2, stratify=True, seed=0, apart=Apart(times=times))
    assert (times[training] < 8).all()
    assert (times[held_out] >= 8).all()
    assert len(training) + len(held_out) == 100
    pairs = folds(codes, 4, seed=0, apart=Apart(times=times))
    assert [len(training) for training, _ in pairs] == [20, 40, 60, 80]
    assert [len(held_out) for _, held_out in pairs] == [20, 20, 20, 20]
