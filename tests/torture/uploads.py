"""Datasets are uploaded, read back and deleted, one by one, while processes are killed."""

from __future__ import annotations

import hashlib
import itertools
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np

N_ROWS, N_FEATURES, N_TABLES = 20_000, 20, 4
TIMEOUT_S = 120.0
CSV = "text/csv"
LATER = (502, 503)
"""Statuses that are retried."""


@dataclass
class Uploads:
    """A client with simple retries."""

    urls: list[str]
    seed: int
    done: int = 0
    """Number of datasets that were read back unchanged."""
    sending: bool = False
    """Whether an upload has no reply yet."""
    retries: Counter[str] = field(default_factory=Counter)
    failure: BaseException | None = None
    expected: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Digests of the dataset and of its content by table, from an undisturbed upload."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        header = ",".join([*(f"x{j}" for j in range(N_FEATURES)), "label"])
        cells = np.random.default_rng(self.seed).normal(size=(N_ROWS, N_FEATURES)).round(4)
        lines = [",".join(map(repr, row)) for row in cells.tolist()]
        self._lines = [header, *(f"{line},c{i % 3}" for i, line in enumerate(lines))]

    def start(self) -> None:
        """Record the digests of undisturbed uploads, then continue until `stop`."""
        for table in range(N_TABLES):
            self._upload(table)
        self._thread.start()

    def stop(self) -> None:
        """End after the current upload, and check that no dataset is left."""
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "an upload has no reply"
        self.check()
        page = self._call("GET", "/v1/datasets?page_size=1000").json()["datasets"]
        left = [one["id"] for one in page if str(one["name"]).startswith("table-")]
        assert not left, f"duplicated or not deleted: {left}"

    def check(self) -> None:
        """Raises the error of an upload."""
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            for table in itertools.cycle(range(N_TABLES)):
                if self._stopping.is_set():
                    return
                self._upload(table)
        except BaseException as error:
            self.failure = error

    def _upload(self, table: int) -> None:
        """Upload a table, read it back, and delete it."""
        content = "\n".join([*self._lines[: N_ROWS - table], ""]).encode()
        self.sending = True
        reply = self._call("POST", f"/v1/datasets?name=table-{table}", content)
        self.sending = False
        dataset = reply.json()
        assert reply.status_code in (200, 201), reply.text
        path = f"/v1/datasets/{dataset['id']}"
        reply = self._call("GET", f"{path}/content")
        assert reply.status_code == 200, reply.text
        actual = dataset["matrix_digest"], hashlib.sha256(reply.content).hexdigest()
        assert actual == self.expected.setdefault(table, actual), (table, actual, self.expected)
        assert self._call("GET", path).json()["n_samples"] == N_ROWS - table - 1
        reply = self._call("DELETE", path)
        assert reply.status_code in (204, 404), reply.text  # 404 after a lost reply
        self.done += 1

    def _call(self, method: str, path: str, content: bytes | None = None) -> httpx2.Response:
        """The first reply that is not retried."""
        headers = {"Accept": CSV if path.endswith("/content") else "application/json"}
        if content is not None:
            headers["Content-Type"] = CSV
        deadline = time.monotonic() + TIMEOUT_S
        last: Any = None
        while time.monotonic() < deadline:
            url = self._random.choice(self.urls) + path
            try:
                reply = httpx2.request(method, url, content=content, headers=headers, timeout=60)
            except httpx2.HTTPError as error:
                last = type(error).__name__
            else:
                if reply.status_code not in LATER:
                    return reply
                last = reply.json()["code"]
                assert "Retry-After" in reply.headers, reply.text
            self.retries[last] += 1
            time.sleep(0.1)
        raise AssertionError(f"{method} {path} had no reply: {last}")
