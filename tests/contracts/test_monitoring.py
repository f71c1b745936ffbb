"""The files in `monitoring` are valid, and use metrics that the service has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.models.registered_models import RegisteredModels, registered

__all__ = ["registered"]

FILES = Path(__file__).parents[2] / "monitoring"
PROMTOOL = shutil.which("promtool")
promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: `apt-get install prometheus` brings it"
)
PANELS: list[dict[str, Any]] = json.loads((FILES / "dashboard.json").read_text())["panels"]
SHOWN = [target["expr"] for panel in PANELS for target in panel["targets"]]
ALERTS = (FILES / "alerts.yml").read_text()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A copy, with a key, and the expressions of the dashboard as rules."""
    shutil.copytree(FILES, tmp_path / "monitoring")
    (tmp_path / "monitoring" / "key").write_text("svm_x")
    exprs = [expr.replace("$__rate_interval", "5m") for expr in SHOWN]
    rules = [{"record": f"panel:{n}", "expr": expr} for n, expr in enumerate(exprs)]
    document = {"groups": [{"name": "dashboard", "rules": rules}]}
    (tmp_path / "monitoring" / "shown.yml").write_text(json.dumps(document))
    return tmp_path / "monitoring"


@promtool
@pytest.mark.parametrize(
    "command",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "alerts.yml"),
        ("check", "rules", "shown.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_finds_no_fault(files: Path, command: tuple[str, ...]) -> None:
    """Neither in the files, nor in the queries of the dashboard; each alert is tested."""
    run = subprocess.run([str(PROMTOOL), *command], cwd=files, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_metrics_and_labels_exist(client: TestClient, registered: RegisteredModels) -> None:
    """Of every query of the dashboard, and of the alerts."""
    registered.add("iris")
    body = {"instances": [[0.1, 0.2, 0.3]]}
    assert client.post("/v1/models/iris/predict", json=body).status_code == 200
    text = client.get("/metrics").text
    for expr in (*SHOWN, ALERTS):
        names = set(re.findall(r"\b(?:svm|process)_\w+", expr))
        assert names
        for name in names:
            stem = re.sub(r"_(bucket|count)$", "", name)
            assert f"# TYPE {name} " in text or f"# TYPE {stem} histogram" in text, name


def test_every_own_metric_is_shown(client: TestClient) -> None:
    """On the dashboard."""
    own = set(
        re.findall(r"# TYPE (svm_\w+) (?:counter|gauge|histogram)", client.get("/metrics").text)
    )
    own -= {name for name in own if name.endswith("_created")}
    assert [name for name in sorted(own) if not any(name in expr for expr in SHOWN)] == []
