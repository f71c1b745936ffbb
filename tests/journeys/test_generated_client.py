"""A client generated from `/openapi.json` can upload, train and predict."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.journeys.server import Server

GENERATOR = "openapi-python-client==0.29.1"
FILES = (
    *("text/csv", "text/tab-separated-values", "text/x-libsvm", "application/x-ndjson"),
    *("application/x-npz", "application/x-npy", "application/zip", "image/svg+xml"),
    "application/vnd.apache.parquet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
)
"""Media types of files, which the generator does not know: it would leave their bodies out."""
OPTIONS = ("--path", "openapi.json", "--config", "config.json", "--fail-on-warning")
PROGRAM = """
import io, sys
from svm_service_client import Client, models as m
from svm_service_client.api.datasets import create_dataset
from svm_service_client.api.jobs import create_job, get_job
from svm_service_client.api.models import get_model_version
from svm_service_client.api.predictions import predict
from svm_service_client.types import File

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
lines = [f"{1 + i / 50},0.2,small\\n{5 + i / 50},1.8,large\\n" for i in range(20)]
file = File(io.BytesIO(("length,width,size\\n" + "".join(lines)).encode()), "a.csv", "text/csv")
form = m.CreateDatasetFilesBody(file=file, name="boxes")
dataset = create_dataset.sync(client=client, body=form)
assert dataset.classes == ["large", "small"], dataset
table = {"columns": ["a", "b"], "rows": [[0, 1], [1, 0]], "labels": ["x", "y"]}
body = m.CreateDatasetJsonBody.from_dict(table)
assert create_dataset.sync(client=client, body=body).n_samples == 2

spec = m.JobCreate(
    dataset_id=dataset.id,
    model_name="boxes",
    solver=m.Newton(c=10.0),
    validation=m.ValidationSplit(fraction=0.25),
    seed=1,
)
job = create_job.sync(client=client, body=spec)
job = get_job.sync(job.id, client=client, wait_s=50)
assert job.state == "succeeded", job
version = get_model_version.sync(job.model.name, job.model.version, client=client)
assert version.certificate["relative_gap"] <= 1e-3

rows = m.PredictionCreate(instances=[[1.2, 0.2], [5.5, 1.8]])
answer = predict.sync("boxes", client=client, body=rows)
assert answer.label == ["small", "large"], answer
refused = predict.sync("boxes", client=client, body=m.PredictionCreate(instances=[[1.2]]))
assert isinstance(refused, m.ProblemRead), refused
assert refused.code == "feature-mismatch"
"""


@pytest.mark.generated
def test_generated_client_goes_the_whole_way(server: Server, tmp_path: Path) -> None:
    """Upload by form and as JSON, train, wait, predict, and see a problem: all by generated code,
    in an environment that has nothing of ours. The generator warns of nothing."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    document = server.http.get("/openapi.json")
    (tmp_path / "openapi.json").write_bytes(document.content)
    overrides = {"content_type_overrides": dict.fromkeys(FILES, "application/octet-stream")}
    (tmp_path / "config.json").write_text(json.dumps(overrides))  # JSON is YAML
    commands: list[list[str | Path]] = [
        [python, "-m", "pip", "install", "--quiet", GENERATOR],
        # It formats what it made by a command `ruff`, which is beside our Python.
        [python, "-m", "openapi_python_client", "generate", *OPTIONS],
        [python, "-c", PROGRAM, server.url],
    ]
    for command in commands:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "PYTHONPATH": str(tmp_path / "svm-service-client"),
            },
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
