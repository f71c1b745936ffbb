"""Counting the tokens of training texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Indices
from svm.loops import compiled

Keys = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.int32]
Met = npt.NDArray[np.uint8]
BYTES_MET = 1 << 26
"""Of which each has four numbers of two bits."""
PLACE_BITS = np.uint64(64 - 28)
FOUR, TWO, THREE = np.uint64(4), np.uint64(2), np.uint64(3)


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
def times_met(key: int, met: Met) -> int:
    """0, 1, or 2 for more often; that of all keys with the same first bits."""
    place = key >> PLACE_BITS
    return int((met[place // FOUR] >> (TWO * (place % FOUR))) & THREE)


@compiled
def meet_tokens(tokens: Keys, met: Met) -> int:
    """Note that these were met. Returns how many places were not before."""
    n = 0
    for key in tokens:
        times = times_met(key, met)
        n += times == 0
        if times < 2:
            place = key >> PLACE_BITS
            met[place // FOUR] += np.uint8(1) << np.uint8(TWO * (place % FOUR))
    return n


@compiled
def count_tokens(
    tokens: Keys,
    rows: Indices,
    met: Met,
    slots: Slots,
    keys: Keys,
    counts: Indices,
    last: Indices,
    first: Indices,
    n: int,
) -> int:
    """Count the rows of each token, if it was `met` twice or that is not known; rows ascend. Of n
    known keys there are `counts` and the `last` row; new ones are added, with their `first` place
    among the tokens. Returns their number."""
    for i in range(len(tokens)):
        if len(met) and times_met(tokens[i], met) < 2:
            continue
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
