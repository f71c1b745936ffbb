"""Texts as outputs: TF-IDF of the tokens that training texts had.

Each part of a text (words with pairs, characters) has the norm 1, times the weight of its column:
count · (ln((1 + n) / (1 + nₜ)) + 1) of each token t that nₜ of the n training texts have, divided
by the norm of these. Tokens that no training text had are left out before.
G. Salton, C. Buckley, "Term-weighting approaches in automatic text retrieval" (1988); the smoothed
form is that of scikit-learn's `TfidfVectorizer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise, repeat
from sys import getsizeof
from typing import NamedTuple, TypeAlias

import numpy as np

from svm.data.matrices import Array, Indices, Mask, Vector
from svm.data.texts import Texts, texts_of
from svm.encoding.tokens import (
    UNICODE,
    Characters,
    Keys,
    PartName,
    pairs_of,
    pieces,
    words_of,
)

BLOCK_CHARACTERS = 1 << 13
"""Of texts whose tokens are found at a time."""
BLOCK_TEXTS = 1024
MANY = 100
"""Characters of new pieces from which on their runs are found sooner by their keys."""
FREQUENT = 1 << 12
"""Words and pairs of most training texts: these words are remembered before the first text."""
PIECES_BYTES = 1 << 23
"""Of what is remembered of pieces: if it is more, all is forgotten."""
PIECE_BYTES, CHARACTER_BYTES = 400, 20
"""About what a piece takes, and each of its characters."""
TOKEN_BYTES = 128
"""The same for a token by which its output is found."""
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
        some = [
            Characters(tokens[block]).of_whole_texts(name) for block in blocks([*map(len, tokens)])
        ]
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
    def _pieces(self) -> _Pieces:
        return _Pieces(self.parts)

    @cached_property
    def _bounds(self) -> Array:
        """The first output of each part, and their number."""
        return np.cumsum([0, *(len(part.keys) for part in self.parts)], dtype=np.int32)

    @property
    def nbytes(self) -> int:
        """Memory of what was learned."""
        return sum(map(getsizeof, (token for part in self.parts for token in part.tokens)))

    @property
    def prepared_bytes(self) -> int:
        """Memory of what texts need."""
        return self.n_outputs * TOKEN_BYTES + PIECES_BYTES + self.idf.nbytes

    def of_rows(self, X: Vector, column: int) -> Iterator[Entries]:
        """The outputs of raw rows, some rows after the other; a missing text has none."""
        for texts in blocks_of(texts_of(X), np.asarray(X)[:, column]):
            yield self.entries([text or "" for text in texts])

    def entries(self, texts: Sequence[str]) -> Entries:
        """The outputs of some texts; those of one do not depend on the others."""
        found, unknown_words = zip(*self._pieces.outputs(texts), strict=True)
        n_texts, bounds = len(texts), self._bounds
        together = np.frombuffer(bytearray().join(found), dtype=np.int32)
        lengths = [len(own) // 4 for own in found]
        start = 0
        for length in lengths:  # in a fifth of the time that all together take
            together[start : start + length].sort()
            start += length
        if n_texts > 1:
            wide = n_texts * self.n_outputs > np.iinfo(np.int32).max
            rows: Array = np.arange(n_texts + 1, dtype=np.int64 if wide else np.int32)
            rows *= self.n_outputs
            together = together + rows[:-1].repeat(lengths)
            bounds = np.add.outer(rows, bounds[:-1]).ravel()[: n_texts * (len(bounds) - 1) + 1]
        size = len(together)
        edges = np.empty(size + 1, dtype=bool)  # of equal ones
        edges[0] = edges[size] = True
        np.not_equal(together[1:], together[:-1], out=edges[1:size])
        places = edges.nonzero()[0]
        outputs = together.take(places[:-1])
        counts = places[1:] - places[:-1]
        cuts = outputs.searchsorted(bounds)  # between the parts of each text
        ends = cuts[len(self.parts) :: len(self.parts)]
        if n_texts > 1:
            outputs -= rows[:-1].repeat(np.diff(ends, prepend=0))
        values = self.idf.take(outputs)
        values *= np.log(counts) + 1.0 if self.sublinear else counts
        squares = np.empty(len(values) + 1)
        squares[-1] = 1.0  # so that the last part may be empty
        np.multiply(values, values, out=squares[:-1])
        factors = np.add.reduceat(squares, cuts)
        np.sqrt(factors, out=factors)
        np.divide(self.weight, factors, out=factors)
        values *= factors[:-1].repeat(cuts[1:] - cuts[:-1])
        return Entries(ends, outputs, counts, values, np.array(unknown_words))


_Known: TypeAlias = tuple[bytes, tuple[str, ...], int]
"""The outputs of a piece, its words, and how many of these no training text had."""


class _Pieces:
    """The outputs of what stands between blanks: texts have most of it in common, so that it is
    remembered. They are bytes of int32, which are joined sooner than arrays.

    Runs of a few new pieces are looked up as they are, those of more by their keys.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        n_outputs = sum(len(part.tokens) for part in parts)
        codes = iter(np.arange(n_outputs, dtype=np.int32).view("V4").tolist())
        tokens = {part.name: dict(zip(part.tokens, codes, strict=False)) for part in parts}
        self._has_words = "words" in tokens
        self._words, runs = tokens.get("words", {}), tokens.get("characters", {})
        self._runs: dict[str, bytes] = {}
        """With the outputs of the shorter runs with which each begins."""
        known = self._runs.get
        for run in sorted(runs, key=len):
            self._runs[run] = runs[run] + (known(run[:-1]) or known(run[:-2], b""))
        self._table = _Table(parts[-1].keys, n_outputs) if runs else None
        self._known: dict[str, _Known] = {}
        self._size = 0
        if self._words and runs:
            self._learn(
                chain.from_iterable(map(str.split, parts[0].tokens[:FREQUENT])), self._known
            )

    def outputs(self, texts: Sequence[str]) -> Iterator[tuple[bytes, int]]:
        """Those of each text, with repetition, and how many words no training text had."""
        if self._size > PIECES_BYTES:
            self._known, self._size = {}, 0
        known = self._known  # other threads may replace it
        cut = [*map(pieces, texts)]
        self._learn(chain.from_iterable(cut), known)
        for text in cut:
            if not text:
                yield b"", 0
                continue
            own, words, unknown = zip(*map(known.__getitem__, text), strict=True)
            pairs = pairs_of(chain.from_iterable(words))
            yield b"".join([*own, *map(self._words.get, pairs, repeat(b""))]), sum(unknown)

    def _learn(self, some: Iterable[str], known: dict[str, _Known]) -> None:
        new = [*set(some).difference(known)]
        for block in blocks([*map(len, new)]) if new else ():
            for piece, runs in zip(new[block], self._of_runs(new[block]), strict=True):
                words = tuple(words_of(piece)) if self._has_words else ()
                outputs = [self._words.get(word, b"") for word in words]
                known[piece] = b"".join([runs, *outputs]), words, outputs.count(b"")
                self._size += PIECE_BYTES + CHARACTER_BYTES * len(piece)

    def _of_runs(self, new: list[str]) -> Iterable[bytes]:
        """The outputs of the runs of pieces."""
        if self._table is None:
            return repeat(b"", len(new))
        return map(self._one_by_one, new) if sum(map(len, new)) < MANY else self._by_keys(new)

    def _one_by_one(self, piece: str) -> bytes:
        """By the longest known run that begins at each character."""
        known, text = self._runs.get, f" {piece} "
        return b"".join(
            known(text[k : k + 4]) or known(text[k : k + 3]) or known(text[k : k + 2], b"")
            for k in range(len(text) - 1)
        )

    def _by_keys(self, new: list[str]) -> Iterator[bytes]:
        assert self._table is not None
        characters = Characters(new)
        found = [*characters.found("characters")]
        outputs, there = self._table.outputs(np.concatenate([some.keys for some in found]))
        rows = characters.rows(np.concatenate([some.starts for some in found]).compress(there))
        data = outputs.take(rows.argsort(kind="stable")).tobytes()
        ends = (4 * np.bincount(rows, minlength=len(new)).cumsum()).tolist()
        return (data[start:end] for start, end in pairwise([0, *ends]))


class _Table:
    """Finds the keys of the last outputs."""

    def __init__(self, keys: Keys, n_outputs: int) -> None:
        order = np.argsort(keys, kind="stable").astype(np.int32)
        self._outputs = order + np.int32(n_outputs - len(keys))
        # Keys behind the last one are compared with that, and differ from it.
        self._keys = np.concatenate([keys[order], keys[order[-1:]]])
        bits = max(1, (4 * len(keys)).bit_length())
        self._shift = np.uint64(64 - bits)
        starts = np.arange(1 << bits, dtype=np.uint64) << self._shift
        self._first = np.searchsorted(self._keys[:-1], starts).astype(np.int32)

    def outputs(self, keys: Keys) -> tuple[Array, Mask]:
        """The outputs of the keys that there are, and which keys have one: a mask."""
        places = self._first.take(keys >> self._shift)
        there = self._keys.take(places)
        behind = (there < keys).nonzero()[0]
        if len(behind):
            later = self._keys[:-1].searchsorted(keys.take(behind))
            places[behind] = later
            there[behind] = self._keys.take(later)
        known = there == keys
        return self._outputs.take(places.compress(known)), known


def blocks_of(texts: Texts, cells: Vector) -> Iterator[list[str | None]]:
    """The texts of cells, some after the other; None for missing ones."""
    if len(cells) == 1 and cells[0] == cells[0]:  # a single message: in a third of the time
        yield [*texts.take([int(cells[0])])]
        return
    places = [int(cell) if cell == cell else None for cell in cells.tolist()]
    sizes = iter(texts.sizes([place for place in places if place is not None]))
    for block in blocks([0 if place is None else next(sizes) for place in places]):
        some = places[block]
        taken = iter(texts.take([place for place in some if place is not None]))
        yield [None if place is None else next(taken) for place in some]


def blocks(sizes: Sequence[int]) -> Iterator[slice]:
    """Cut texts of these sizes so that each block has few characters."""
    start = total = 0
    for k, size in enumerate(sizes):
        if k > start and (total + size > BLOCK_CHARACTERS or k - start == BLOCK_TEXTS):
            yield slice(start, k)
            start, total = k, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))
