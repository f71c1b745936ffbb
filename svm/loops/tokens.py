"""Counting the tokens of training texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Indices
from svm.loops import compiled

Keys = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.int32]


@compiled
def slot_of(key: int, keys: Keys, slots: Slots) -> int:
    """Where the number of a key is, or is to be put, in a hash table with open addresses: 0 is an
    empty slot."""
    mask = len(slots) - 1
    slot = (key >> np.uint64(32)) & np.uint64(mask)
    while slots[slot] > 0 and keys[slots[slot] - 1] != key:
        slot = (slot + np.uint64(1)) & np.uint64(mask)
    return int(slot)


@compiled
def fill_slots(keys: Keys, n: int, slots: Slots) -> None:
    """Put the first n keys into an empty table."""
    for k in range(n):
        slots[slot_of(keys[k], keys, slots)] = k + 1


@compiled
def count_tokens(
    tokens: Keys,
    rows: Indices,
    slots: Slots,
    keys: Keys,
    counts: Indices,
    last: Indices,
    first: Indices,
    n: int,
) -> int:
    """Count the rows of each token; rows ascend. Of n known keys there are `counts` and the `last`
    row; new ones are added, with their `first` place among the tokens. Returns their number."""
    for i in range(len(tokens)):
        slot = slot_of(tokens[i], keys, slots)
        if slots[slot] == 0:
            keys[n], counts[n], last[n], first[n] = tokens[i], 0, -1, i
            n += 1
            slots[slot] = n
        k = slots[slot] - 1
        if last[k] != rows[i]:
            last[k] = rows[i]
            counts[k] += 1
    return n
