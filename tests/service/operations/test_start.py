"""A service is ready when everything that its first requests need is imported and made."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from service.settings import Settings
from svm.kernel.kernels import GaussianKernel
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling
from tests.journeys.server import Server, ok, running
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline, registered

__all__ = ["registered"]

ASK = """
import sys
import time
from pathlib import Path
from starlette.testclient import TestClient
from service.app.application import create_app
from service.predictions.predictor import warm_up
from service.settings import Settings

settings = Settings(data_dir=Path(sys.argv[1]), workers=0)
app = create_app(settings, (), warm=True)
with TestClient(app, base_url="http://localhost") as client:
    assert "document" in vars(app)
    print("started", flush=True)
    input()
    deadline = time.monotonic() + 60
    while not warm_up.cache_info().currsize:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    known = set(sys.modules)
    body = {"instances": [[1, 2, 3]], "outputs": ["label", "decision"]}
    client.post("/v1/models/iris/predict", json=body).raise_for_status()
    csv = {"Content-Type": "text/csv"}
    client.post("/v1/models/iris/predict", content="1,2,3", headers=csv).raise_for_status()
    tensor = {"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}
    client.post("/v2/models/iris/infer", json={"inputs": [tensor]}).raise_for_status()
    for path in ("/openapi.json", "/docs", "/", "/train", "/v1/solvers", "/metrics"):
        client.get(path).raise_for_status()
Path(sys.argv[2]).write_text(" ".join(set(sys.modules) - known))
"""


@pytest.mark.long
@pytest.mark.parametrize("there", ["model", "nothing"])
def test_first_requests_import_and_make_nothing(
    registered: RegisteredModels, settings: Settings, tmp_path: Path, there: str
) -> None:
    """Predictions in all formats, the OpenAPI document and pages: after a start with a model, or
    soon after the first model is made."""
    imported = tmp_path / "imported"
    command = [sys.executable, "-c", ASK, str(settings.data_dir), str(imported)]
    if there == "model":
        registered.add("iris")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        if there == "nothing":
            registered.add("iris")
        _, log = server.communicate("\n", timeout=100)
    assert (said, server.returncode) == ("started\n", 0), log
    assert imported.read_text() == ""


FORMATS = {
    "application/json": b'{"instances": [[1, 2, 3]]}',
    "application/x-ndjson": b"[1, 2, 3]",
    "text/csv": b"1,2,3",
    "text/x-libsvm": b"1:1 2:2 3:3",
}
TENSOR = {"name": "x", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}


def predict(server: Server, model: str) -> None:
    """In all formats of rows, and by the Open Inference Protocol."""
    for media_type, body in FORMATS.items():
        headers = {"Content-Type": media_type}
        ok(server.http.post(f"/v1/models/{model}/predict", content=body, headers=headers), 200)
    ok(server.http.post(f"/v2/models/{model}/infer", json={"inputs": [TENSOR]}), 200)


def gaussian() -> FittedPipeline:
    return FittedPipeline(
        classes=np.array(["no", "yes"]),
        scaling=Scaling(),
        features=FeatureMap(Identity(), 3),
        kernel=GaussianKernel(gamma=1.0),
        support_vectors=np.eye(3),
        coefficients=np.ones((1, 3)),
        intercepts=np.zeros(1),
    )


def test_numba_is_loaded_for_the_first_model_with_a_kernel(
    registered: RegisteredModels, settings: Settings
) -> None:
    """It is there before the first prediction, which does not wait for it. Linear models of two
    classes and of more predict without it. The supervisor has it, so that workers need not load
    it."""
    registered.add("two")
    registered.add("three", fitted_pipeline(("a", "b", "c"), scaled=True))
    with running(settings.data_dir, SVM_WORKERS="1") as server:

        def libraries(pid: int) -> set[str]:
            maps = Path(f"/proc/{pid}/maps").read_text()
            return {name for name in ("llvmlite", "scipy/linalg") if name in maps}

        supervisor = server.processes()[1].pid
        while "llvmlite" not in libraries(supervisor):
            time.sleep(0.05)
        assert psutil.Process(supervisor).num_threads() == 1
        assert not any(
            "service.db" in file.path for file in psutil.Process(supervisor).open_files()
        )
        for model in ("two", "three"):
            predict(server, model)
        assert libraries(server.process.pid) == set()
        registered.add("kernel", gaussian())
        while "llvmlite" not in libraries(server.process.pid):
            time.sleep(0.05)
        predict(server, "kernel")
    with running(settings.data_dir, SVM_WORKERS="0") as server:
        assert "llvmlite" in libraries(server.process.pid)
