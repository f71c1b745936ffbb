"""An Idempotency-Key creates one resource: many clients send the same keys while the service is
killed and restarted."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.backends import ON_ALL_BACKENDS
from tests.journeys.server import Server, running
from tests.service.jobs.data import csv_of

DEADLINE_S = 600.0


class Clients:
    """They send every key, in different orders, until each has its reply."""

    def __init__(self, n_keys: int, n_clients: int) -> None:
        self.replies: list[dict[int, tuple[int, bytes, str]]] = [{} for _ in range(n_clients)]
        self.problems: list[str] = []
        self.url = ""
        self._n_keys = n_keys

    def send_all(self, client: int, dataset_id: str) -> None:
        keys = list(range(self._n_keys))
        random.Random(client).shuffle(keys)
        deadline = time.monotonic() + DEADLINE_S
        with httpx2.Client(timeout=30) as http:
            while keys and time.monotonic() < deadline:
                key = keys.pop()
                body = {
                    "dataset_id": dataset_id,
                    "model_name": "once",
                    "solver": {"name": "pegasos", "lambda": 0.1},
                    "tags": {"key": str(key)},
                }
                headers = {"Idempotency-Key": f"key-{key}"}
                try:
                    reply = http.post(f"{self.url}/v1/jobs", json=body, headers=headers)
                except httpx2.TransportError:
                    time.sleep(0.05)
                    keys.insert(0, key)
                    continue
                if reply.status_code == 202:
                    stored = reply.status_code, reply.content, reply.headers["Location"]
                    self.replies[client][key] = stored
                elif reply.status_code in (409, 503):
                    keys.insert(0, key)
                else:
                    self.problems.append(reply.text)


@pytest.mark.torture
def test_keys_create_one_job_each_despite_a_kill(tmp_path: Path, backend: dict[str, str]) -> None:
    """On SQLite and files; `make fuzz` tests all backends."""
    _send_and_kill(tmp_path / "var", backend, n_keys=30, n_clients=6, kills=1)


@pytest.mark.fuzz
@pytest.mark.timeout(1800)
@ON_ALL_BACKENDS
def test_a_thousand_keys_create_one_job_each(tmp_path: Path, backend: dict[str, str]) -> None:
    keys = int(os.environ.get("FUZZ_KEYS", "1000"))
    _send_and_kill(tmp_path / "var", backend, n_keys=keys, n_clients=20, kills=5)


def _send_and_kill(
    data_dir: Path, backend: dict[str, str], n_keys: int, n_clients: int, kills: int
) -> None:
    environment = {f"SVM_{name.upper()}": value for name, value in backend.items()}
    environment |= {"SVM_WORKERS": "0", "SVM_LEASE_S": "1", "SVM_LIMITS__QUEUED_JOBS": "100000"}
    clients = Clients(n_keys, n_clients)
    expected = n_keys * n_clients
    with ThreadPoolExecutor(n_clients) as pool:
        sending: list[Future[None]] = []
        for kill in range(kills + 1):
            with running(data_dir, **environment) as server:
                clients.url = server.url
                if not sending:
                    dataset = server.upload(csv_of().encode())["id"]
                    send = clients.send_all
                    sending = [pool.submit(send, number, dataset) for number in range(n_clients)]
                if kill < kills:
                    _wait(clients, expected * (kill + 1) // (kills + 2))
                    server.process.send_signal(signal.SIGKILL)
                    server.process.wait()
                    continue
                for future in sending:
                    future.result()
                _check(server, clients, n_keys)


def _wait(clients: Clients, replies: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while sum(map(len, clients.replies)) < replies and time.monotonic() < deadline:
        threading.Event().wait(0.01)


def _check(server: Server, clients: Clients, n_keys: int) -> None:
    """Every client has the same reply for a key, and there is one job for each."""
    assert clients.problems == []
    for key in range(n_keys):
        assert len({replies[key] for replies in clients.replies}) == 1
    tags, token = [], None
    while True:
        query = {"page_size": "1000", **({"page_token": token} if token else {})}
        page = server.http.get("/v1/jobs", params=query).json()
        tags += [job["tags"]["key"] for job in page["jobs"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert sorted(map(int, tags)) == list(range(n_keys))
