"""A service that is ready has done what its first requests would wait for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from service.settings import Settings
from tests.service.models.registered_models import Shelf, shelf

__all__ = ["shelf"]

ASK = """
import sys
from pathlib import Path
from starlette.testclient import TestClient
from service.app import create_app
from service.settings import Settings

settings = Settings(data_dir=Path(sys.argv[1]), workers=0)
app = create_app(settings, (), warm=True)
with TestClient(app, base_url="http://localhost") as client:
    known = set(sys.modules)
    assert "document" in vars(app)
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


def test_first_requests_import_and_make_nothing(
    shelf: Shelf, settings: Settings, tmp_path: Path
) -> None:
    """Predictions in all forms, the document and pages: after a start with a model."""
    shelf.add("iris")
    imported = tmp_path / "imported"
    command = [sys.executable, "-c", ASK, str(settings.data_dir), str(imported)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert imported.read_text() == ""
