"""Requests that arrive together are scored together.

Within one turn of the event loop, rows for the same model are collected and scored by one call:
there is no timer, so a request alone does not wait. A row's result does not depend on the
other rows, so batching changes no bit.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from anyio import CapacityLimiter, to_thread
from numpy.typing import NDArray

from service.errors import Unavailable
from service.models.outputs import USUAL, Shares
from service.predictions.explanations import explanations
from service.predictions.loaded_models import LoadedModel
from service.predictions.unknown_cells import UnknownCells, UnknownWords
from service.rows.faults import overflow, too_many
from svm.data.matrices import Matrix, is_sparse
from svm.model.calibration import unlikely_labels
from svm.model.multiclass import label_name

INLINE_WORK = 4_000_000
"""Multiplications, some 3 ms of them, that the event loop does itself; more go to a thread."""
MOST_SCORES = 1 << 25
"""Scores of one request, one for each row and pair of classes: 256 MiB, as much again for votes.
With 26 classes as many as 100,000 rows have."""
MAX_WAITING = 64
"""Requests that may wait for a thread; more are refused."""
RETRY_AFTER_S = 1


class ScoredBatch:
    """The rows of a batch, scored: what requests that came together share."""

    def __init__(
        self,
        model: LoadedModel,
        scores: NDArray[np.float64],
        unknown_words: NDArray[np.int64] | None = None,
    ) -> None:
        self.model = model
        self.scores = scores
        """(n_samples, n_problems)"""
        self.unknown_words = unknown_words
        """(n_samples,) how many words of each row no training text had; None without texts."""

    @cached_property
    def codes(self) -> list[int]:
        """The class of each row, by its number."""
        if self.scores.size == 1:  # sooner than by arrays
            return [1 if self.scores.item() > 0.0 else 0]
        codes: list[int] = self.model.fitted.codes_from_decision(self.decision).tolist()
        return codes

    @cached_property
    def decision(self) -> NDArray[np.float64]:
        """(n_samples,) for two classes, else (n_samples, n_classes)."""
        return self.model.fitted.decision_from_scores(self.scores)

    @cached_property
    def probability(self) -> NDArray[np.float64]:
        """(n_samples, n_classes), of a calibrated model."""
        return self.model.fitted.probabilities_from_scores(self.scores)

    @cached_property
    def value(self) -> NDArray[np.float64]:
        """(n_samples,), of a model of numbers."""
        return self.model.fitted.values_from_scores(self.scores)


class Instances(NamedTuple):
    """What a body asks for."""

    X: Matrix
    """The rows to predict, (n_samples, n_features): finite and of the model's width."""
    outputs: tuple[str, ...]
    """What to answer, of the model's offer."""
    unknown: UnknownCells | None = None
    """The cells that the model does not know; None if there is none."""
    ignored: tuple[str, ...] = ()
    """Names of columns that the model does not use."""
    binary: frozenset[str] = frozenset()
    """Outputs that the Open Inference Protocol sends as bytes."""
    id: str | None = None
    """The request's own, in that protocol."""
    shares: Shares = USUAL


class Prediction(NamedTuple):
    """One request's part of a batch."""

    X: Matrix
    batch: ScoredBatch
    start: int
    stop: int

    @property
    def model(self) -> LoadedModel:
        return self.batch.model

    @property
    def codes(self) -> list[int]:
        """The class of each row, by its number."""
        return self.batch.codes[self.start : self.stop]

    @property
    def scores(self) -> NDArray[np.float64]:
        return self.batch.scores[self.start : self.stop]

    @property
    def decision(self) -> NDArray[np.float64]:
        return self.batch.decision[self.start : self.stop]

    @property
    def probability(self) -> NDArray[np.float64]:
        return self.batch.probability[self.start : self.stop]

    @property
    def unlikely_labels(self) -> list[int]:
        """The rows, from 1, whose label is not the class with the largest probability; for a
        calibrated model."""
        rows: list[int] = (unlikely_labels(self.probability, np.array(self.codes)) + 1).tolist()
        return rows

    @property
    def unknown_words(self) -> UnknownWords | None:
        """None if there are none."""
        counts = self.batch.unknown_words
        return None if counts is None else UnknownWords.of(counts[self.start : self.stop])

    @property
    def label(self) -> list[Any]:
        classes = self.model.classes
        return [classes[code] for code in self.codes]

    @property
    def explanation(self) -> list[Any]:
        labels = self.label if self.model.classes else []
        return explanations(self.model, self.X, self.scores, labels)

    @property
    def value(self) -> NDArray[np.float64]:
        return self.batch.value[self.start : self.stop]

    def output(self, name: str, shares: Shares) -> Any:
        """One of the model's offer: an array or a list with an entry a row."""
        if name == "interval":
            return self.model.fitted.intervals_from_scores(self.scores, shares.coverage)
        if name == "label_or_none":
            return self._labels_or([*self.model.classes, None], shares)
        return getattr(self, name)

    def array(self, name: str, shares: Shares) -> NDArray[Any]:
        """The same as an array of numbers or texts: of `label_or_none` the texts of labels, and the
        empty one for none."""
        if name == "label":
            labels: NDArray[Any] = self.model.fitted.classes[self.codes]
            return labels
        if name == "label_or_none":
            names = [*map(label_name, self.model.classes), ""]
            return np.array(self._labels_or(names, shares))
        values: NDArray[Any] = self.output(name, shares)
        return values

    def _labels_or(self, labels: Sequence[Any], shares: Shares) -> list[Any]:
        """Those of the rows; the last one is for none."""
        codes = self.model.fitted.codes_or_none(self.scores, shares.withheld)
        return [labels[code] for code in codes.tolist()]


Rows: TypeAlias = NDArray[np.float64]
Deliver: TypeAlias = Callable[[Prediction | Exception], None]

T = TypeVar("T")


class Batcher:
    """Collects rows by model, and keeps long work off the event loop, to which it belongs."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[Matrix, Deliver]]] = {}
        self._threads = CapacityLimiter(max(1, len(os.sched_getaffinity(0))))

    def is_long(self, model: LoadedModel, X: Matrix) -> bool:
        """Whether these rows are scored by themselves, in a thread."""
        return is_sparse(X) or model.work(X) > INLINE_WORK

    def submit(self, model: LoadedModel, X: Matrix, deliver: Deliver) -> None:
        """Have `deliver` called with the answer for X, which is not long, or with what went wrong,
        at the end of this turn of the loop."""
        waiting = self._waiting.get(model.key)
        if waiting is None:
            self._waiting[model.key] = [(X, deliver)]
            asyncio.get_running_loop().call_soon(self._flush, model)
        else:
            waiting.append((X, deliver))

    async def score(self, model: LoadedModel, X: Matrix) -> Prediction:
        """The answer for rows by themselves. Raises as `score_rows`, and Unavailable."""
        if self.is_long(model, X):
            return await self.in_thread(partial(score_rows, model, X))
        return score_rows(model, X)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The result of long work. As many run at once as there are processors, a few wait.

        If the caller leaves, work that has not begun is dropped. Raises Unavailable.
        """
        if self._threads.statistics().tasks_waiting >= MAX_WAITING:
            detail = "too many predictions are waiting; try again shortly"
            raise Unavailable("overloaded", detail, retry_after_s=RETRY_AFTER_S)
        return await to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    def _flush(self, model: LoadedModel) -> None:
        waiting = self._waiting.pop(model.key)
        parts = [X for X, _ in waiting]
        if len(parts) > 1 and sum(map(model.work, parts)) > INLINE_WORK:
            loop = asyncio.get_running_loop()
            scoring = loop.run_in_executor(None, _score_all, model, parts)
            scoring.add_done_callback(lambda done: _deliver(waiting, done.result()))
        else:
            _deliver(waiting, _score_all(model, parts))


def score_rows(model: LoadedModel, X: Matrix) -> Prediction:
    """The answer for rows by themselves. Raises InvalidContent `non-finite-value` for rows so large
    that their scores overflow, and TooLarge `too-many-rows` if many classes make too many scores of
    them."""
    n_problems = len(model.fitted.intercepts)
    if X.shape[0] * n_problems > MOST_SCORES and X.shape[0] > 1:
        raise too_many("rows of this many classes", max(1, MOST_SCORES // n_problems))
    return Prediction(X, _score_batch(model, X), 0, X.shape[0])


def _score_batch(model: LoadedModel, X: Matrix) -> ScoredBatch:
    words = np.zeros(X.shape[0], np.int64) if model.features.text_columns else None
    scores = model.fitted.scores_of_checked(X, words)
    values = scores.ravel()
    # Cheaper than to look at each; the squares may overflow besides.
    if not math.isfinite(values.dot(values)) and not np.isfinite(scores).all():
        raise overflow(np.flatnonzero(~np.isfinite(scores).all(axis=1)), "prediction")
    return ScoredBatch(model, scores, words)


def _score_all(model: LoadedModel, parts: list[Matrix]) -> list[Prediction | Exception]:
    """The answer for each part, or why there is none."""
    try:
        batch = _score_batch(model, model.features.joined(cast(list[Rows], parts)))
    except Exception as error:
        if len(parts) == 1:
            return [error]
        # One part must not fail the others.
        return [result for part in parts for result in _score_all(model, [part])]
    answers: list[Prediction | Exception] = []
    start = 0
    for part in parts:
        stop = start + part.shape[0]
        answers.append(Prediction(part, batch, start, stop))
        start = stop
    return answers


def _deliver(
    waiting: Sequence[tuple[Matrix, Deliver]], results: Sequence[Prediction | Exception]
) -> None:
    for (_, deliver), result in zip(waiting, results, strict=True):
        deliver(result)
