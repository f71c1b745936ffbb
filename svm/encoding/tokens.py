"""Tokens of texts: words, pairs of words, and short runs of characters inside words.

A text counts in its canonical form: Unicode's NFKC, lower case, one blank between words. A *word*
is a run of two or more characters that `\\w` matches; a *pair* is two words that follow each other.
The *characters* are the runs of 2, 3 and 4 characters inside what stands between blanks, with a
blank at both of its ends. scikit-learn has the same tokens: `TfidfVectorizer(ngram_range=(1, 2))`
and `analyzer="char_wb", ngram_range=(2, 4)`.

The key of a token is a polynomial in an odd number, modulo 2⁶⁴, with its characters as the
coefficients (M. O. Rabin, R. M. Karp 1987), so that all windows of a text are hashed by one
cumulative sum. There is no term of degree 0: the last character, too, moves the highest bits, by
which keys are found. Keys serve many characters at a time, and the training. Of single texts, words
and pairs and the runs of a few new pieces are looked up as they are; tests compare both ways.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

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
_TOKEN = re.compile(rf"\w{{{SHORTEST_WORD},}}")
AFTER_WORDS = 0x40000
"""No later character of Unicode is part of a word."""


def pieces(text: str) -> list[str]:
    """What stands between blanks, in the form in which a text counts."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).lower().split()


def words_of(piece: str) -> list[str]:
    """The words in a piece."""
    return _TOKEN.findall(piece)


def pairs_of(words: Iterable[str]) -> Iterator[str]:
    """The pairs of the words of a text, which are in order."""
    return map(" ".join, pairwise(words))


def canonical(text: str) -> str:
    """The form in which a text counts."""
    return " ".join(pieces(text))


def word_spans(text: str) -> list[tuple[int, int, str]]:
    """Where words are in a text as it came, with their accents, and each in its canonical form."""
    starts = [i for i, one in enumerate(text) if i == 0 or not _joins(one)]
    places = list(pairwise([*starts, len(text)]))
    forms = [unicodedata.normalize("NFKC", text[start:end]) for start, end in places]
    sources = [place for place, form in zip(places, forms, strict=True) for _ in form.lower()]
    spans: list[tuple[int, int, str]] = []
    for word in _WORD.finditer("".join(forms).lower()):
        start, end = sources[word.start()][0], sources[word.end() - 1][1]
        if not spans or start >= spans[-1][1]:  # a fraction has two words in one character
            spans.append((start, end, word.group()))
    return spans


def _joins(character: str) -> bool:
    """Whether a character is part of the one before it: a mark, or a later part of a syllable."""
    if character < "\u0300":
        return False
    return unicodedata.category(character)[0] == "M" or "\u1160" <= character <= "\u11ff"


@dataclass(frozen=True, slots=True)
class Found:
    """Tokens of some texts, of one length or kind."""

    keys: Keys
    """(n_tokens,)"""
    places: Indices | Mask
    """Where each begins among the characters of all texts: (n_tokens,) positions, or a mask."""
    lengths: int | Indices
    """How many characters each has, (n_tokens,) if not all as many."""
    seconds: tuple[Indices, Indices] | None = None
    """Where the second words of pairs begin, and their lengths."""

    def only(self, kept: Mask) -> Found:
        """Some of the pairs."""
        assert self.seconds is not None
        assert not isinstance(self.lengths, int)
        starts, lengths = self.seconds
        seconds = starts[kept], lengths[kept]
        return Found(self.keys[kept], self.places[kept], self.lengths[kept], seconds)

    @property
    def starts(self) -> Indices:
        """(n_tokens,) where each begins."""
        places: Any = self.places
        starts: Indices = np.flatnonzero(places) if places.dtype == bool else places
        return starts


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
        return self._rows.take(starts)

    @cached_property
    def _rows(self) -> Indices:
        sizes = np.diff(self.first, append=len(self.points))
        return np.repeat(np.arange(len(sizes)), sizes)

    def of_whole_texts(self, part: PartName) -> Keys:
        """(n_texts,) the key of each text, if it is a token of the part."""
        ends = np.append(self.first[1:], len(self.points))
        keys = self._keys(self.first + 1, ends - 1)
        return keys + OF_WORDS if part == "words" else keys

    def texts(self, found: Found, numbers: Indices) -> list[str]:
        """Some of the tokens as texts."""
        tokens = self._cut(found.starts, found.lengths, numbers)
        if found.seconds is not None:
            seconds = self._cut(*found.seconds, numbers)
            return [f"{one} {other}" for one, other in zip(tokens, seconds, strict=True)]
        return tokens

    def _cut(self, starts: Indices, lengths: int | Indices, numbers: Indices) -> list[str]:
        first = starts[numbers]
        stops = first + (lengths if isinstance(lengths, int) else lengths[numbers])
        bounds = zip(first.tolist(), stops.tolist(), strict=True)
        return [self.joined[start:stop] for start, stop in bounds]

    def _runs(self) -> Iterator[Found]:
        solid = self.points != BLANK
        whole = solid[1:] | solid[:-1]  # of a run of two, one may be a blank …
        for length in RUNS:
            if length > RUNS[0]:  # … of a longer one the first and the last
                inner = solid[length - 2 : -1]
                whole = inner if length == RUNS[0] + 1 else whole[:-1] & inner
            keys = self._sums[length:] - self._sums[:-length]
            keys *= self._powers[length : len(self.points) + 1]
            yield Found(keys.compress(whole), whole, length)

    def _keys(self, starts: Indices, stops: Indices) -> Keys:
        keys = self._sums.take(stops)
        keys -= self._sums.take(starts)
        keys *= self._powers.take(stops)
        return keys

    def _words(self) -> Iterator[Found]:
        word = are_of_words(self.points)
        edges = (word[1:] != word[:-1]).nonzero()[0]
        before, last = edges[::2], edges[1::2]  # each text begins and ends with a blank
        lengths = last - before
        short = lengths < SHORTEST_WORD
        if short.any():
            before, last, lengths = before[~short], last[~short], lengths[~short]
        starts = before + 1
        keys = self._keys(starts, last + 1)
        yield Found(keys + OF_WORDS, starts, lengths)
        if len(starts) < 2:
            return
        pairs = keys[:-1] + np.uint64(BLANK + 1)
        pairs *= self._powers.take(lengths[1:] + 1)
        pairs += keys[1:]
        pairs += OF_WORDS
        found = Found(pairs, starts[:-1], lengths[:-1], (starts[1:], lengths[1:]))
        if len(self.first) > 1:
            rows = self.rows(starts)
            found = found.only(rows[1:] == rows[:-1])
        yield found


def are_of_words(points: npt.NDArray[np.uint32]) -> Mask:
    """Whether `\\w` matches each of these characters."""
    return _is_word().take(points, mode="clip")


@cache
def _is_word() -> Mask:
    """(AFTER_WORDS + 1,) the same for every character."""
    some = map(chr, range(AFTER_WORDS + 1))
    mask = np.fromiter(map(str.isalnum, some), bool, AFTER_WORDS + 1)
    mask[ord("_")] = True
    return mask


_POWERS = [(np.ones(1, dtype=np.uint64),) * 2]


def _powers(n: int) -> tuple[Keys, Keys]:
    """The powers 0 … n of the base and of its inverse; threads see both or none of them grown."""
    powers = _POWERS[0]
    if len(powers[0]) <= n:
        factors = np.full((2, 1 << (n + 1).bit_length()), [[BASE], [INVERSE]], dtype=np.uint64)
        factors[:, 0] = 1
        one, other = np.cumprod(factors, axis=1)
        powers = _POWERS[0] = one, other
    return powers


WITHOUT_BLANKS = re.compile(
    "["
    "\u0e00-\u0fff"  # Thai, Lao, Tibetan
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3040-\u30ff"  # Hiragana, Katakana
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "]+"
)
"""Characters of scripts that put no blanks between words."""


def is_without_blanks(texts: Iterable[str]) -> bool:
    """Whether most letters of texts in canonical form are of scripts without blanks."""
    n = n_letters = 0
    for text in texts:
        letters = "".join(_WORD.findall(text))
        n_letters += len(letters)
        n += sum(map(len, WITHOUT_BLANKS.findall(letters)))
    return 2 * n > n_letters
