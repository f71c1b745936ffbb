"""Concurrent changes with If-Match: one succeeds."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx2
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.data import upload
from tests.service.models.registered_models import RegisteredModels, registered
from tests.service.predictions.predict_paths import served

__all__ = ["registered"]

RACERS = 6


@pytest.mark.torture
@ON_ALL_BACKENDS
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("races", [10, pytest.param(1000, marks=pytest.mark.fuzz)])
def test_each_race_has_one_winner(
    client: TestClient, settings: Settings, registered: RegisteredModels, races: int
) -> None:
    """Of aliases and datasets in turn; the successful change is stored."""
    races = int(os.environ.get("FUZZ_RACES", races)) if races > 10 else races
    for _ in range(RACERS):
        registered.add("iris")
    alias, dataset = "/v1/models/iris/aliases/best", f"/v1/datasets/{upload(client)}"
    with served(create_app(settings)) as url, ThreadPoolExecutor(RACERS) as pool:
        clients = [httpx2.Client(base_url=url, timeout=60) for _ in range(RACERS)]

        def change(racer: int, race: int, path: str, tag: str) -> httpx2.Response:
            headers = {"If-Match": tag}
            if path == alias:
                return clients[racer].put(path, json={"version": racer + 1}, headers=headers)
            return clients[racer].patch(path, json={"name": f"{race}-{racer}"}, headers=headers)

        created = clients[0].put(alias, json={"version": 1}, headers={"If-None-Match": "*"})
        tags = {alias: created.headers["ETag"], dataset: clients[0].get(dataset).headers["ETag"]}
        for race in range(races):
            path = (alias, dataset)[race % 2]
            ask = partial(change, race=race, path=path, tag=tags[path])
            replies = list(pool.map(ask, range(RACERS)))
            (winner,) = (reply for reply in replies if reply.status_code == 200)
            assert sorted(reply.status_code for reply in replies) == [200] + [412] * (RACERS - 1)
            tags[path] = winner.headers["ETag"]
            seen = clients[race % RACERS].get(path)
            assert (seen.headers["ETag"], seen.json()) == (tags[path], winner.json())
        for each in clients:
            each.close()
