"""What the data plane promises under load, by the server's own protocol over HTTP."""

from __future__ import annotations

import gzip
import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from service.storage.database.signals import STALE_S
from svm.kernel.kernels import GaussianKernel
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.service.predictions.predict_paths import url

__all__ = ["url"]

PATH = "/v1/models/iris/predict"
ALIAS = "/v1/models/iris/aliases/default"
N_FEATURES = 16
CAPACITY = 2_000_000
FORMS = ("application/json", "text/csv", "application/x-npy", "infer")


pytestmark = pytest.mark.one_application(loaded_models_bytes=CAPACITY)


def gaussian(n_classes: int = 3, n_vectors: int = 300) -> FittedPipeline:
    random = np.random.default_rng(0)
    n_pairs = n_classes * (n_classes - 1) // 2
    return FittedPipeline(
        classes=np.arange(n_classes),
        scaling=Scaling("standardize", random.normal(size=N_FEATURES), np.full(N_FEATURES, 2.0)),
        features=FeatureMap(Identity(), N_FEATURES),
        kernel=GaussianKernel(gamma=0.05),
        support_vectors=random.normal(size=(n_vectors, N_FEATURES)),
        coefficients=random.normal(size=(n_pairs, n_vectors)),
        intercepts=random.normal(size=n_pairs),
    )


def asked(
    form: str, X: NDArray[np.float64], client: httpx2.Client, compressed: bool = False
) -> NDArray[np.float64]:
    """The decision values of a request in one of the formats."""
    code = gzip.compress if compressed else bytes
    coding = {"Content-Encoding": "gzip"} if compressed else {}
    if form == "infer":
        tensor = {"name": "x", "shape": list(X.shape), "datatype": "FP64"}
        head = json.dumps({"inputs": [tensor], "outputs": [{"name": "decision"}]}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), **coding}
        content = code(head + X.tobytes())
        reply = client.post("/v2/models/iris/infer", content=content, headers=headers)
        return np.array(reply.json()["outputs"][0]["data"]).reshape(len(X), -1)
    file = io.BytesIO()
    np.save(file, X)
    body = {
        "application/json": json.dumps({"instances": X.tolist()}).encode(),
        "text/csv": "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()).encode(),
        "application/x-npy": file.getvalue(),
    }[form]
    headers = {"Content-Type": form, **coding}
    reply = client.post(f"{PATH}?outputs=decision", content=code(body), headers=headers)
    return np.array(reply.json()["decision"]).reshape(len(X), -1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_rows", [1, 3000])
def test_compressed_body_has_the_same_answer(
    url: str, registered: RegisteredModels, form: str, n_rows: int
) -> None:
    """The same bits, inline and in a thread."""
    registered.add("iris", gaussian())
    X = np.random.default_rng(2).normal(size=(n_rows, N_FEATURES))
    with httpx2.Client(base_url=url, timeout=60) as client:
        plain, compressed = (asked(form, X, client, coded) for coded in (False, True))
    assert plain.tobytes() == compressed.tobytes()


@pytest.mark.parametrize("kind", ["linear", "gaussian"])
def test_row_has_one_answer(url: str, registered: RegisteredModels, kind: str) -> None:
    """In batches of 1, 7, 64 and 4096, in every format: the same bits."""
    fitted = (
        gaussian() if kind == "gaussian" else fitted_pipeline((0, 1, 2), N_FEATURES, scaled=True)
    )
    registered.add("iris", fitted)
    X = np.random.default_rng(1).normal(size=(4100, N_FEATURES))
    expected = fitted.decision_function(X)
    with httpx2.Client(base_url=url, timeout=60) as client:
        for form in FORMS:
            for size, rows in ((1, 10), (7, 70), (64, 256), (4096, 4100)):
                parts = [asked(form, X[i : i + size], client) for i in range(0, rows, size)]
                together = np.concatenate(parts)
                assert together.tobytes() == expected[: len(together)].tobytes(), (form, size)


@pytest.mark.parametrize("moves", [60, pytest.param(1000, marks=pytest.mark.torture)])
def test_alias_moves_under_load(url: str, registered: RegisteredModels, moves: int) -> None:
    """Many times: no error, and every reply carries the values of the version that it names. Moved
    by this process, it is so from the next request on; by another, shortly after."""
    X = np.random.default_rng(1).normal(size=(1, N_FEATURES))
    expected = {}
    for version in (1, 2):
        fitted = fitted_pipeline(n_features=N_FEATURES, seed=version)
        registered.add("iris", fitted)
        expected[version] = fitted.decision_function(X).tolist()
    registered.registry.set_alias("iris", "default", 1, lambda _: None)
    body = json.dumps({"instances": X.tolist(), "outputs": ["decision"]}).encode()
    done = threading.Event()

    def ask() -> set[int]:
        seen = set()
        with httpx2.Client(base_url=url, timeout=60) as client:
            while not done.is_set():
                reply = client.post(PATH, content=body)
                assert reply.status_code == 200
                found = reply.json()
                assert found["decision"] == expected[found["model"]["version"]]
                seen.add(found["model"]["version"])
        return seen

    with ThreadPoolExecutor(3) as threads, httpx2.Client(base_url=url, timeout=60) as client:
        asking = [threads.submit(ask) for _ in range(3)]
        try:
            for step in range(moves):
                version = step % 2 + 1
                if version == 1:
                    registered.registry.set_alias("iris", "default", version, lambda _: None)
                    time.sleep(STALE_S)
                else:
                    tag = {"If-Match": client.get(ALIAS).headers["ETag"]}
                    client.put(ALIAS, json={"version": version}, headers=tag).raise_for_status()
                answered = client.post(PATH, content=body).json()["model"]["version"]
                assert answered == version
        finally:
            done.set()
        assert set().union(*(each.result() for each in asking)) == {1, 2}


def test_one_bad_request_among_a_hundred(url: str, registered: RegisteredModels) -> None:
    """The 99 others get the bits that they get alone."""
    fitted = fitted_pipeline(n_features=N_FEATURES)
    registered.add("iris", fitted)
    X = np.random.default_rng(1).normal(size=(100, N_FEATURES))
    X[37] = 1e308  # finite, but its score is not
    with np.errstate(over="ignore", invalid="ignore"):
        expected = fitted.decision_function(X)
    clients = [httpx2.Client(base_url=url, timeout=60) for _ in range(100)]

    def ask(i: int) -> httpx2.Response:
        body = {"instances": X[i : i + 1].tolist(), "outputs": ["decision"]}
        return clients[i].post(PATH, json=body)

    with ThreadPoolExecutor(100) as threads:
        for _ in range(2):
            replies = list(threads.map(ask, range(100)))
            for i, reply in enumerate(replies):
                if i == 37:
                    assert (reply.status_code, reply.json()["code"]) == (422, "non-finite-value")
                else:
                    assert reply.json()["decision"] == [expected[i]]
    for client in clients:
        client.close()


def test_memory_stays_bounded(url: str, registered: RegisteredModels) -> None:
    """Each of 30 models of 1.6 MB is asked twice; 2 MB are for them."""
    fitted = gaussian(n_classes=2, n_vectors=12_500)
    for number in range(30):
        registered.add(f"m{number}", fitted)
    with httpx2.Client(base_url=url, timeout=60) as client:

        def ask(numbers: range) -> None:
            for number in numbers:
                body = {"instances": [[0.5] * N_FEATURES]}
                reply = client.post(f"/v1/models/m{number}/predict", json=body)
                assert reply.status_code == 200, reply.text

        ask(range(3))
        before = psutil.Process().memory_info().rss
        ask(range(30))
        ask(range(30))
    assert psutil.Process().memory_info().rss - before < 16_000_000
