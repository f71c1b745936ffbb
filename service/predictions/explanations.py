"""Why a row got its scores: what each feature, token of a text, or support vector adds."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import Fault, InvalidContent, TooLarge
from service.predictions.loaded_models import LoadedModel
from svm.data.matrices import Matrix, is_sparse
from svm.data.texts import texts_of
from svm.encoding.encoder import Encoder
from svm.encoding.texts import Entries, TextEncoder
from svm.encoding.tokens import RUNS, PartName, is_without_blanks, word_spans
from svm.model.explanations import contributions, text_entries
from svm.model.multiclass import splits_of
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import Identity, RandomFourier, Splines

STRONGEST = 10
"""Support vectors, or features of a sparse row, that are listed."""
TOKENS = 20
"""Tokens of a text that are listed."""
MARKS = 100
"""Words of a text that are marked."""
MARKABLE = 5000
"""Words of a text that may be marked."""
MAX_TERMS = 1_000_000
"""Terms in one reply."""


def check_explainable(model: LoadedModel) -> None:
    """Raises InvalidContent `explanation-unsupported` for random features, which mean nothing."""
    if isinstance(model.fitted.features.spec, RandomFourier):
        message = "no explanation: random Fourier features have no meaning by themselves"
        fault = Fault(code="explanation-unsupported", message=message, pointer="/outputs")
        raise InvalidContent("explanation-unsupported", message, (fault,))


def explanations(
    model: LoadedModel, X: Matrix, scores: NDArray[np.float64], labels: list[Any]
) -> list[Any]:
    """For each row, for each binary problem, the terms of its score; the tokens of texts for the
    problems of the row's label, so that replies of many classes stay small.

    The terms, `intercept`, `rounding` and (of a kernel model) `others` sum to `score`: exactly,
    if the sum is rounded once (`math.fsum`).
    Raises TooLarge if the reply would hold too many terms.
    """
    fitted = model.fitted
    names = _names(model)
    width = STRONGEST if names is None else len(names)
    width += (TOKENS + MARKS) * len(_text_columns(fitted))
    limit = max(1, MAX_TERMS // (width * scores.shape[1]))
    if len(scores) > limit:
        detail = f"explanations of more than {limit} rows of this model; send them in several"
        raise TooLarge("too-many-rows", detail, extra={"limit": limit})
    problems = _problems(model)
    explained = []
    for i, row_scores in enumerate(scores.tolist()):
        row_terms = contributions(fitted, X[i : i + 1])
        texts = _texts(model, X[i : i + 1], row_terms)
        row = []
        for k, problem in enumerate(problems):
            terms = {
                **problem,
                "score": row_scores[k],
                "intercept": float(fitted.intercepts[k]),
                **_parts(row_scores[k], float(fitted.intercepts[k]), row_terms[k], names),
            }
            if texts and (not labels or labels[i] in problem["classes"]):
                terms["texts"] = [text.of_problem(k) for text in texts]
            row.append(terms)
        explained.append(row)
    return explained


def _problems(model: LoadedModel) -> list[dict[str, Any]]:
    """What each score is of: the classes of each problem, or the number that is predicted."""
    target = model.fitted.target
    if target is not None:
        return [{"classes": [], "of": "logarithm" if target.logarithm else "value"}]
    splits = splits_of(model.fitted.multiclass, len(model.classes))
    return [{"classes": [model.classes[code] for code in split.classes]} for split in splits]


def _parts(
    score: float, intercept: float, some: NDArray[np.float64], names: list[str] | None
) -> dict[str, Any]:
    if names is not None:
        listed: list[float] = some.tolist()
        parts: dict[str, Any] = {"terms": dict(zip(names, listed, strict=True))}
    else:
        order = np.argsort(-np.abs(some), kind="stable")
        first = order[:STRONGEST].tolist()
        others = fsum(some[order[STRONGEST:]].tolist())
        parts = {
            "support_vectors": [{"index": i, "term": float(some[i])} for i in first],
            "others": others,
        }
        listed = [*some[first].tolist(), others]
    return {"rounding": fsum([score, -intercept, *(-term for term in listed)]), **parts}


def _text_columns(fitted: FittedPipeline) -> list[int]:
    """Those whose tokens are features of a linear model."""
    encoder = fitted.encoder
    has_terms = fitted.kernel is None and isinstance(fitted.features.spec, Identity)
    return encoder.text_columns if isinstance(encoder, Encoder) and has_terms else []


def _texts(model: LoadedModel, X: Matrix, terms: NDArray[np.float64]) -> list[_ExplainedText]:
    """The texts of a row, but for missing ones."""
    columns = _text_columns(model.fitted)
    if not columns or is_sparse(X):
        return []
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
            "others": fsum([float(self._terms[k]), *(-one["term"] for one in tokens)]),
            "marks": [(*self._spans[i], float(marks[i])) for i in strongest if marks[i]],
        }


def _names(model: LoadedModel) -> list[str] | None:
    """Names of the terms of a linear model; None if it sees kernel values."""
    if model.fitted.kernel is not None:
        return None
    encoder, features = model.fitted.encoder, model.fitted.features
    given = model.columns or [str(i) for i in range(model.n_features)]
    if isinstance(features.spec, Splines) or (
        features.sources is not None and not encoder.is_plain
    ):
        return given
    if encoder.is_plain:
        return features.output_names(given)
    return features.output_names(encoder.output_names)
