"""Texts as outputs: TF-IDF of the tokens that training texts had.

Each part of a text (words with pairs, characters) has the norm 1, times the weight of its column:
count · (ln((1 + n) / (1 + nₜ)) + 1) of each token t that nₜ of the n training texts have, divided
by the norm of these. Tokens that no training text had are left out before.
G. Salton, C. Buckley, "Term-weighting approaches in automatic text retrieval" (1988); the smoothed
form is that of scikit-learn's `TfidfVectorizer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from sys import getsizeof
from typing import NamedTuple

import numpy as np

from svm.data.matrices import Array, Indices, Mask, Vector
from svm.data.texts import texts_of
from svm.encoding.tokens import UNICODE, Characters, Keys, PartName, canonical

BLOCK_CHARACTERS = 1 << 13
"""Of texts whose tokens are found at a time."""
BLOCK_TEXTS = 1024
READ_ROWS = 512
"""Rows whose texts are in memory at once."""
SORTS: dict[PartName, str] = {
    "words": "words and pairs of words",
    "characters": "runs of characters",
}


class Entries(NamedTuple):
    """The outputs of some texts, in CSR."""

    ends: Indices
    """(n_texts,) where the entries of each text end."""
    outputs: Array
    """Ascending in each text."""
    counts: Indices
    values: Vector
    unknown_words: Indices
    """(n_texts,) how many words of each no training text had."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Tokens of one sort, as the training texts had them."""

    name: PartName
    keys: Keys
    """(n_tokens,) of the most frequent tokens first, so that what most texts need lies together in
    memory; ascending among equally frequent ones."""
    tokens: tuple[str, ...]
    """As texts, in this order."""
    counts: Indices
    """(n_tokens,) how many training texts have each."""

    @classmethod
    def of(cls, name: PartName, tokens: tuple[str, ...], counts: Indices) -> Part:
        """With the keys of the tokens. Raises ValueError if they are not in order, each once."""
        some = [Characters(tokens[block]).of_whole_texts(name) for block in blocks(tokens)]
        keys = np.concatenate([*some, np.empty(0, dtype=np.uint64)])
        rarer, later = counts[1:] < counts[:-1], keys[1:] > keys[:-1]
        ordered = rarer | ((counts[1:] == counts[:-1]) & later)
        if not ordered.all() or len(set(tokens)) < len(tokens):
            raise ValueError("the tokens are not in order, each once")
        return cls(name=name, keys=keys, tokens=tokens, counts=counts)


@dataclass(frozen=True, kw_only=True)
class TextEncoder:
    """What was learned from the training texts of a column."""

    parts: tuple[Part, ...]
    n_texts: int
    """In training, without missing ones."""
    sublinear: bool = False
    weight: float = 1.0
    unicode: str = UNICODE
    """The version whose characters and words the tokens follow."""

    @property
    def n_outputs(self) -> int:
        return sum(len(part.keys) for part in self.parts)

    @property
    def described(self) -> str:
        """The tokens in a few words."""
        counted = [f"{len(part.keys):,} {SORTS[part.name]}" for part in self.parts]
        weight = "" if self.weight == 1.0 else f", with the weight {self.weight:g}"
        return f"{' and '.join(counted)} of {self.n_texts:,} texts{weight}"

    @property
    def entries_per_text(self) -> int:
        """On average, in training."""
        total = sum(int(part.counts.sum()) for part in self.parts)
        return -(-total // max(1, self.n_texts))

    @cached_property
    def names(self) -> list[str]:
        """Of the outputs: characters are quoted."""
        return [
            token if part.name == "words" else f'"{token}"'
            for part in self.parts
            for token in part.tokens
        ]

    def token(self, output: int) -> tuple[PartName, str]:
        """That of an output, and the part to which it belongs."""
        for part in self.parts:
            if output < len(part.keys):
                return part.name, part.tokens[output]
            output -= len(part.keys)
        raise IndexError("the text has no such output")

    @cached_property
    def idf(self) -> Vector:
        """(n_outputs,) the factor of each count."""
        counts = np.concatenate([*(part.counts for part in self.parts), np.empty(0, np.int64)])
        return np.log((1.0 + self.n_texts) / (1.0 + counts)) + 1.0

    @cached_property
    def _table(self) -> _Table:
        return _Table(np.concatenate([*(part.keys for part in self.parts), np.empty(0, np.uint64)]))

    @property
    def nbytes(self) -> int:
        """Memory of what was learned; the arrays are those of `prepared_bytes`."""
        return sum(map(getsizeof, (token for part in self.parts for token in part.tokens)))

    @property
    def prepared_bytes(self) -> int:
        """Memory of what the first text needs."""
        return self._table.nbytes + self.idf.nbytes

    def of_rows(self, X: Vector, column: int) -> Iterator[Entries]:
        """The outputs of raw rows, some rows after the other; a missing text has none."""
        for texts in _blocks_of(X, column):
            yield self.entries(texts)

    def entries(self, texts: Sequence[str]) -> Entries:
        """The outputs of some texts; those of one do not depend on the others."""
        characters = Characters([canonical(text) for text in texts])
        n_texts, n_outputs = len(texts), self.n_outputs
        tokens = [found for part in self.parts for found in characters.found(part.name)]
        together, known = self._table.outputs(np.concatenate([found.keys for found in tokens]))
        if n_texts > 1:
            starts = np.concatenate([found.starts for found in tokens])
            rows = characters.rows(starts.compress(known))
            wide = n_texts * n_outputs > np.iinfo(np.int32).max
            together = together.astype(np.int64) if wide else together
            together += (rows * n_outputs).astype(together.dtype)
        unknown_words = np.zeros(n_texts, dtype=np.int64)
        if self.parts and self.parts[0].name == "words":
            unknown = ~known[: len(tokens[0].keys)]
            if n_texts > 1:
                rows = characters.rows(tokens[0].starts.compress(unknown))
                unknown_words = np.bincount(rows, minlength=n_texts)
            else:
                unknown_words[0] = np.count_nonzero(unknown)
        together.sort()
        size = len(together)
        last = np.empty(size, dtype=bool)  # of equal ones
        last[size - 1 :] = True
        np.not_equal(together[1:], together[:-1], out=last[:-1])
        outputs = together.compress(last)
        counts = last.nonzero()[0]
        counts[1:] -= counts[:-1].copy()
        counts[:1] += 1
        n_entries = len(outputs)
        ends = np.array([n_entries])
        if n_texts > 1:
            rows, outputs = np.divmod(outputs, n_outputs)
            ends = rows.searchsorted(np.arange(n_texts), side="right")
        values = counts.astype(np.float64)
        if self.sublinear:
            values = np.log(values) + 1.0
        values *= self.idf.take(outputs)
        if n_entries:
            self._normalize(values, outputs, ends)
        return Entries(ends, outputs, counts, values, unknown_words)

    def _normalize(self, values: Vector, outputs: Indices, ends: Indices) -> None:
        """Give each part of each text its norm."""
        size = len(self.parts[0].keys)
        later = outputs >= size
        later[1:] &= ~later[:-1]  # where the second part of a text begins
        later[0] = True
        if len(ends) > 1:
            later[ends[:-1].compress(ends[1:] > ends[:-1])] = True
        starts = later.nonzero()[0]
        factors = np.add.reduceat(values * values, starts)
        np.sqrt(factors, out=factors)
        np.divide(self.weight, factors, out=factors)
        places = later.cumsum()
        places -= 1
        values *= factors.take(places)


class _Table:
    """Finds keys: the place of each among all, sorted part by part."""

    def __init__(self, keys: Keys) -> None:
        self._order = np.argsort(keys, kind="stable").astype(np.int32)
        # Keys behind the last one are compared with that, and differ from it.
        self._keys = np.concatenate([keys[self._order], keys[self._order[-1:]]])
        bits = max(1, (4 * len(keys)).bit_length())
        self._shift = np.uint64(64 - bits)
        starts = np.arange(1 << bits, dtype=np.uint64) << self._shift
        self._first = np.searchsorted(self._keys[:-1], starts).astype(np.int32)

    @property
    def nbytes(self) -> int:
        return self._order.nbytes + self._keys.nbytes + self._first.nbytes

    def outputs(self, keys: Keys) -> tuple[Array, Mask]:
        """The outputs of the keys that there are, and which keys have one: a mask."""
        if not len(self._order):
            return self._order, np.zeros(len(keys), dtype=bool)
        places = self._first.take(keys >> self._shift)
        there = self._keys.take(places)
        behind = (there < keys).nonzero()[0]
        if len(behind):
            later = self._keys[:-1].searchsorted(keys.take(behind))
            places[behind] = later
            there[behind] = self._keys.take(later)
        known = there == keys
        return self._order.take(places.compress(known)), known


def _blocks_of(X: Vector, column: int) -> Iterator[list[str]]:
    """The texts of raw rows, `""` for missing ones."""
    for start in range(0, len(X), READ_ROWS):
        cells = np.asarray(X[start : start + READ_ROWS, column])
        there = ~np.isnan(cells)
        found = iter(texts_of(X).take(cells[there].astype(np.int64).tolist()))
        texts = [next(found) if one else "" for one in there.tolist()]
        yield from (texts[block] for block in blocks(texts))


def blocks(texts: Sequence[str]) -> Iterator[slice]:
    """Cut texts so that each block has few characters."""
    start = size = 0
    for k, text in enumerate(texts):
        if k > start and (size + len(text) > BLOCK_CHARACTERS or k - start == BLOCK_TEXTS):
            yield slice(start, k)
            start, size = k, 0
        size += len(text)
    if start < len(texts):
        yield slice(start, len(texts))
