"""What predictions depend on: contributions to a score, and the importance of columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from svm.data.matrices import Array, Indices, Matrix, Vector, is_sparse
from svm.encoding.encoder import Encoder
from svm.encoding.texts import Entries, TextEncoder
from svm.encoding.tokens import PartName
from svm.model.pipeline import FittedPipeline, quietly

REPEATS = 5
BLOCK_VALUES = 1 << 20
"""Products in memory at a time."""
FEW_TEXTS = 20
"""A token of fewer than one in this many texts of an average class says little of it …"""
FEWEST_TOKENS = 100
"""… but this many tokens are kept."""


def term_columns(fitted: FittedPipeline) -> Indices | None:
    """The original column of each value that has a term: an output of the feature map, or an input
    of one that approximates a kernel. None if some of them are of several columns."""
    features, sources = fitted.features, fitted.features.sources
    if fitted.kernel is None and features.directions is not None:
        sources = np.arange(features.n_inputs)
    return None if sources is None else fitted.encoder.output_columns[sources]


def contributions(fitted: FittedPipeline, X: Matrix) -> Vector:
    """(n_samples, n_problems, n_terms) what each output feature adds to the scores of finite rows,
    or each original column if every output is of one; of a model without a kernel. With the
    intercepts they sum to the scores, up to rounding. They may overflow. Other models have
    `svm.model.paths`."""
    columns, size = term_columns(fitted), max(1, BLOCK_VALUES // fitted.coefficients.size)
    blocks = (X[start : start + size] for start in range(0, X.shape[0], size))
    return np.concatenate([quietly(_products, fitted, columns, block) for block in blocks])


def _products(fitted: FittedPipeline, columns: Indices | None, X: Matrix) -> Vector:
    values, weights = fitted.values_of_checked(X), fitted.coefficients
    if not is_sparse(values):
        return by_column(fitted, weights * values[:, None, :], columns)
    assert columns is not None  # sparse features have no products
    n, p, d = values.shape[0], len(weights), fitted.n_features
    rows = np.repeat(np.arange(n), np.diff(values.indptr))
    places = (rows * p + np.arange(p)[:, None]) * d + columns[values.indices]
    return _sums(places, weights[:, values.indices] * values.data, (n, p, d))


def by_column(fitted: FittedPipeline, products: Vector, columns: Indices | None) -> Vector:
    """(…, n_terms) from (…, n_values), as `term_columns` says."""
    outer, d = products.shape[:-1], fitted.n_features
    if columns is None or (fitted.encoder.is_plain and len(columns) == d):
        return products
    places = np.arange(math.prod(outer)).reshape(*outer, 1) * d + columns
    return _sums(places, products, (*outer, d))


def _sums(places: Indices, values: Vector, shape: tuple[int, ...]) -> Vector:
    """The sums of values with the same place, in their order."""
    sums: Any = np.bincount(places.ravel(), values.ravel(), math.prod(shape))
    return np.asarray(sums).reshape(shape)


@dataclass(frozen=True, slots=True)
class TextTerm:
    """What a token of a row adds to its scores."""

    column: int
    part: PartName
    token: str
    count: int
    values: Vector
    """(n_problems,)"""


def text_contributions(fitted: FittedPipeline, row: Vector) -> list[TextTerm]:
    """Those of a linear model for one raw row, (1, n_columns). Their sum over a column of texts is
    its term in `contributions`, up to rounding, but for the indicator of a missing text."""
    terms = []
    for column, text, entries, added in text_entries(fitted, row):
        for output, count, values in zip(entries.outputs, entries.counts, added, strict=True):
            part, token = text.token(int(output))
            terms.append(TextTerm(column, part, token, int(count), values))
    return terms


def text_entries(
    fitted: FittedPipeline, row: Vector
) -> Iterator[tuple[int, TextEncoder, Entries, Vector]]:
    """The same in arrays, for each column of texts: its number, its encoder, the outputs of the
    text, and what each adds, (n_entries, n_problems)."""
    for column, text, weights in _text_weights(fitted):
        (entries,) = text.of_rows(row, column)
        yield column, text, entries, (weights[:, entries.outputs] * entries.values).T


class StrongToken(NamedTuple):
    """A token with a large weight."""

    part: PartName
    token: str
    weight: float
    """What it adds to a score if it is all that a text has in its part."""


def strongest_tokens(fitted: FittedPipeline, k: int) -> dict[int, list[list[StrongToken]]]:
    """For each column of texts of a linear model and each class the at most k words, or characters
    if it has no words, that speak most for the class: on average over the problems of the class. Of
    a numeric target those that lower the value, then those that raise it. Tokens of very few
    training texts are left out."""
    strongest = {}
    for column, text, weights in _text_weights(fitted):
        counts = text.parts[0].counts  # descending
        frequent = FEW_TEXTS * max(2, len(fitted.classes)) * counts >= text.n_texts
        size = max(FEWEST_TOKENS, int(np.count_nonzero(frequent)))
        strongest[column] = [
            [
                StrongToken(*text.token(place), float(own[place]))
                for place in _largest(own, k)
                if own[place] > 0.0
            ]
            for own in _by_class(fitted, text.weight * weights[:, : min(size, len(counts))])
        ]
    return strongest


def _by_class(fitted: FittedPipeline, weights: Vector) -> Iterator[Vector]:
    """(n_tokens,) for each class, from (n_problems, n_tokens)."""
    if len(weights) == 1:
        yield from (-weights[0], weights[0])
    elif fitted.multiclass == "one-vs-rest":
        yield from weights
    else:
        pairs = list(combinations(range(len(fitted.classes)), 2))
        for code in range(len(fitted.classes)):
            signs = np.array([(pair[1] == code) - float(pair[0] == code) for pair in pairs])
            yield signs @ weights / (len(fitted.classes) - 1)


def _largest(values: Vector, k: int) -> list[int]:
    """The places of the k largest values, of the largest one first."""
    k = min(k, len(values))
    places = np.sort(np.argpartition(-values, k - 1)[:k]) if k else np.empty(0, dtype=np.int64)
    order: list[int] = places[np.argsort(-values[places], kind="stable")].tolist()
    return order


def _text_weights(fitted: FittedPipeline) -> Iterator[tuple[int, TextEncoder, Vector]]:
    """Each column of texts, its encoder, and the coefficients of its outputs; of linear models."""
    encoder = fitted.encoder
    if isinstance(encoder, Encoder) and fitted.kernel is None:
        yield from encoder.of_texts(fitted.coefficients)


def permutation_importance(
    fitted: FittedPipeline,
    X: Vector,
    truth: Array,
    *,
    seed: int = 0,
    check: Callable[[], None] = lambda: None,
) -> Vector:
    """How much the accuracy falls, or the mean absolute error grows, when the values of a column
    are exchanged between the rows: (n_columns, 2), the mean of `REPEATS` draws and its standard
    error.

    X is (n_samples, n_columns), as the model takes it, of a table its raw values; `truth` are
    (n_samples,) class numbers or targets. Columns that say the same share their importance: each is
    needed less, as the others are still there. `check` is called for each column, and may raise.
    L. Breiman, "Random forests" (2001), section 10.
    """
    random = np.random.default_rng(seed)
    orders = [random.permutation(len(X)) for _ in range(REPEATS)]
    exchanged = X.copy()
    right = _score(fitted, exchanged, truth)
    falls = np.empty((X.shape[1], REPEATS))
    for j in range(X.shape[1]):
        check()
        for k, order in enumerate(orders):
            exchanged[:, j] = X[order, j]
            falls[j, k] = right - _score(fitted, exchanged, truth)
        exchanged[:, j] = X[:, j]
    error = falls.std(axis=1, ddof=1) / np.sqrt(REPEATS)
    return np.stack([falls.mean(axis=1), error], axis=1)


def _score(fitted: FittedPipeline, X: Vector, truth: Array) -> float:
    """The larger, the better."""
    scores = fitted.scores_of_checked(X)
    if fitted.target is not None:
        return -float(np.abs(fitted.values_from_scores(scores) - truth).mean())
    codes = fitted.codes_from_decision(fitted.decision_from_scores(scores))
    return float(np.mean(codes == truth))
