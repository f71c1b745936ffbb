"""Training and validation rows."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Array, Indices
from svm.data.randomness import generator
from svm.errors import InvalidData


def split(codes: Array, fraction: float, *, stratify: bool, seed: int) -> tuple[Indices, Indices]:
    """(training rows, validation rows), both ascending: a function of the arguments alone.

    `codes` are class numbers, (n,). `fraction` in (0, 1) of the rows are held out, the same
    share of every class if `stratify`: of a small class that may be none. Raises InvalidData
    (`class-too-small`) if a class would have no row for training, or no row is held out.
    """
    random = generator("split", seed)
    held_out = np.zeros(len(codes), dtype=bool)
    if stratify:
        for code in np.unique(codes):
            members = np.flatnonzero(codes == code)
            count = held_out_rows(len(members), fraction)
            held_out[random.permutation(members)[:count]] = True
        if not held_out.any():
            message = f"every class has too few rows to hold out {fraction:g} of them"
            raise InvalidData("class-too-small", message)
    else:
        count = min(max(1, round(fraction * len(codes))), len(codes) - 1)
        held_out[random.permutation(len(codes))[:count]] = True
        if len(np.unique(codes[~held_out])) < len(np.unique(codes)):
            raise InvalidData(
                "class-too-small", "a class has no row left to train on; stratify the split"
            )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def fold_numbers(codes: Array, n_folds: int, *, seed: int) -> Indices:
    """The fold of every row, 0 … n_folds - 1, (n,): a function of the arguments alone.

    Folds have the same size, and the same number of rows of every class, up to one row. The only
    row of a class is in no fold, -1: it is always trained on. Raises InvalidData
    (`class-too-small`) if a fold would be empty.
    """
    random = generator("split", seed)
    numbers = np.full(len(codes), -1)
    dealt = 0
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        if len(members) == 1:
            continue
        numbers[random.permutation(members)] = np.arange(dealt, dealt + len(members)) % n_folds
        dealt += len(members)
    if dealt < n_folds:
        raise InvalidData("class-too-small", f"the classes have too few rows for {n_folds} folds")
    return numbers


def class_groups(n_classes: int, n_groups: int, *, seed: int) -> Indices:
    """The group of every class, 0 … n_groups - 1, (n_classes,): a function of the arguments alone.
    Groups have the same number of classes, up to one."""
    groups = np.empty(n_classes, np.int64)
    groups[generator("classes", seed).permutation(n_classes)] = np.arange(n_classes) % n_groups
    return groups


def held_out_rows(count: int, fraction: float) -> int:
    """How many rows of a class with `count` rows a stratified split holds out; one is left."""
    return min(round(fraction * count), count - 1)
