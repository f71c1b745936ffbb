"""Generated messages: frequent words by Zipf's law, words of the class among them.

A seed gives the same texts everywhere.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from svm.data.matrices import Array

N_WORDS = 200_000
EXPONENT = 1.07
OWN_WORDS = 40
"""Words of each class, in the forms of `ENDINGS`; a text has 4 of them on the mean …"""
OWN = 4.0
ELSEWHERE = 0.15
"""… and this share of them are those of another class."""
LETTERS = 6.0
"""Of a word and the blank behind it, on the mean."""
CONSONANTS, VOWELS, ENDINGS = "bcdfghklmnprstvwz", "aeiou", ("", "s", "ed", "ing", "er")


def generated_texts(
    n_texts: int, n_classes: int, length: int = 200, seed: int = 0
) -> tuple[list[str], Array]:
    """(Texts of half to one and a half times `length` characters, the number of each's class)."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, n_classes, n_texts)
    sizes = random.integers(round(length / LETTERS / 2), round(1.5 * length / LETTERS), n_texts)
    ends = np.cumsum(sizes)
    words = _words()[np.searchsorted(_shares(), random.random(ends[-1]))]
    own = np.flatnonzero(random.random(ends[-1]) < OWN * LETTERS / length)
    classes = labels[np.searchsorted(ends, own, side="right")]
    elsewhere = random.random(len(own)) < ELSEWHERE
    classes[elsewhere] = random.integers(0, n_classes, elsewhere.sum())
    stems = np.minimum(random.geometric(0.08, len(own)), OWN_WORDS) - 1 + classes * OWN_WORDS
    forms = np.array(ENDINGS, dtype=object)[random.integers(0, len(ENDINGS), len(own))]
    words[own] = _words()[N_WORDS - 1 - stems] + forms
    starts = [0, *ends[:-1].tolist()]
    every = words.tolist()
    return [" ".join(every[a:b]) for a, b in zip(starts, ends.tolist(), strict=True)], labels


@cache
def _shares() -> Array:
    """The shares of the words so far, of the words by their ranks."""
    weights = (np.arange(N_WORDS) + 2.7) ** -EXPONENT
    shares: Array = np.cumsum(weights) / weights.sum()
    return shares


@cache
def _words() -> Array:
    """The words by their ranks: the more frequent, the shorter; no two are equal."""
    random = np.random.default_rng(0)
    syllables = [c + v for c in CONSONANTS for v in VOWELS]
    words: dict[str, None] = {}
    while len(words) < N_WORDS:
        count = 1 + (len(words) >= 60) + (len(words) >= 5000)
        drawn = [syllables[k] for k in random.integers(0, len(syllables), count)]
        words["".join(drawn) + ("", *CONSONANTS)[random.integers(0, len(CONSONANTS) + 1)]] = None
    return np.array(list(words), dtype=object)
