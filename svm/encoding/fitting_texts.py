"""Learning the tokens of a column of texts from the training rows alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from svm.data.matrices import Array, Indices, Vector
from svm.data.stored_rows import Rows, StoredRows, pieces
from svm.data.texts import texts_of
from svm.encoding.encoder import Encoding
from svm.encoding.texts import Part, TextEncoder, blocks_of
from svm.encoding.tokens import (
    Characters,
    Keys,
    PartName,
    canonical,
    is_without_blanks,
)

SAMPLE = 4096
"""Texts that decide which tokens there are."""
BEGINNING = 1000
"""Characters of each of these that are looked at."""
MOST_TOKENS = 1 << 18
"""With more tokens in a part, those of a single text are left out: most are, they help where texts
are few, and each class has a weight for each."""
MANY_CHARACTERS = 1 << 24
"""Of all texts: if there are more, tokens of a single text are found before others are counted.
They would take gigabytes."""
SHORT = 200
"""Characters of the median text up to which runs of characters help."""


def fit_text(encoding: Encoding, X: Rows, column: int, name: str) -> TextEncoder:
    """The tokens of a column of raw rows, in memory or in files: the bits are the same."""
    sample = np.unique(np.linspace(0, X.shape[0] - 1, min(SAMPLE, X.shape[0])).astype(np.int64))
    texts = [text for some in _texts(X, column, sample) for text in some]
    counters = [_Counter(part) for part in _chosen(encoding, texts)]
    if sum(map(len, texts)) * (X.shape[0] / len(sample)) > MANY_CHARACTERS:
        for characters in _blocks(X, column):
            for counter in counters:
                counter.meet(characters)
    n_texts = 0
    for characters in _blocks(X, column):
        for counter in counters:
            counter.add(characters, n_texts)
        n_texts += len(characters.first)
    return TextEncoder(
        parts=tuple(counter.part(encoding.min_count) for counter in counters),
        n_texts=n_texts,
        sublinear=encoding.sublinear,
        weight=encoding.text_weights.get(name, 1.0),
    )


def _chosen(encoding: Encoding, texts: list[str]) -> tuple[PartName, ...]:
    """The parts, by a sample of the texts."""
    named: dict[str, tuple[PartName, ...]] = {
        "words": ("words",),
        "characters": ("characters",),
        "both": ("words", "characters"),
    }
    if encoding.tokens in named:
        return named[encoding.tokens]
    if texts and is_without_blanks([canonical(text[:BEGINNING]) for text in texts]):
        return named["characters"]
    short = not texts or np.median(list(map(len, texts))) <= SHORT
    return named["both" if short else "words"]


def _texts(X: Rows, column: int, rows: Indices | None = None) -> Iterator[list[str]]:
    """The texts of all rows, or of some, that have one."""
    for piece in _in_memory(X, rows):
        for texts in blocks_of(texts_of(piece), np.asarray(piece)[:, column]):
            yield [text for text in texts if text is not None]


def _blocks(X: Rows, column: int) -> Iterator[Characters]:
    for texts in _texts(X, column):
        if texts:
            yield Characters(list(map(canonical, texts)))


def _in_memory(X: Rows, rows: Indices | None) -> Iterator[Vector]:
    if isinstance(X, StoredRows) or rows is not None:
        yield from pieces(X, rows=rows)  # type: ignore[misc]
    else:
        yield X  # type: ignore[misc]


def _grown(array: Array, size: int) -> Array:
    grown = np.empty(size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown


class _Counter:
    """The tokens of one part so far."""

    def __init__(self, name: PartName) -> None:
        self._name = name
        self._n = 0
        self._tokens: list[str] = []
        self._slots = np.zeros(1 << 12, dtype=np.int32)
        self._keys: Keys = np.empty(0, dtype=np.uint64)
        self._counts = self._last = self._first = np.empty(0, dtype=np.int64)
        self._met = np.empty(0, dtype=np.uint8)
        """How often tokens were met, by a part of their keys; empty if that is not known."""
        self._n_met = 0

    @property
    def _leaves_out(self) -> bool:
        """Whether tokens of a single text are known to be left out."""
        return self._n_met > MOST_TOKENS

    def meet(self, characters: Characters) -> None:
        """Note the tokens of some texts; all are noted before the first is counted."""
        from svm.loops.tokens import BYTES_MET, meet_tokens

        if not len(self._met):
            self._met = np.zeros(BYTES_MET, dtype=np.uint8)
        for found in characters.found(self._name):
            self._n_met += meet_tokens(found.keys, self._met)

    def add(self, characters: Characters, n_before: int) -> None:
        """Count the tokens of some texts, which `n_before` others precede."""
        from svm.loops.tokens import count_tokens

        met = self._met if self._leaves_out else self._met[:0]
        for found in characters.found(self._name):
            self._grow(self._n + len(found.keys))
            rows = characters.rows(found.starts) + n_before
            known, arrays = self._n, (self._keys, self._counts, self._last, self._first)
            self._n = count_tokens(found.keys, rows, met, self._slots, *arrays, known)
            self._tokens += characters.texts(found, self._first[known : self._n])

    def _grow(self, n: int) -> None:
        from svm.loops.tokens import fill_slots

        if n > len(self._keys):
            size = 1 << n.bit_length()
            self._keys = _grown(self._keys[: self._n], size)
            self._counts = _grown(self._counts[: self._n], size)
            self._last = _grown(self._last[: self._n], size)
            self._first = _grown(self._first[: self._n], size)
        if 2 * n > len(self._slots):
            self._slots = np.zeros(2 << n.bit_length(), dtype=np.int32)
            fill_slots(self._keys, self._n, self._slots)

    def part(self, least: int) -> Part:
        """The tokens of at least this many texts; of very many tokens, of at least two."""
        counts = self._counts[: self._n]
        if self._leaves_out or np.count_nonzero(counts >= least) > MOST_TOKENS:
            least = max(least, 2)
        kept = np.flatnonzero(counts >= least)
        order = kept[np.lexsort((self._keys[kept], -self._counts[kept]))]
        return Part(
            name=self._name,
            keys=self._keys[order],
            tokens=tuple(self._tokens[place] for place in order.tolist()),
            counts=self._counts[order],
        )
