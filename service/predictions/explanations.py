"""Why a row got its scores: what each feature, or each support vector, adds."""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import Fault, InvalidContent, TooLarge
from service.predictions.loaded_models import LoadedModel
from svm.data.matrices import Matrix
from svm.model.explanations import contributions
from svm.model.multiclass import splits_of
from svm.transforms.features import Identity, RandomFourier, Square

STRONGEST = 10
"""Support vectors, or features of a sparse row, that are listed."""
MAX_TERMS = 1_000_000
"""Terms in one reply."""


def check_explainable(model: LoadedModel) -> None:
    """Raises InvalidContent `explanation-unsupported` for random features, which mean nothing."""
    if isinstance(model.fitted.features.spec, RandomFourier):
        message = "no explanation: random Fourier features have no meaning by themselves"
        fault = Fault(code="explanation-unsupported", message=message, pointer="/outputs")
        raise InvalidContent("explanation-unsupported", message, (fault,))


def explanations(model: LoadedModel, X: Matrix, scores: NDArray[np.float64]) -> list[Any]:
    """For each row, for each binary problem, the terms of its score.

    The terms, `intercept`, `rounding` and (of a kernel model) `others` sum to `score`: exactly,
    if the sum is rounded once (`math.fsum`).
    Raises TooLarge if the reply would hold too many terms.
    """
    fitted = model.fitted
    names = _names(model)
    width = STRONGEST if names is None else len(names)
    limit = max(1, MAX_TERMS // (width * scores.shape[1]))
    if len(scores) > limit:
        detail = f"explanations of more than {limit} rows of this model; send them in several"
        raise TooLarge("too-many-rows", detail, extra={"limit": limit})
    problems = _problems(model)
    explained = []
    for i, row_scores in enumerate(scores.tolist()):
        row_terms = contributions(fitted, X[i : i + 1])
        row = []
        for k, problem in enumerate(problems):
            row.append(
                {
                    **problem,
                    "score": row_scores[k],
                    "intercept": float(fitted.intercepts[k]),
                    **_parts(row_scores[k], float(fitted.intercepts[k]), row_terms[k], names),
                }
            )
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


def _names(model: LoadedModel) -> list[str] | None:
    """Names of the terms of a linear model; None if it sees kernel values."""
    if model.fitted.kernel is not None:
        return None
    encoder, features = model.fitted.encoder, model.fitted.features
    given = model.columns or [str(i) for i in range(model.n_features)]
    if encoder.is_plain:
        return features.output_names(given)
    if isinstance(features.spec, Identity | Square):
        return given
    return features.output_names(encoder.output_names)
