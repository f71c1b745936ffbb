"""A column of texts: each cell is kept as it came, however many and however long they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from service.rows.cell_faults import CellFault, fault_of_free_text
from service.rows.cell_texts.number_text import BLANKS, is_blank, level_of
from service.rows.kinds.gathering import Values, Words
from svm.encoding.tokens import WITHOUT_BLANKS

TEXT_HINT = "correct the cell; if the column is no feature, ignore it by `schema`"
ONE_VALUE = frozenset({str, int, float, bool, type(None)})
SENTENCE = 40
"""Characters of a level, on average, of sentences."""
WORDS_OF_SENTENCE, WORDS_OF_NAMES = 3, 1.5
"""On average: more are rather sentences, as many are names whose words may say something."""
MOST_CAPITALIZED = 0.7
"""A larger share of capitalized words is that of names and titles."""
_WORDS = re.compile(r"(?<!\S)\W*([^\W\d_]{2,})")
"""Each begins what stands between blanks: an address of a page is one."""


class FreeTexts:
    """Takes cells as texts, which `taken` gives, and gives each its position among those of the
    column."""

    mark = None
    """A text has no decimal mark."""
    n_texts = text_bytes = 0
    """It keeps none."""

    def __init__(self, words: Words, longest: int, *, typed: bool) -> None:
        """`words`: those for missing cells that the caller names. `longest`: in bytes. `typed`: the
        cells are values of JSON; numbers and booleans count as their texts."""
        self.words, self.longest, self.typed = words, longest, typed
        self.n_missing = 0
        self.missing_words: set[str] = set()
        self.n_wrong = 0
        self._n_taken = 0
        self._taken: list[bytes] = []

    def add(self, cells: Sequence[Any]) -> Values:
        """NaN for missing cells."""
        values = np.full(len(cells), np.nan)
        given = [i for i, cell in enumerate(cells) if not self._is_missing(cell)]
        texts = [_text(cells[i]).encode() for i in given]
        long = max(map(len, texts), default=0) > self.longest
        if (
            long
            or any(b"\0" in text for text in texts)
            or not ONE_VALUE.issuperset(map(type, cells))
        ):
            self.n_wrong += sum(self.fault(cells[i]) is not None for i in given)
        values[given] = np.arange(self._n_taken, self._n_taken + len(given))
        self._n_taken += len(given)
        self.n_missing += len(cells) - len(given)
        self._taken += texts
        return values

    def taken(self) -> list[bytes]:
        """The texts since the last time, in UTF-8."""
        texts, self._taken = self._taken, []
        return texts

    def forget(self) -> None:
        """Nothing is in memory."""

    def _is_missing(self, cell: Any) -> bool:
        if type(cell) is not str:
            return cell is None
        if is_blank(cell):
            return True
        if not self.words:
            return False
        word = cell.strip(BLANKS)
        if word in self.words:
            self.missing_words.add(word)
            return True
        return False

    def is_wrong(self, cell: Any, texts: Iterable[str] | None) -> bool:
        """Whether a cell is a mistake."""
        return self.fault(cell) is not None

    def fault(self, cell: Any) -> CellFault | None:
        """What is wrong with a cell."""
        if type(cell) not in ONE_VALUE:
            return CellFault("invalid-field", "is not a text", str(cell)[:64], TEXT_HINT)
        if type(cell) is not str or self._is_missing(cell):
            return None
        return fault_of_free_text(cell, self.longest)


def _text(cell: Any) -> str:
    return cell if type(cell) is str else level_of(cell) if type(cell) in ONE_VALUE else ""


def are_sentences(texts: Collection[str]) -> bool:
    """Whether texts are rather sentences than names of levels: they have several words on average,
    and are not short ones of capitalized words, as names and titles are."""
    n_words = n_capitalized = 0.0
    for text in texts:
        words = _WORDS.findall(text)
        # In scripts without blanks a word has two characters or so.
        n_words += len(words) + 0.5 * sum(map(len, WITHOUT_BLANKS.findall(text)))
        n_capitalized += sum(map(str.istitle, words))
    names = n_capitalized > MOST_CAPITALIZED * n_words
    short = sum(map(len, texts)) <= SENTENCE * len(texts)
    return n_words > WORDS_OF_SENTENCE * len(texts) and not (names and short)


def offer_of_text(texts: Collection[str]) -> str:
    """What to add to the reason why texts are no feature, or a poor one, if they have words."""
    if sum(len(_WORDS.findall(text)) for text in texts) < WORDS_OF_NAMES * len(texts):
        return ""
    return "; for its words as features, say in `schema` that its kind is text"
