"""A training calls back when it has ended, in a service with workers."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.journeys.server import running
from tests.service.jobs.core.receiver import receiving
from tests.service.jobs.data import csv_of

SECRET = f"whsec_{base64.b64encode(b'0123456789abcdef0123456789abcdef').decode()}"


@pytest.mark.long
def test_training_calls_back(tmp_path: Path) -> None:
    """The worker that ends the job wakes the API, which sends the callback; one that ends a job of
    a killed service is sent by the next."""
    environment = {"SVM_CALLBACK_HOSTS": "localhost, 127.0.0.1, ::1", "SVM_CALLBACK_SECRET": SECRET}
    with receiving() as receiver:
        url = receiver.url("/ok", "localhost")
        with running(tmp_path / "var", **environment) as server:
            dataset = server.upload(csv_of().encode())["id"]
            spec = {"solver": {"name": "newton"}, "callback": url}
            job = server.trained(dataset, "clouds", **spec)
            [request] = receiver.wait(1)
            body = Webhook(SECRET).verify(request.body, request.headers)
            assert body["type"] == "job.succeeded"
            assert body["data"]["id"] == job["id"]
            assert body["data"]["model"] == {"name": "clouds", "version": 1}
            assert request.headers["host"] == f"localhost:{receiver.port}"
            assert request.headers["content-type"] == "application/json"
            last = server.train(dataset, "clouds", **spec)
            server.process.kill()
            server.process.wait()
        with running(tmp_path / "var", **environment) as server:
            assert server.finished(last)["state"] == "succeeded"
            assert json.loads(receiver.wait(2)[1].body)["data"]["id"] == last["id"]
