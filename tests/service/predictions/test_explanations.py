"""Explanations: the terms sum to the score, exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from math import fsum
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent, TooLarge
from service.models.outputs import USUAL
from service.predictions.batcher import Prediction, ScoredBatch
from service.predictions.explanations import (
    MAX_SLOPES,
    MAX_TERMS,
    STRONGEST,
    check_explainable,
)
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import PredictionQuery
from service.predictions.wire_format import PlainExchange
from service.settings import Limits
from svm import (
    GaussianKernel,
    KernelPegasos,
    LinearKernel,
    Newton,
    Nystroem,
    Pipeline,
    Polynomial,
    PolynomialKernel,
    RandomFourier,
    Splines,
    Square,
)
from svm.model.paths import path_work
from svm.model.pipeline import FittedPipeline
from tests.service.models.registered_models import fitted_pipeline
from tests.svm.cases.problems import blobs
from tests.svm.cases.trainings import train

PIPELINES = {
    "linear": Pipeline(solver=Newton(), scaling="standardize"),
    "splines": Pipeline(solver=Newton(), features=Splines()),
    "square": Pipeline(solver=Newton(), features=Square()),
    "products": Pipeline(solver=Newton(), features=Polynomial(degree=3), scaling="min-max"),
    "gaussian": Pipeline(solver=KernelPegasos(kernel=GaussianKernel())),
    "polynomial kernel": Pipeline(
        solver=KernelPegasos(kernel=PolynomialKernel(degree=2)), scaling="standardize"
    ),
    "linear kernel": Pipeline(solver=KernelPegasos(kernel=LinearKernel()), scaling="min-max"),
    "kernel of products": Pipeline(
        solver=KernelPegasos(kernel=GaussianKernel()), features=Polynomial(degree=2)
    ),
    "fourier": Pipeline(
        solver=Newton(), features=RandomFourier(n_components=40), scaling="standardize"
    ),
    "nystroem": Pipeline(solver=Newton(), features=Nystroem(n_components=40), scaling="max-abs"),
}


def loaded(fitted: FittedPipeline, columns: list[str] | None = None) -> LoadedModel:
    classes = fitted.classes.tolist()
    return LoadedModel(
        "key", "m", 1, "digest", classes, columns, fitted.n_features, fitted, fitted.nbytes
    )


def explain(model: LoadedModel, X: np.ndarray[Any, Any]) -> Any:
    return Prediction(X, ScoredBatch(model, model.fitted.problem_scores(X)), 0, len(X)).explanation


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_terms_sum_to_the_score(kind: str, n_classes: int) -> None:
    """To the bit: what rounding did, or what is not listed, is a term of its own."""
    X, labels = blobs(n_classes)
    model = loaded(train(PIPELINES[kind], X, labels).result().fitted)
    rows = X[:20]
    scores = model.fitted.problem_scores(rows)
    for row, row_scores in zip(explain(model, rows), scores.tolist(), strict=True):
        assert [problem["score"] for problem in row] == row_scores
        for problem in row:
            assert len(problem["classes"]) == 2
            assert problem["positive"] == problem["classes"][1]
            sums = {"rounding": list(problem["terms"].values())}
            if "baseline" in problem:
                sums = {"error": [problem["baseline"], *sums["rounding"]]}
            if "support_vectors" in problem:
                listed = [vector["term"] for vector in problem["support_vectors"]]
                assert len(listed) <= STRONGEST
                assert listed == sorted(listed, key=abs, reverse=True)
                sums["rounding"] = [*listed, problem["others"]]
            for rest, parts in sums.items():
                parts.append(problem["intercept"])
                assert fsum([problem[rest], *parts]) == problem["score"]
                if kind != "nystroem":  # whose sum goes through a root of the kernel matrix
                    assert abs(problem[rest]) <= 1e-11 * max(map(abs, parts)) * len(parts)


def test_positive_score_is_for_a_class_against_all_others() -> None:
    """With a problem for each class."""
    X, labels = blobs(3)
    pipeline = Pipeline(solver=Newton(), multiclass="one-vs-rest")
    model = loaded(train(pipeline, X, labels).result().fitted)
    (row,) = explain(model, X[:1])
    assert [one["positive"] for one in row] == model.classes
    assert [one["classes"] for one in row] == [[label] for label in model.classes]


def test_terms_are_named() -> None:
    """By column, or by position; products by their factors; each is weight times value."""
    fitted = fitted_pipeline(n_features=3)
    X = np.array([[1.0, -2.0, 0.5]])
    ((problem,),) = explain(loaded(fitted, ["a", "b", "c"]), X)
    expected = (fitted.coefficients[0] * X[0]).tolist()
    assert problem["terms"] == dict(zip("abc", expected, strict=True))
    ((problem,),) = explain(loaded(fitted), X)
    assert list(problem["terms"]) == ["0", "1", "2"]
    X, labels = blobs(2)
    pipeline = Pipeline(solver=Newton(), features=Polynomial(degree=2))
    model = loaded(train(pipeline, X, labels).result().fitted, [f"x{i}" for i in range(X.shape[1])])
    ((problem,),) = explain(model, X[:1])
    weights = dict(zip(problem["terms"], model.fitted.coefficients[0].tolist(), strict=True))
    for name, term in problem["terms"].items():
        factors = [X[0, int(factor[1:])] for factor in name.split("*")]
        assert term == pytest.approx(weights[name] * float(np.prod(factors)), rel=1e-12)


def test_strongest_vectors_are_those_of_the_kernel_sum() -> None:
    """Index and term are those of the model's own support vectors."""
    X, labels = blobs(2)
    model = loaded(train(PIPELINES["gaussian"], X, labels).result().fitted)
    fitted = model.fitted
    assert fitted.kernel is not None
    ((problem,),) = explain(model, X[:1])
    vectors = np.asarray(fitted.support_vectors)
    values = np.exp(-fitted.kernel.gamma * ((vectors - X[0]) ** 2).sum(axis=1))  # type: ignore[union-attr,operator]
    terms = fitted.coefficients[0] * values
    for vector in problem["support_vectors"]:
        assert vector["term"] == pytest.approx(terms[vector["index"]], rel=1e-9)
    listed = {vector["index"] for vector in problem["support_vectors"]}
    others = [abs(term) for i, term in enumerate(terms) if i not in listed]
    assert max(others) <= min(abs(v["term"]) for v in problem["support_vectors"]) * (1 + 1e-9)


def test_what_cannot_be_explained_is_refused() -> None:
    """A kernel on features of a kernel has no columns; and a reply has an end, of terms and of
    time."""
    X, labels = blobs(2)
    for features in (RandomFourier(n_components=10), Nystroem(n_components=10)):
        pipeline = Pipeline(solver=KernelPegasos(kernel=GaussianKernel()), features=features)
        with pytest.raises(InvalidContent, match="explanation-unsupported"):
            check_explainable(loaded(train(pipeline, X, labels).result().fitted))
    fitted = fitted_pipeline(n_features=1000)
    with pytest.raises(TooLarge, match="too-many-rows"):
        check_explainable(loaded(fitted), np.ones((MAX_TERMS // 1000 + 1, 1000)))
    slow = train(PIPELINES["gaussian"], X, labels).result().fitted
    limit = MAX_SLOPES // path_work(slow)
    assert limit * X.shape[1] < MAX_TERMS
    with pytest.raises(TooLarge) as refused:
        check_explainable(loaded(slow), np.ones((limit + 1, X.shape[1])))
    assert refused.value.extra["limit"] == limit
    many = json.dumps({"instances": [[1.0] * 1000] * (MAX_TERMS // 1000 + 1)}).encode()
    exchange = PlainExchange([], PredictionQuery(outputs="explanation"), Limits())
    with pytest.raises(TooLarge, match="too-many-rows"):  # before they are scored
        exchange.read(many, loaded(fitted))


def test_terms_that_overflow_are_refused() -> None:
    """By the row; its score need not overflow."""
    fitted = replace(
        fitted_pipeline(n_features=2), coefficients=np.array([[1e200, -1e200], [1.0, 1.0]])[:1]
    )
    X = np.array([[1.0, 1.0], [1e150, 1e150]])
    prediction = Prediction(X, ScoredBatch(loaded(fitted), np.ones((2, 1))), 0, 2)
    with pytest.raises(InvalidContent) as refused:
        prediction.output("explanation", USUAL)
    assert [(fault.code, fault.row) for fault in refused.value.faults] == [("non-finite-value", 2)]


def test_rows_are_explained_together_as_alone() -> None:
    X, labels = blobs(3)
    for pipeline in PIPELINES.values():
        model = loaded(train(pipeline, X, labels).result().fitted)
        assert explain(model, X[:6]) == [explain(model, row[None])[0] for row in X[:6]]
