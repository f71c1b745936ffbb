"""Codes of the texts of a block, without an object for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from service.rows.kinds.blocks.cells import WORD_BYTES, Cells, Places

Words: TypeAlias = npt.NDArray[np.uint64]
Parts: TypeAlias = list[tuple[slice | Places, Words]]
"""The first words of all cells; then which cells have a second word, and these words; …"""

MOST_WORDS = 8
"""Of a text that is remembered."""
PLACES_BITS = 18
MOST_TEXTS = 1 << 16
"""That are remembered; few of them have a place in common."""
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(WORD_BYTES + 1)], np.uint64)
_MULTIPLIERS = np.uint64(0x9E3779B97F4A7C15) ** np.arange(1, MOST_WORDS + 3, dtype=np.uint64)


class Coder:
    """Remembers the texts of some columns as words of eight bytes.

    A hash says which text a cell may have, and all words are compared. Any other cell is looked up
    in the dictionary of its column, which gives each new text the next code.
    """

    def __init__(self, lookups: Sequence[dict[str, int]]) -> None:
        self._lookups = lookups
        self._table = np.zeros(1 << PLACES_BITS, np.int32)
        """The number of a text, by the first bits of its hash. Number 0 is none."""
        self._tags = np.array([-1])
        """Length and column of each text."""
        self._words: list[Words] = []
        """First words of all texts, second ones, …"""
        self._codes = np.zeros(1, np.int64)

    def codes(self, cells: Cells, positions: Sequence[int], columns: Sequence[int]) -> Places:
        """(rows, positions): the codes of some columns, which have these lookups."""
        starts, lengths = cells.starts[:, positions].ravel(), cells.lengths[:, positions].ravel()
        column = np.tile(np.array(columns), cells.n_rows)
        tags = lengths * len(self._lookups) + column
        parts = _parts(cells.data, starts, lengths)
        hashes = tags.astype(np.uint64) * _MULTIPLIERS[0]
        for (at, words), multiplier in zip(parts, _MULTIPLIERS[2:], strict=False):
            hashes[at] += words * multiplier
        hashes = (hashes ^ (hashes >> np.uint64(32))) * _MULTIPLIERS[1]
        places = (hashes >> np.uint64(64 - PLACES_BITS)).astype(np.int64)
        texts = self._table.take(places)
        known = self._tags.take(texts) == tags
        while len(self._words) < len(parts):
            self._words.append(np.zeros(len(self._tags), np.uint64))
        for (at, words), own in zip(parts, self._words, strict=False):
            known[at] &= own.take(texts[at]) == words
        codes = self._codes.take(texts)
        first: dict[tuple[int, bytes], int] = {}
        unknown = np.flatnonzero(~known)
        where = (places.take(unknown).tolist() for places in (starts, starts + lengths, column))
        for i, start, end, number in zip(unknown.tolist(), *where, strict=True):
            text = cells.data[start:end]
            codes[i] = self._lookups[number][text.decode()]
            if len(text) <= MOST_WORDS * WORD_BYTES:
                first.setdefault((number, text), i)
        if first and len(self._tags) < MOST_TEXTS:
            new = list(first.values())
            self._table[places[new]] = np.arange(len(new)) + len(self._tags)
            self._tags = np.concatenate([self._tags, tags[new]])
            self._codes = np.concatenate([self._codes, codes[new]])
            for number, own in enumerate(self._words):
                words = np.zeros(len(tags), np.uint64)
                for at, part in parts[number : number + 1]:
                    words[at] = part
                self._words[number] = np.concatenate([own, words[new]])
        by_row: Places = codes.reshape(cells.n_rows, len(positions))
        return by_row


def _parts(data: bytes, starts: Places, lengths: Places) -> Parts:
    octets = np.frombuffer(data, "<u8")
    parts: Parts = []
    at: slice | Places = slice(None)
    first = starts // WORD_BYTES
    shift = (starts % WORD_BYTES * 8).astype(np.uint64)
    while len(first) and len(parts) < MOST_WORDS:
        low, high = octets.take(first), octets.take(first + 1)
        words = (low >> shift) | (high << np.uint64(1) << (np.uint64(63) - shift))
        parts.append((at, words & _MASKS.take(lengths, mode="clip")))
        longer = np.flatnonzero(lengths > WORD_BYTES)
        at = longer if isinstance(at, slice) else at[longer]
        first, shift, lengths = first[longer] + 1, shift[longer], lengths[longer] - WORD_BYTES
    return parts
