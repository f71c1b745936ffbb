from __future__ import annotations

import asyncio
import json

import numpy as np
import orjson
import pytest

from service.common.answerer import Reply
from service.predictions.loaded_models import LoadedModels
from service.predictions.predictor import Predictor
from service.rows.parser import Parser
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline

pytestmark = pytest.mark.one_application

N_CLASSES, N_FEATURES = 12, 4


@pytest.mark.parametrize("outputs", [["explanation"], ["probability"]], ids=str)
def test_long_replies_leave_the_loop_free(
    registered: RegisteredModels, settings: Settings, outputs: list[str]
) -> None:
    """Rows that are quick to read and score may take long to write: other requests continue."""
    random = np.random.default_rng(0)
    fitted = fitted_pipeline(range(N_CLASSES), N_FEATURES)
    held_out = random.normal(size=(200, N_FEATURES))
    codes = np.arange(200) % N_CLASSES
    registered.add("iris", fitted.calibrated("sigmoid", fitted.problem_scores(held_out), codes))
    rows = random.normal(size=(500 if "explanation" in outputs else 2000, N_FEATURES)).round(2)
    body = json.dumps({"instances": rows.tolist(), "outputs": outputs}).encode()
    assert len(body) < 256 * 1024

    async def ask() -> tuple[bytes, int]:
        database = Database(settings.database_url)
        models = LoadedModels(database, registered.registry, 2**30)
        predictor = Predictor(models, settings.limits, Parser(), open_blobs(settings))
        headers = [(b"content-type", b"application/json"), (b"accept", b"application/x-ndjson")]
        call = predictor.call(b"/v1/models/iris/predict", {}, headers)
        assert call is not None
        await models.get("iris", None)  # to be at hand
        replies: list[Reply | Exception] = []
        answering = predictor.submit(call, body, replies.append, alone=True)
        assert answering is not None, "answered in a turn of the loop"
        turns = 0
        while not answering.done():
            await asyncio.sleep(0)
            turns += 1
        database.close()
        (reply,) = replies
        assert isinstance(reply, Reply)
        return reply.body, turns

    reply, turns = asyncio.run(ask())
    assert len(reply.splitlines()) == len(rows)
    assert turns > 20


def test_short_replies_are_told_at_once(registered: RegisteredModels, settings: Settings) -> None:
    """No thread for a few rows, whatever is asked of them."""
    registered.add("iris", columns=["a", "b", "c"])
    body = orjson.dumps({"instances": [[1, 2, 3]], "outputs": ["label", "decision", "explanation"]})

    async def ask() -> list[Reply | Exception]:
        database = Database(settings.database_url)
        models = LoadedModels(database, registered.registry, 2**30)
        predictor = Predictor(models, settings.limits, Parser(), open_blobs(settings))
        call = predictor.call(b"/v1/models/iris/predict", {}, [])
        assert call is not None
        await models.get("iris", None)
        replies: list[Reply | Exception] = []
        assert predictor.submit(call, body, replies.append, alone=True) is None
        database.close()
        return replies

    (reply,) = asyncio.run(ask())
    assert isinstance(reply, Reply)
