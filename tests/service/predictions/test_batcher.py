from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent, TooLarge
from service.predictions.batcher import (
    INLINE_WORK,
    MOST_SCORES,
    Batcher,
    Prediction,
    Rows,
    score_rows,
)
from service.predictions.loaded_models import LoadedModel
from svm.model.pipeline import FittedPipeline
from tests.service.models.registered_models import fitted_pipeline


@dataclass(frozen=True, kw_only=True)
class Watched(FittedPipeline):
    """A real model that notes how many rows each call scored, and refuses rows of 13."""

    calls: list[int] = field(default_factory=list)

    def scores_of_checked(self, X: Any, unknown_words: Any = None) -> Rows:
        self.calls.append(len(X))
        if (X == 13).any():
            raise ArithmeticError("13")
        return super().scores_of_checked(X, unknown_words)


def watched(
    key: str = "a", n_classes: int = 2, n_features: int = 64, kind: type[Watched] = Watched
) -> LoadedModel:
    parts = fitted_pipeline(tuple(range(n_classes)), n_features, scaled=True)
    fitted = kind(
        classes=parts.classes,
        scaling=parts.scaling,
        features=parts.features,
        coefficients=parts.coefficients,
        intercepts=parts.intercepts,
    )
    return LoadedModel(
        key, "m", 1, "d", fitted.classes.tolist(), None, n_features, fitted, fitted.nbytes
    )


def calls(model: LoadedModel) -> list[int]:
    assert isinstance(model.fitted, Watched)
    return model.fitted.calls


def some_rows(*sizes: int, n_features: int = 64) -> list[Rows]:
    random = np.random.default_rng(0)
    return [random.normal(size=(size, n_features)) for size in sizes]


async def answer_of(batcher: Batcher, model: LoadedModel, X: Rows) -> Prediction | Exception:
    """By itself if it is long, else with others, as the predictor has it."""
    if batcher.is_long(model, X):
        return await batcher.score(model, X)
    answered: asyncio.Future[Prediction | Exception] = asyncio.get_running_loop().create_future()
    batcher.submit(model, X, answered.set_result)
    return await answered


async def score_together(model: LoadedModel, parts: list[Rows]) -> list[Any]:
    batcher = Batcher()
    answers = await asyncio.gather(*(answer_of(batcher, model, part) for part in parts))
    return [answer.scores if isinstance(answer, Prediction) else answer for answer in answers]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_company_changes_no_bit(n_classes: int) -> None:
    """A row's values are the same alone and in any batch, and come back to who asked."""
    model = watched(n_classes=n_classes)
    parts = some_rows(1, 3, 100, 1, 17)
    together = asyncio.run(score_together(model, parts))
    for part, scores in zip(parts, together, strict=True):
        rows = [model.fitted.problem_scores(part[i : i + 1]) for i in range(len(part))]
        assert scores.tobytes() == np.concatenate(rows).tobytes()


def test_requests_of_one_turn_are_scored_by_one_call() -> None:
    """And the next turn's by the next call."""
    model = watched()

    async def ask() -> None:
        batcher = Batcher()
        for _ in range(2):
            await asyncio.gather(*(answer_of(batcher, model, part) for part in some_rows(1, 2, 3)))

    asyncio.run(ask())
    assert calls(model) == [6, 6]


def test_models_are_not_mixed() -> None:
    """Each request is scored by its own model."""
    a, b = watched("a"), replace(watched("b"), fitted=fitted_pipeline(n_features=64, seed=9))
    (X,) = some_rows(4)

    async def ask() -> list[Prediction | Exception]:
        batcher = Batcher()
        return await asyncio.gather(*(answer_of(batcher, model, X) for model in (a, b, a)))

    for model, answer in zip((a, b, a), asyncio.run(ask()), strict=True):
        assert isinstance(answer, Prediction)
        assert answer.scores.tobytes() == model.fitted.problem_scores(X).tobytes()


def test_one_bad_request_fails_alone() -> None:
    """The others of its batch are answered."""
    good, bad, other = some_rows(2, 2, 2)
    bad[0, 0] = 13
    model = watched()
    results = asyncio.run(score_together(model, [good, bad, other]))
    assert isinstance(results[1], ArithmeticError)
    assert results[0].tobytes() == model.fitted.problem_scores(good).tobytes()
    assert results[2].tobytes() == model.fitted.problem_scores(other).tobytes()


@dataclass(frozen=True, kw_only=True)
class Patient(Watched):
    """Scores beside the loop, once that has gone on."""

    loop_went_on: threading.Event = field(default_factory=threading.Event)

    def scores_of_checked(self, X: Any, unknown_words: Any = None) -> Rows:
        assert threading.current_thread() is not threading.main_thread()
        assert self.loop_went_on.wait(10)
        return super().scores_of_checked(X, unknown_words)


@pytest.mark.parametrize("n_requests", [1, 200])
def test_much_work_leaves_the_loop_free(n_requests: int) -> None:
    """A large request, or many small ones together, are scored in a thread; others continue."""
    model = watched(kind=Patient)
    assert isinstance(model.fitted, Patient)
    loop_went_on = model.fitted.loop_went_on
    n_rows = 4 * INLINE_WORK // model.work_per_row
    parts = [np.ones((n_rows // n_requests, 64))] * n_requests

    async def ask() -> None:
        batcher = Batcher()
        scoring = asyncio.gather(*(answer_of(batcher, model, part) for part in parts))
        for _ in range(4):
            await asyncio.sleep(0.0005)
        assert not scoring.done()
        loop_went_on.set()
        for answer in await scoring:
            assert isinstance(answer, Prediction)
            assert len(answer.scores) == len(parts[0])

    asyncio.run(ask())
    assert len(calls(model)) == 1


def test_small_request_does_not_wait_for_a_large_one() -> None:
    """Even if they arrive together."""
    model = watched()
    large = np.ones((4 * INLINE_WORK // model.work_per_row, 64))
    asyncio.run(score_together(model, [large, *some_rows(1, 2)]))
    assert sorted(calls(model)) == [3, len(large)]


def test_overflowing_rows_are_named() -> None:
    """A score that is not finite is an error; the other requests of the batch are answered."""
    (good,) = some_rows(3)
    bad = np.concatenate([good[:1], np.full((1, 64), 1e308), good[1:2], np.full((1, 64), -1e308)])
    for n_classes in (2, 3):
        error, scores = asyncio.run(score_together(watched(n_classes=n_classes), [bad, good]))
        assert isinstance(error, InvalidContent)
        assert (error.code, [fault.row for fault in error.faults]) == ("non-finite-value", [2, 4])
        assert np.isfinite(scores).all()


def test_rows_of_many_classes_are_as_many_as_memory_allows() -> None:
    """A hundred classes make 4,950 scores of every row: 100,000 rows would take 8 GB."""
    model = watched(n_classes=100, n_features=2)
    most = MOST_SCORES // 4950
    with pytest.raises(TooLarge) as caught:
        score_rows(model, np.ones((most + 1, 2)))
    assert (caught.value.code, caught.value.extra) == ("too-many-rows", {"limit": most})
    assert calls(model) == []
    assert len(score_rows(model, np.ones((200, 2))).codes) == 200
