"""Why a row got its scores: what each column, token of a text, or support vector adds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import InvalidContent, TooLarge
from service.predictions.loaded_models import LoadedModel
from service.rows.faults import overflow
from svm.data.matrices import Matrix, is_sparse
from svm.data.texts import texts_of
from svm.encoding.encoder import Encoder
from svm.encoding.texts import Entries, TextEncoder
from svm.encoding.tokens import RUNS, PartName, is_without_blanks, word_spans
from svm.model.explanations import contributions, term_columns, text_entries
from svm.model.multiclass import splits_of
from svm.model.paths import Paths, path_work
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import Identity, Square

STRONGEST = 10
"""Support vectors that are listed."""
TOKENS = 20
"""Tokens of a text that are listed."""
MARKS = 100
"""Words of a text that are marked."""
MARKABLE = 5000
"""Words of a text that may be marked."""
MAX_TERMS = 1_000_000
"""Terms in one reply."""
SEARCHED = 24
"""Columns that changes are searched in."""
MAX_PAGE_TERMS = 200_000
"""Terms in the explanation that a page shows."""
LARGEST_TERM = 1e300
"""The sum of as many as `MAX_TERMS` does not overflow."""
MAX_SLOPES = 500_000_000
"""Of the paths of one reply, see `path_work`: some seconds."""


def check_explainable(model: LoadedModel, X: Matrix | None = None) -> None:
    """Raises InvalidContent `explanation-unsupported` for a kernel on features that stand for one
    themselves, and TooLarge if a reply about the rows X would hold too many terms or take too
    long."""
    fitted = model.fitted
    if fitted.kernel is not None and fitted.features.directions is not None:
        name = fitted.features.spec.name
        message = f"no explanation: a kernel on {name} features has no terms by column"
        raise InvalidContent.at("/outputs", "explanation-unsupported", message)
    if X is None:
        return
    n_texts = 0 if is_sparse(X) else len(_text_columns(fitted))
    n_terms = (len(_names(model)) + (TOKENS + MARKS) * n_texts) * len(fitted.intercepts)
    limit = max(1, min(MAX_TERMS // n_terms, MAX_SLOPES // max(1, path_work(fitted))))
    if X.shape[0] > limit:
        detail = f"explanations of more than {limit} rows of this model; send them in several"
        raise TooLarge("too-many-rows", detail, extra={"limit": limit})


def why_unexplained(model: LoadedModel, n_rows: int) -> str:
    """Why a page explains no reply of `n_rows`, as a sentence; empty if it has one."""
    fitted = model.fitted
    try:
        check_explainable(model)
    except InvalidContent as error:
        return f"{error.detail[0].upper()}{error.detail[1:]}."
    if n_rows != 1:
        return "Only a single row is explained."
    if model.n_features * len(fitted.intercepts) > MAX_PAGE_TERMS:
        n_scores = len(fitted.intercepts)
        return f"No explanation: {model.n_features:,} columns, each in {n_scores:,} scores."
    return ""


def strongest_columns(model: LoadedModel, problems: Sequence[Any]) -> list[int]:
    """The places of `SEARCHED` columns with the largest terms in the explanation of one row, summed
    over its binary problems, or of all columns, if these are not more."""
    names = model.columns or [str(i) for i in range(model.n_features)]
    sums = [-sum(abs(one["terms"].get(name, 0.0)) for one in problems) for name in names]
    return sorted(range(len(names)), key=sums.__getitem__)[:SEARCHED]


def explanations(
    model: LoadedModel, X: Matrix, scores: NDArray[np.float64], labels: list[Any]
) -> list[Any]:
    """For each row, for each binary problem, an `ExplanationRead`; the tokens of texts for the
    problems of the row's label, so that replies of many classes stay small. Rows have passed
    `check_explainable`.

    Raises InvalidContent `non-finite-value` for rows so large that a term overflows.
    """
    fitted, names, work = model.fitted, _names(model), path_work(model.fitted)
    has_texts = bool(_text_columns(fitted)) and not is_sparse(X)
    baseline: list[float] | None = None
    others: list[list[dict[str, Any]]] = []
    if not work:
        terms = contributions(fitted, X)
    else:
        paths, terms = Paths(fitted), np.empty((*scores.shape, len(names)))
        baseline = paths.baseline.tolist()
        for i, (row_terms, products) in enumerate(paths.rows(X)):
            terms[i] = row_terms
            if products is not None:
                _check_finite(products[None], i)
                others.append(list(map(_vectors, scores[i], fitted.intercepts, products)))
    _check_finite(terms if baseline is None else terms + paths.baseline[:, None])
    problems, intercepts = _problems(model), fitted.intercepts.tolist()
    explained = []
    for i, (row_scores, row_terms) in enumerate(zip(scores.tolist(), terms.tolist(), strict=True)):
        texts = _texts(model, X[i : i + 1], terms[i]) if has_texts else []
        row = []
        for k, problem in enumerate(problems):
            score, intercept, some = row_scores[k], intercepts[k], row_terms[k]
            one = {
                **problem,
                "score": score,
                "intercept": intercept,
                "terms": dict(zip(names, some, strict=True)),
            }
            if baseline is None:
                one["rounding"] = _rest(score, intercept, some)
            else:
                error = _rest(score, intercept, [baseline[k], *some])
                one |= {"baseline": baseline[k], "error": error, "rounding": 0.0}
            if others:
                one |= others[i][k]
            if texts and (not labels or labels[i] in problem["classes"]):
                one["texts"] = [text.of_problem(k) for text in texts]
            row.append(one)
        explained.append(row)
    return explained


def compare_with_means(
    model: LoadedModel, means: Sequence[float | None], problems: Sequence[dict[str, Any]]
) -> None:
    """Count what numbers and dates of one row add from their `means` in training on, if these are
    known and the scaling does not: the rest moves from `intercept` to `typical`; sums stay."""
    fitted, columns = model.fitted, model.features
    if fitted.kernel is not None or fitted.scaling.name == "standardize" or columns.text_columns:
        return
    pairs = zip(columns.kinds, means, strict=True)
    known = [kind in ("number", "date") and mean is not None for kind, mean in pairs]
    row = [mean if given else math.nan for mean, given in zip(means, known, strict=True)]
    if not any(known) or (columns.is_plain and not all(known)):
        return
    shifts = contributions(fitted, np.array([row], dtype=np.float64))[0]
    if shifts.shape[1] != len(known) or not np.isfinite(shifts).all():
        return
    for problem, some in zip(problems, shifts.tolist(), strict=True):
        moved = [shift if given else 0.0 for shift, given in zip(some, known, strict=True)]
        for name, shift in zip(problem["terms"], moved, strict=True):
            problem["terms"][name] -= shift
        problem["typical"] = problem.pop("intercept") + math.fsum(moved)


def _check_finite(terms: NDArray[np.float64], before: int = 0) -> None:
    """Raises InvalidContent `non-finite-value`, for rows after those before."""
    sizes = np.abs(terms)
    if not sizes.max(initial=0.0) < LARGEST_TERM:
        large = np.flatnonzero(~(sizes < LARGEST_TERM).all(axis=(1, 2)))
        raise overflow(large + before, "explanation")


def _rest(score: float, intercept: float, terms: Sequence[float]) -> float:
    """What is missing in the sum of the terms and the intercept."""
    return 0.0 - math.fsum([-score, intercept, *terms])  # a sum of 0 is 0.0, not -0.0


def _problems(model: LoadedModel) -> list[dict[str, Any]]:
    """What each score is of: the classes of each problem, or the number that is predicted."""
    target = model.fitted.target
    if target is not None:
        return [{"classes": [], "of": "logarithm" if target.logarithm else "value"}]
    splits = splits_of(model.fitted.multiclass, len(model.classes))
    return [
        {
            "classes": [model.classes[code] for code in split.classes],
            "positive": model.classes[split.positive],
        }
        for split in splits
    ]


def _vectors(score: float, intercept: float, products: NDArray[np.float64]) -> dict[str, Any]:
    """What the support vectors add: the strongest, the sum of the others, and the rest."""
    order = np.argsort(-np.abs(products), kind="stable")
    first = order[:STRONGEST].tolist()
    others = math.fsum(products[order[STRONGEST:]].tolist())
    listed = [*products[first].tolist(), others]
    return {
        "rounding": _rest(score, intercept, listed),
        "support_vectors": [{"index": i, "term": float(products[i])} for i in first],
        "others": others,
    }


def _text_columns(fitted: FittedPipeline) -> list[int]:
    """Those whose tokens are features of a linear model."""
    encoder = fitted.encoder
    has_terms = fitted.kernel is None and isinstance(fitted.features.spec, Identity)
    return encoder.text_columns if isinstance(encoder, Encoder) and has_terms else []


def _texts(model: LoadedModel, X: Matrix, terms: NDArray[np.float64]) -> list[_ExplainedText]:
    """The texts of a row, but for missing ones."""
    assert not is_sparse(X)
    texts = []
    for j, encoder, entries, values in text_entries(model.fitted, X):
        if not np.isnan(X[0, j]):
            (text,) = texts_of(X).take([int(X[0, j])])
            name = model.fitted.columns[j].name
            texts.append(_ExplainedText(name, text, encoder, entries, values, terms[:, j]))
    return texts


class _ExplainedText:
    """What the tokens and the words of a text add to the scores."""

    def __init__(
        self,
        column: str,
        text: str,
        encoder: TextEncoder,
        entries: Entries,
        values: NDArray[np.float64],
        terms: NDArray[np.float64],
    ) -> None:
        """`values`: (n_entries, n_problems). `terms`: (n_problems,) what the column adds."""
        self._column, self._values, self._terms = column, values, terms
        self._counts = entries.counts.tolist()
        self._tokens = list(map(encoder.token, entries.outputs.tolist()))
        marks = list(self._marked(text))
        self._spans = [(start, end) for start, end, _ in marks]
        self._marks = np.array([mark for *_, mark in marks]).reshape(-1, len(terms))

    def _marked(self, text: str) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
        """Where the words are, and what each adds, (n_problems,): its own share, and those of the
        runs of characters inside it. A token that comes several times has a share in each place. In
        scripts without blanks each character has its share of the runs."""
        places = {token: i for i, token in enumerate(self._tokens)}
        for start, end, word in word_spans(text)[:MARKABLE]:
            before = "" if text[max(0, start - 1) : start].strip() else " "
            edged = f"{before}{word}{'' if text[end : end + 1].strip() else ' '}"
            inside: list[tuple[int, PartName, str]] = [(len(before), "words", word)]
            for n in RUNS:
                runs = (edged[i : i + n] for i in range(len(edged) - n + 1))
                inside += [(i, "characters", run) for i, run in enumerate(runs)]
            shares = np.zeros((len(edged), len(self._terms)))
            for i, part, token in inside:
                if (place := places.get((part, token))) is not None:
                    value = self._values[place] / self._counts[place]
                    shares[i : i + len(token)] += value / len(token)
            if len(word) == end - start and is_without_blanks([word]):
                own = shares[len(before) :][: len(word)]
                own[0] += shares[: len(before)].sum(axis=0)
                own[-1] += shares[len(before) + len(word) :].sum(axis=0)
                yield from ((start + i, start + i + 1, share) for i, share in enumerate(own))
            else:
                yield start, end, shares.sum(axis=0)

    def of_problem(self, k: int) -> dict[str, Any]:
        """A `schemas.TextTerms`. The terms of its tokens and `others` sum to that of the column."""
        values, marks = self._values[:, k], self._marks[:, k]
        first = np.argsort(-np.abs(values), kind="stable")[:TOKENS].tolist()
        tokens = []
        for i in first:
            part, token = self._tokens[i]
            tokens.append(
                {"token": token, "part": part, "count": self._counts[i], "term": float(values[i])}
            )
        strongest = np.sort(np.argsort(-np.abs(marks), kind="stable")[:MARKS]).tolist()
        return {
            "column": self._column,
            "tokens": tokens,
            "others": math.fsum([float(self._terms[k]), *(-one["term"] for one in tokens)]),
            "marks": [(*self._spans[i], float(marks[i])) for i in strongest if marks[i]],
        }


def _names(model: LoadedModel) -> list[str]:
    """Names of the terms."""
    encoder, features = model.fitted.encoder, model.fitted.features
    given = model.columns or [str(i) for i in range(model.n_features)]
    squares = encoder.is_plain and isinstance(features.spec, Square)
    if term_columns(model.fitted) is not None and not squares:
        return given
    names = features.output_names(given if encoder.is_plain else encoder.output_names)
    assert names is not None  # see `check_explainable`
    return names
