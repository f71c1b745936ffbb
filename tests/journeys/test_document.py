"""schemathesis: thousands of requests made from the OpenAPI document, valid and not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from service.datasets.parsing.spec import CSV
from tests.journeys.server import Server, running

ENVIRONMENT = {
    "SVM_AUTH": "on",
    "SVM_WORKERS": "1",
    "SVM_LIMITS__QUEUED_JOBS": "100000",
    "SVM_LIMITS__JOB_S": "2",  # whatever was asked for, the next job has its turn
}
HERE = Path(__file__).parent
COMMAND = Path(sys.executable).parent / "schemathesis"


def generated_calls(server: Server, folder: Path, *options: str, timeout_s: float) -> int:
    """How many calls all checks passed for; fails with what schemathesis found."""
    key = f"Bearer {(folder / 'var' / 'first-key').read_text().strip()}"
    server.http.headers["Authorization"] = key
    rows = np.arange(120.0).reshape(30, 4) % 7
    csv = "".join(",".join(map(repr, row.tolist())) + f",{i % 2}\n" for i, row in enumerate(rows))
    dataset = server.upload(csv.encode(), CSV)
    server.trained(dataset["id"], "iris", solver={"name": "pegasos"})
    done = subprocess.run(
        [
            *(COMMAND, "--config-file", HERE / "schemathesis.toml", "run"),
            *(f"{server.url}/openapi.json", "--no-color", "--seed", "1", "--no-shrink"),
            *(
                "--header",
                f"Authorization: {key}",
                "--continue-on-failure",
                "--request-timeout",
                "30",
                "--workers",
                "1",  # CPython 3.11 parses no sources in two threads: gh-106905
                *options,
            ),
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "SCHEMATHESIS_HOOKS": "tests.journeys.schemathesis_hooks",
        },
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    found = re.search(r"(\d+) generated", done.stdout)
    assert found is not None, done.stdout[-2000:]
    return int(found.group(1))


def test_replies_are_as_the_document_says(tmp_path: Path) -> None:
    """No 5xx, no status or media type that is not documented, no reply unlike its schema."""
    with running(tmp_path / "var", **ENVIRONMENT) as server:
        options = ("--phases", "fuzzing", "--max-examples", "1")
        assert generated_calls(server, tmp_path, *options, timeout_s=100) > 50


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_twenty_thousand_calls(tmp_path: Path) -> None:
    """Every boundary of every parameter, and sequences of calls that hang together."""
    examples = os.environ.get("FUZZ_EXAMPLES", "300")
    with running(tmp_path / "var", **ENVIRONMENT) as server:
        calls = generated_calls(
            server,
            tmp_path,
            "--phases",
            "coverage,fuzzing,stateful",
            "--max-examples",
            examples,
            timeout_s=3500,
        )
    print(f"{calls:,} calls")
    assert calls >= 20_000 or examples != "300"
