"""Tokens of texts: words, pairs of words, and short runs of characters inside words.

A text counts in its canonical form: Unicode's NFKC, lower case, one blank between words. A *word*
is a run of two or more characters that `\\w` matches; a *pair* is two words that follow each other.
The *characters* are the runs of 2, 3 and 4 characters inside what stands between blanks, with a
blank at both of its ends. scikit-learn has the same tokens: `TfidfVectorizer(ngram_range=(1, 2))`
and `analyzer="char_wb", ngram_range=(2, 4)`.

The key of a token is a polynomial in an odd number, modulo 2⁶⁴, with its characters as the
coefficients (M. O. Rabin, R. M. Karp 1987), so that all windows of a text are hashed by one
cumulative sum.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Indices, Mask

Keys: TypeAlias = npt.NDArray[np.uint64]
PartName: TypeAlias = Literal["words", "characters"]
PARTS: tuple[PartName, ...] = get_args(PartName)
RUNS = (2, 3, 4)
"""Characters of a run."""
SHORTEST_WORD = 2
BLANK = ord(" ")
BASE = 0x9E3779B97F4A7C15
"""⌊2⁶⁴/φ⌋, odd."""
INVERSE = pow(BASE, -1, 1 << 64)
OF_WORDS = np.uint64(0xD1B54A32D192ED03)
"""Added to the keys of words and pairs: they are other tokens than the same characters."""
UNICODE = unicodedata.unidata_version
_WORD = re.compile(r"\w+")


def canonical(text: str) -> str:
    """The form in which a text counts."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


def word_spans(text: str) -> list[tuple[int, int, str]]:
    """Where words are in a text as it came, and each in its canonical form."""
    return [(*one.span(), canonical(one.group())) for one in _WORD.finditer(text)]


@dataclass(frozen=True, slots=True)
class Found:
    """Tokens of some texts, of one length or kind."""

    keys: Keys
    """(n_tokens,)"""
    starts: Indices
    """(n_tokens,) where each begins among the characters of all texts."""
    stops: Indices
    seconds: tuple[Indices, Indices] | None = None
    """Starts and stops of the second words of pairs."""


class Characters:
    """The characters of some texts in canonical form, and the tokens that they make up.

    All texts lie in one array, each with a blank at both ends.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Texts in canonical form."""
        self.joined = f" {'  '.join(texts)} "
        self.points = np.frombuffer(self.joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        n = len(self.points)
        self._powers, inverses = _powers(n)
        terms = self.points + np.uint64(1)  # so that a NUL counts
        terms *= inverses[:n]
        self._sums = np.empty(n + 1, dtype=np.uint64)
        self._sums[0] = 0
        np.cumsum(terms, out=self._sums[1:])
        if len(texts) == 1:
            self.first = np.zeros(1, dtype=np.int64)
        else:
            lengths = np.fromiter(map(len, texts), np.int64, len(texts))
            self.first = np.cumsum(lengths + 2) - lengths - 2
        """Where each text begins, with its blank."""

    def found(self, part: PartName) -> Iterator[Found]:
        """The tokens of a part, with repetition; those of one length or kind are in order."""
        return self._words() if part == "words" else self._runs()

    def rows(self, starts: Indices) -> Indices:
        """The text in which each token begins."""
        return np.searchsorted(self.first, starts, side="right") - 1

    def of_whole_texts(self, part: PartName) -> Keys:
        """(n_texts,) the key of each text, if it is a token of the part."""
        ends = np.append(self.first[1:], len(self.points))
        keys = self._keys(self.first + 1, ends - 1)
        return keys + OF_WORDS if part == "words" else keys

    def token(self, found: Found, place: int) -> str:
        """A token as a text."""
        token = self.joined[found.starts[place] : found.stops[place]]
        if found.seconds is None:
            return token
        starts, stops = found.seconds
        return f"{token} {self.joined[starts[place] : stops[place]]}"

    def _runs(self) -> Iterator[Found]:
        solid = self.points != BLANK
        whole = solid[1:] | solid[:-1]  # of a run of two, one may be a blank …
        for length in RUNS:
            if length > RUNS[0]:  # … of a longer one the first and the last
                inner = solid[length - 2 : -1]
                whole = inner if length == RUNS[0] + 1 else whole[:-1] & inner
            starts = np.flatnonzero(whole)
            yield Found(self._keys(starts, starts + length), starts, starts + length)

    def _keys(self, starts: Indices, stops: Indices) -> Keys:
        keys = self._sums.take(stops)
        keys -= self._sums.take(starts)
        keys *= self._powers.take(stops - 1)
        return keys

    def _words(self) -> Iterator[Found]:
        edges = np.flatnonzero(np.diff(_is_word()[self.points]))
        starts, stops = edges[::2] + 1, edges[1::2] + 1  # each text begins and ends with a blank
        long = stops - starts >= SHORTEST_WORD
        starts, stops = starts[long], stops[long]
        keys = self._keys(starts, stops)
        yield Found(keys + OF_WORDS, starts, stops)
        if len(starts) < 2:
            return
        seconds = slice(1, None)
        lengths = (stops - starts)[1:]
        pairs = keys[:-1] * self._powers[lengths + 1]
        pairs += self._powers[lengths] * np.uint64(BLANK + 1)
        pairs += keys[1:]
        pairs += OF_WORDS
        firsts: slice | Indices = slice(None, -1)
        if len(self.first) > 1:
            rows = self.rows(starts)
            firsts = np.flatnonzero(rows[1:] == rows[:-1])
            seconds = firsts + 1  # type: ignore[assignment]
            pairs = pairs[firsts]
        yield Found(pairs, starts[firsts], stops[firsts], (starts[seconds], stops[seconds]))


@cache
def _is_word() -> Mask:
    """(0x110000,) whether `\\w` matches the character."""
    mask = np.zeros(0x110000, dtype=bool)
    everything = "".join(map(chr, range(0x110000)))
    for run in _WORD.finditer(everything):
        mask[run.start() : run.end()] = True
    return mask


_POWERS: list[Keys] = [np.ones(1, dtype=np.uint64)] * 2


def _powers(n: int) -> list[Keys]:
    """The powers 0 … n of the base and of its inverse."""
    if len(_POWERS[0]) <= n:
        size = 1 << (n + 1).bit_length()
        for k, base in enumerate((BASE, INVERSE)):
            powers = np.full(size, base, dtype=np.uint64)
            powers[0] = 1
            _POWERS[k] = np.cumprod(powers)
    return list(_POWERS)


WITHOUT_BLANKS = np.array(
    [
        (0x0E00, 0x0EFF),  # Thai, Lao
        (0x0F00, 0x0FFF),  # Tibetan
        (0x1000, 0x109F),  # Myanmar
        (0x1780, 0x17FF),  # Khmer
        (0x3040, 0x30FF),  # Hiragana, Katakana
        (0x3400, 0x9FFF),  # Han
        (0xF900, 0xFAFF),
        (0x20000, 0x3FFFF),
    ]
)
"""First and last characters of scripts that put no blanks between words."""


def is_without_blanks(texts: Sequence[str]) -> bool:
    """Whether most letters of texts in canonical form are of scripts without blanks."""
    points = Characters(texts).points
    letters = points[_is_word()[points]]
    low, high = WITHOUT_BLANKS.T
    places = np.searchsorted(low, letters, side="right") - 1
    n = int(np.count_nonzero((places >= 0) & (letters <= high[places])))
    return 2 * n > len(letters)
