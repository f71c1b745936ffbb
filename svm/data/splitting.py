"""Training and validation rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Indices
from svm.data.randomness import generator
from svm.errors import InvalidData


def split(
    codes: npt.NDArray[Any], fraction: float, *, stratify: bool, seed: int
) -> tuple[Indices, Indices]:
    """(training rows, validation rows), both ascending: a function of the arguments alone.

    `codes` are class numbers, (n,). `fraction` in (0, 1) of the rows are held out, the same
    share of every class if `stratify`. Raises InvalidData (`class-too-small`) if a class would have
    no row for training, or, stratified, none for validation.
    """
    random = generator("split", seed)
    held_out = np.zeros(len(codes), dtype=bool)
    if stratify:
        for code in np.unique(codes):
            members = np.flatnonzero(codes == code)
            count = held_out_rows(len(members), fraction)
            if count == 0 or count == len(members):
                raise InvalidData(
                    "class-too-small",
                    f"class number {code} has {len(members)} rows: too few to hold out "
                    f"{fraction:g} of them",
                )
            held_out[random.permutation(members)[:count]] = True
    else:
        count = min(max(1, round(fraction * len(codes))), len(codes) - 1)
        held_out[random.permutation(len(codes))[:count]] = True
        if len(np.unique(codes[~held_out])) < len(np.unique(codes)):
            raise InvalidData(
                "class-too-small", "a class has no row left to train on; stratify the split"
            )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def fold_numbers(codes: npt.NDArray[Any], n_folds: int, *, seed: int) -> Indices:
    """The fold of every row, 0 … n_folds - 1, (n,): a function of the arguments alone.

    Folds have the same size, and the same number of rows of every class, up to one row. Raises
    InvalidData (`class-too-small`) if a class has fewer rows than there are folds.
    """
    random = generator("split", seed)
    numbers = np.empty(len(codes), dtype=np.int64)
    dealt = 0
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        if len(members) < n_folds:
            raise InvalidData(
                "class-too-small",
                f"class number {code} has {len(members)} rows: too few for {n_folds} folds",
            )
        numbers[random.permutation(members)] = np.arange(dealt, dealt + len(members)) % n_folds
        dealt += len(members)
    return numbers


def held_out_rows(count: int, fraction: float) -> int:
    """How many rows of a class with `count` rows a stratified split holds out; 0 … count."""
    return round(fraction * count)
