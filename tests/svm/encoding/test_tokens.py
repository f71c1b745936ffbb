"""Tokens and TF-IDF beside scikit-learn's, on texts of many scripts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from svm.data.matrices import Array, Vector
from svm.data.texts import Stacked, StoredTexts, TextList, with_texts
from svm.encoding.encoder import Encoding
from svm.encoding.fitting_texts import fit_text
from svm.encoding.texts import BLOCK_CHARACTERS, TextEncoder, blocks_of
from svm.encoding.tokens import Characters, are_of_words, word_spans
from tests.svm.cases.texts import strange_texts

TWINS: dict[str, dict[str, Any]] = {
    "words": {"ngram_range": (1, 2)},
    "characters": {"analyzer": "char_wb", "ngram_range": (2, 4)},
}
SIZES = [5000, pytest.param(100_000, marks=pytest.mark.long)]


def preprocessed(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def test_words_are_found_in_a_text_as_it_came() -> None:
    """With their accents, in any script: those of the canonical form, in their order."""
    for text in strange_texts(2000):
        words = re.findall(r"\w+", preprocessed(text))
        spans = word_spans(text)
        if "¾" not in text:  # two words in one character, of which one is marked
            assert [word for *_, word in spans] == words, text
        bounds = [bound for start, end, _ in spans for bound in (start, end)]
        assert bounds == sorted(bounds)
    accented = "cafe\u0301 \u1112\u1161\u11ab x"
    assert word_spans(accented) == [(0, 5, "caf\u00e9"), (6, 9, "\ud55c"), (10, 11, "x")]


def learned(texts: Sequence[str], **given: Any) -> TextEncoder:
    """From raw rows of one column."""
    X = with_texts(np.arange(float(len(texts)))[:, np.newaxis], TextList(texts))
    return fit_text(Encoding(**given), X, 0, "message")


def matrix(encoder: TextEncoder, texts: Sequence[str], counts: bool = False) -> Any:
    entries = encoder.entries(texts)
    values = entries.counts if counts else entries.values
    shape = (len(texts), encoder.n_outputs)
    return csr_array((values, entries.outputs, [0, *entries.ends]), shape=shape)


def in_order(matrix: Any, names: Array) -> Any:
    """The columns sorted by their names, and entries by column."""
    found = csr_array(matrix[:, np.argsort(names)])
    found.sort_indices()
    return found


@pytest.mark.parametrize("n_texts", SIZES)
@pytest.mark.parametrize("tokens", TWINS)
def test_tokens_and_counts_are_those_of_the_twin(tokens: str, n_texts: int) -> None:
    texts = strange_texts(n_texts)
    encoder = learned(texts, tokens=tokens)
    twin = CountVectorizer(preprocessor=preprocessed, **TWINS[tokens])
    expected = in_order(twin.fit_transform(texts), twin.get_feature_names_out())
    [part] = encoder.parts
    assert sorted(part.tokens) == sorted(twin.get_feature_names_out())
    names = np.array(part.tokens, dtype=object)
    found = in_order(matrix(encoder, texts, counts=True), names)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    in_texts = np.bincount(expected.indices, minlength=len(part.tokens))
    np.testing.assert_array_equal(part.counts[np.argsort(names)], in_texts)


@pytest.mark.parametrize("tokens", TWINS)
@pytest.mark.parametrize("options", [{}, {"sublinear": True}, {"min_count": 3}])
def test_values_are_those_of_the_twin(tokens: str, options: dict[str, Any]) -> None:
    """On the training texts, and on new ones with unknown tokens."""
    texts, new = strange_texts(3000), strange_texts(1000, seed=1)
    encoder = learned(texts, tokens=tokens, **options)
    named = {"sublinear_tf": options.get("sublinear", False), "min_df": options.get("min_count", 1)}
    twin = TfidfVectorizer(preprocessor=preprocessed, **TWINS[tokens], **named).fit(texts)
    names = np.array(encoder.parts[0].tokens, dtype=object)
    for some in (texts, new):
        expected = in_order(twin.transform(some), twin.get_feature_names_out())
        found = in_order(matrix(encoder, some), names)
        assert abs(found - expected).max() < 1e-12


def test_each_part_has_the_weight_as_its_norm() -> None:
    texts = strange_texts(500)
    encoder = learned(texts, tokens="both", text_weights={"message": 0.5})
    apart = [learned(texts, tokens=tokens, text_weights={"message": 0.5}) for tokens in TWINS]
    found, start = matrix(encoder, texts).toarray(), 0
    for one in apart:
        some = found[:, start : start + one.n_outputs]
        np.testing.assert_array_equal(some, matrix(one, texts).toarray())
        norms = np.linalg.norm(some, axis=1)
        np.testing.assert_allclose(norms[norms > 0], 0.5, rtol=1e-12)
        start += one.n_outputs
    assert start == found.shape[1]


@pytest.mark.parametrize("sublinear", [False, True])
def test_other_texts_of_a_batch_change_no_bit(sublinear: bool) -> None:
    texts = strange_texts(1000)
    encoder = learned(texts, tokens="both", sublinear=sublinear)
    once = _bits(encoder, texts)
    assert [_bits(encoder, [text])[0] for text in texts] == once
    order = np.random.default_rng(0).permutation(len(texts)).tolist()
    for size in (7, 1000):
        pieces = [order[start : start + size] for start in range(0, len(order), size)]
        found = [bits for piece in pieces for bits in _bits(encoder, [texts[k] for k in piece])]
        assert found == [once[k] for k in order]


@pytest.mark.parametrize("tokens", [*TWINS, "both"])
def test_what_was_scored_before_changes_no_bit(tokens: str) -> None:
    """What is remembered of pieces, found one by one or many at once, and forgotten."""
    texts = strange_texts(500)
    encoder = learned(texts[:250], tokens=tokens)
    one_by_one, at_once = replace(encoder), replace(encoder)
    alone = [entries for text in texts for entries in _bits(one_by_one, [text])]
    assert alone == _bits(at_once, texts)
    words = [one_by_one.entries([text]).unknown_words.item() for text in texts]
    assert words == at_once.entries(texts).unknown_words.tolist()
    _bits(one_by_one, ["".join(map(chr, range(0x100, 0xD000))) * 10])
    assert [entries for text in texts for entries in _bits(one_by_one, [text])] == alone


def test_characters_of_words() -> None:
    """The table for many characters has those of the expression."""
    everything = np.arange(0x110000, dtype=np.uint32)
    expected = [one.span() for one in re.finditer(r"\w+", "".join(map(chr, everything)))]
    edges = np.flatnonzero(np.diff(are_of_words(everything), prepend=False, append=False))
    np.testing.assert_array_equal(edges.reshape(-1, 2), expected)


def test_stored_texts_are_read_by_their_size() -> None:
    """Long ones one by one, short ones together."""
    texts = ["äb" * 5000, "short", "", "c" * 9000, *("few words" for _ in range(700))]
    octets = [text.encode() for text in texts]
    data = np.frombuffer(b"".join(octets), dtype=np.uint8)
    stored = StoredTexts(data, np.cumsum([*map(len, octets)]))
    both = Stacked([stored, TextList(texts)])
    cells = np.array([*range(len(both)), np.nan, 3.0])
    blocks = list(blocks_of(both, cells))
    assert [text for block in blocks for text in block] == [*texts, *texts, None, "c" * 9000]
    for block in blocks:
        assert len(block) == 1 or sum(len(text or "") for text in block) <= BLOCK_CHARACTERS
    assert both.sizes([0, 2, len(texts)]) == [15000, 0, 10000]


@pytest.mark.parametrize("tokens", TWINS)
def test_the_highest_bits_of_keys_tell_them_apart(tokens: str) -> None:
    """By these a key is found: few keys have them in common."""
    [part] = learned(strange_texts(2000), tokens=tokens).parts
    bits = (4 * len(part.keys)).bit_length()
    _, shared = np.unique(part.keys >> np.uint64(64 - bits), return_counts=True)
    assert shared.max() < 10


def test_threads_may_read_longer_and_longer_texts() -> None:
    """What they share grows with the longest text so far."""

    def count(length: int) -> int:
        return sum(len(found.keys) for found in Characters(["a" * length]).found("characters"))

    lengths = [(1 << k) - less for k in range(12, 20) for less in range(5, 15)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, lengths)) == [3 * length for length in lengths]


def test_the_order_of_training_texts_changes_nothing() -> None:
    texts = strange_texts(2000)
    first, second = learned(texts, tokens="both"), learned(texts[::-1], tokens="both")
    for one, other in zip(first.parts, second.parts, strict=True):
        assert one.tokens == other.tokens
        np.testing.assert_array_equal(one.keys, other.keys)
        np.testing.assert_array_equal(one.counts, other.counts)
    assert _bits(first, texts) == _bits(second, texts)


def _bits(encoder: TextEncoder, texts: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Of each text: its outputs and their values."""
    entries = encoder.entries(texts)
    starts = [0, *entries.ends[:-1].tolist()]
    values: Vector = entries.values
    return [
        (entries.outputs[a:b].tobytes(), values[a:b].tobytes())
        for a, b in zip(starts, entries.ends.tolist(), strict=True)
    ]
