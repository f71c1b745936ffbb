"""Clients generated from `/openapi.json` go the whole way, typed, and the generators warn of
nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.journeys.server import Server
from tools.make_tables import DOCS

pytestmark = pytest.mark.generated

HERE = Path(__file__).parent
GENERATOR = "openapi-python-client==0.29.1"
PROGRAM = """
import io
import sys
from http import HTTPStatus

from svm_service_client import AuthenticatedClient, models as m
from svm_service_client.api.datasets import create_dataset, delete_dataset, get_dataset
from svm_service_client.api.evaluations import create_evaluation, get_evaluation
from svm_service_client.api.jobs import create_job, get_job
from svm_service_client.api.models import delete_model, get_model_version
from svm_service_client.api.predictions import predict
from svm_service_client.types import File

client = AuthenticatedClient(sys.argv[1], token="any", raise_on_unexpected_status=True)
lines = [f"{1 + i / 50},0.2,small\\n{5 + i / 50},1.8,large\\n" for i in range(20)]
file = File(io.BytesIO(("length,width,size\\n" + "".join(lines)).encode()), "a.csv", "text/csv")
form = m.CreateDatasetFilesBody(file=file)
dataset = create_dataset.sync(client=client, body=form, name="boxes")
assert isinstance(dataset, m.DatasetRead) and dataset.id, dataset
assert dataset.classes == ["large", "small"], dataset
table = {"columns": ["a", "b"], "rows": [[0, 1], [1, 0]], "labels": ["x", "y"]}
two = create_dataset.sync(client=client, body=m.CreateDatasetJsonBody.from_dict(table))
assert isinstance(two, m.DatasetRead) and two.n_samples == 2

spec = m.JobCreate(
    dataset_id=dataset.id,
    model_name="boxes",
    solver=m.Newton(c=10.0),
    validation=m.ValidationSplit(fraction=0.25),
    seed=1,
)
plan = create_job.sync(client=client, body=spec, validate_only=True)
assert isinstance(plan, m.JobPlanRead), plan
queued = create_job.sync(client=client, body=spec)
assert isinstance(queued, m.JobRead), queued
job = get_job.sync(queued.id, client=client, wait_s=50)
assert isinstance(job, m.JobRead) and job.state == "succeeded", job
assert isinstance(job.model, m.JobModelRead)
version = get_model_version.sync(job.model.name, job.model.version, client=client)
assert isinstance(version, m.ModelVersionRead)
assert version.certificate["relative_gap"] <= 1e-3

rows = m.PredictionCreate(instances=[[1.2, 0.2], [5.5, 1.8]])
answer = predict.sync("boxes", client=client, body=rows)
assert isinstance(answer, m.PredictionRead)
assert answer.label == ["small", "large"], answer
refused = predict.sync("boxes", client=client, body=m.PredictionCreate(instances=[[1.2]]))
assert isinstance(refused, m.ProblemRead), refused
assert refused.code == "feature-mismatch"

asked = m.EvaluationCreate(dataset_id=dataset.id, model="boxes")
started = create_evaluation.sync(client=client, body=asked)
assert isinstance(started, m.EvaluationRead)
evaluation = get_evaluation.sync(started.id, client=client, wait_s=50)
assert isinstance(evaluation, m.EvaluationRead) and evaluation.accuracy == 1.0, evaluation

deleted = delete_model.sync_detailed("boxes", client=client, force=True)
assert deleted.status_code == HTTPStatus.NO_CONTENT, deleted
assert delete_dataset.sync_detailed(dataset.id, client=client).status_code == 204
gone = get_dataset.sync(dataset.id, client=client)
assert isinstance(gone, m.ProblemRead) and gone.code == "not-found"
"""


def test_python_client_goes_the_whole_way(server: Server, tmp_path: Path) -> None:
    """Upload by form and as JSON, plan, train, wait, predict, evaluate, delete, and see problems:
    all by generated code that mypy has checked, in an environment that has nothing of ours."""
    _save_document(server, tmp_path)
    (tmp_path / "journey.py").write_text(PROGRAM)
    (config,) = re.findall(r"```yaml\n(content_type_overrides:\n.*?)```", _page(), re.DOTALL)
    (tmp_path / "config.yaml").write_text(config)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    options = ("--path", "openapi.json", "--config", "config.yaml", "--fail-on-warning")
    mypy = (sys.executable, "-m", "mypy", "--strict", "--config-file=")
    for command in (
        (python, "-m", "pip", "install", "--quiet", GENERATOR),
        # It formats what it made by a command `ruff`, which is beside our Python.
        (python, "-m", "openapi_python_client", "generate", *options),
        (*mypy, "--python-executable", python, "--no-incremental", "journey.py"),
        (python, "-W", "error", "journey.py", server.url),
    ):
        code = tmp_path / "svm-service-client"
        _run(command, tmp_path, PYTHONPATH=str(code), MYPYPATH=str(code))


@pytest.mark.skipif(not shutil.which("npm"), reason="needs Node.js 20 or later, with npm")
def test_typescript_client_goes_the_whole_way(server: Server, tmp_path: Path) -> None:
    """The same, by types that the strict compiler has checked."""
    _save_document(server, tmp_path)
    for name in ("journey.ts", "package.json"):
        shutil.copy(HERE / name, tmp_path)
    compiler = {"strict": True, "target": "es2022", "module": "nodenext", "types": ["node"]}
    project = {"compilerOptions": compiler, "files": ["journey.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(project))
    _run(("npm", "install", "--no-audit", "--no-fund", "--loglevel=error"), tmp_path)
    generate = ("npx", "openapi-typescript", "openapi.json", "--output", "api.d.ts")
    warnings = _run((*generate, "--default-non-nullable", "false"), tmp_path).lower()
    assert "warn" not in warnings, warnings
    assert "error" not in warnings, warnings
    assert "--default-non-nullable false" in _page()
    _run(("npx", "tsc"), tmp_path)
    assert "the whole way" in _run(("node", "journey.js", server.url), tmp_path)


def _page() -> str:
    return (DOCS / "client.md").read_text()


def _save_document(server: Server, folder: Path) -> None:
    (folder / "openapi.json").write_bytes(server.http.get("/openapi.json").content)


def _run(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """Run a command that must end well; what it wrote."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    written = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}: {written[-4000:]}"
    return written
