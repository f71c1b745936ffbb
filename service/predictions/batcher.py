"""Requests that arrive together are scored together.

Within one turn of the event loop, rows for the same model are collected and scored by one call:
there is no timer, so a request alone does not wait. A row's result does not depend on its company,
so batching changes no bit.
"""

from __future__ import annotations

import asyncio

import numpy as np
from anyio import to_thread
from numpy.typing import NDArray

from service.predictions.loaded_models import LoadedModel

Scores = NDArray[np.float64]

INLINE_WORK = 2_000_000
"""Multiplications, some 3 ms of them, that the event loop does itself; more go to a thread."""


class Batcher:
    """Collects rows by model. Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[Scores, asyncio.Future[Scores]]]] = {}

    async def score(self, model: LoadedModel, X: Scores) -> Scores:
        """Decision values of X, (n_samples, n_features): as `FittedPipeline.decision_function`.

        They are not finite where X is so large that they overflow.
        """
        if len(X) * model.work_per_row > INLINE_WORK:
            return await to_thread.run_sync(_score, model, X)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Scores] = loop.create_future()
        waiting = self._waiting.setdefault(model.key, [])
        if not waiting:
            loop.call_soon(self._flush, model)
        waiting.append((X, future))
        return await future

    def _flush(self, model: LoadedModel) -> None:
        parts, futures = zip(*self._waiting.pop(model.key), strict=True)
        if sum(map(len, parts)) * model.work_per_row <= INLINE_WORK:
            _deliver(futures, _score_all(model, parts))
            return
        loop = asyncio.get_running_loop()
        scoring = loop.run_in_executor(None, _score_all, model, parts)
        scoring.add_done_callback(lambda done: _deliver(futures, done.result()))


def _score(model: LoadedModel, X: Scores) -> Scores:
    with np.errstate(over="ignore", invalid="ignore"):
        return model.fitted.decision_function(X)


def _score_all(model: LoadedModel, parts: tuple[Scores, ...]) -> list[Scores | Exception]:
    """The scores of each part, or why there are none."""
    try:
        scores = _score(model, parts[0] if len(parts) == 1 else np.concatenate(parts))
    except Exception as error:
        if len(parts) == 1:
            return [error]
        # One part must not fail the others.
        return [result for part in parts for result in _score_all(model, (part,))]
    ends = np.cumsum([len(part) for part in parts])
    return [scores[end - len(part) : end] for part, end in zip(parts, ends, strict=True)]


def _deliver(
    futures: tuple[asyncio.Future[Scores], ...], results: list[Scores | Exception]
) -> None:
    for future, result in zip(futures, results, strict=True):
        if future.done():  # its request was canceled
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
