"""A service is ready when everything that its first requests need is imported and made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from service.settings import Settings
from tests.service.models.registered_models import RegisteredModels, registered

__all__ = ["registered"]

ASK = """
import sys
import time
from pathlib import Path
from starlette.testclient import TestClient
from service.app.application import create_app
from service.predictions.warm_up import warm_up
from service.settings import Settings

settings = Settings(data_dir=Path(sys.argv[1]), workers=0)
app = create_app(settings, (), warm=True)
with TestClient(app, base_url="http://localhost") as client:
    assert "document" in vars(app)
    assert ("numba" in sys.modules) is (sys.argv[3] == "model")
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


@pytest.mark.parametrize("there", ["model", "nothing"])
def test_first_requests_import_and_make_nothing(
    registered: RegisteredModels, settings: Settings, tmp_path: Path, there: str
) -> None:
    """Predictions in all formats, the OpenAPI document and pages: after a start with a model, or
    soon after the first model is made. Numba is not loaded before."""
    imported = tmp_path / "imported"
    command = [sys.executable, "-c", ASK, str(settings.data_dir), str(imported), there]
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
