"""Replies match the OpenAPI document, for valid and invalid requests by schemathesis, and contain
nothing secret."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from service.jobs.kinds import KINDS
from service.rows.spec import CSV
from tests.journeys.document.links import linked
from tests.journeys.server import Server, ok, running
from tests.seeds import seed_from
from tests.service.jobs.data import csv_of

ENVIRONMENT = {
    "SVM_AUTH": "on",
    "SVM_WORKERS": "1",
    "SVM_LIMITS__QUEUED_JOBS": "100000",
    "SVM_LIMITS__JOB_S": "2",  # so that no job delays the next one for long
}
HERE = Path(__file__).parent
COMMAND = Path(sys.executable).parent / "schemathesis"
KEY = "svm_"
VALUE = "confidential-4711"
NUMBER = "31415.92653"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with API keys and the debug log, and a client with the first key."""
    data_dir = tmp_path_factory.mktemp("locked") / "var"
    with running(data_dir, **ENVIRONMENT, SVM_LOG_LEVEL="debug") as server:
        key = (data_dir / "first-key").read_text().strip()
        server.http.headers["Authorization"] = f"Bearer {key}"
        yield server


def generated_calls(server: Server, folder: Path, *options: str, timeout_s: float) -> int:
    """The number of calls; fails with the findings of schemathesis."""
    seed = str(seed_from("FUZZ_SEED"))
    document = folder / "openapi.json"
    document.write_text(json.dumps(linked(server.http.get("/openapi.json").json())))
    arguments = [
        *(str(COMMAND), "--config-file", str(HERE / "schemathesis.toml"), "run"),
        *(str(document), "--url", server.url, "--no-color", "--seed", seed, "--no-shrink"),
        *("--header", f"Authorization: {server.http.headers['Authorization']}"),
        *("--checks", "all", "--continue-on-failure", "--request-timeout", "30"),
        *("--workers", "1"),  # CPython 3.11 cannot parse sources in two threads: gh-106905
    ]
    done = subprocess.run(
        [*arguments, *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "SCHEMATHESIS_HOOKS": "tests.journeys.document.schemathesis_hooks",
            "FUZZ_KEPT": ",".join(kept(server)),
        },
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    summary = done.stdout[done.stdout.rfind("= SUMMARY =") :]
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    match = re.search(r"(\d+) generated, \1 passed", summary)
    assert match is not None, summary
    return int(match.group(1))


def kept(server: Server) -> list[str]:
    """Create a resource of each kind for the calls; returns names and ids."""
    rows = np.arange(120.0).reshape(30, 4) % 7
    csv = "".join(",".join(map(repr, row.tolist())) + f",{i % 2}\n" for i, row in enumerate(rows))
    dataset = server.upload(csv.encode(), CSV)["id"]
    pegasos, split = {"solver": {"name": "pegasos"}}, {"validation": {"fraction": 0.5}}
    job = server.trained(
        dataset, "iris", **pegasos, **split, calibration="sigmoid", set_alias="candidate"
    )
    ids = ["iris", "candidate", dataset, job["id"]]
    for kind in KINDS.values():
        if kind.name == "train":
            continue
        started = server.finished(ok(server.http.post(kind.path, json=kind.routes.EXAMPLE), 202))
        assert started["state"] == "succeeded", started
        ids.append(started["id"])
    return ids


@pytest.mark.long
def test_replies_match_the_document(locked: Server, tmp_path: Path) -> None:
    """No 5xx, no undocumented status or media type, no reply that differs from its schema."""
    options = ("--phases", "fuzzing", "--max-examples", "1")
    assert generated_calls(locked, tmp_path, *options, timeout_s=100) > 50


def test_no_key_value_or_path_is_disclosed(locked: Server) -> None:
    """In logs, metrics and replies, after many requests and errors."""
    folder = locked.log.parent
    key = (folder / "var" / "first-key").read_text().strip()
    assert key.startswith(KEY)
    wrong = {"Authorization": f"Bearer {key}x"}
    replies = [locked.http.get("/v1/jobs", headers=wrong)]
    table = csv_of(60).replace("label", VALUE)
    dataset = locked.upload(table.encode())
    job = locked.trained(dataset["id"], "m", solver={"name": "pegasos", "lambda": 0.1})
    rows = [[float(NUMBER), 1, 2]]
    ask = locked.http.post
    kind = {"Content-Type": "text/csv"}
    replies += [
        ask("/v1/models/m/predict", json={"instances": rows}),
        ask("/v1/models/m/predict", json={"instances": [[float(NUMBER)]]}),
        ask("/v1/models/m/predict", content=f"{NUMBER},{VALUE}", headers=kind),
        ask("/v1/datasets", content=f"a,k\n{NUMBER},x\n1,", headers=kind),
        ask(
            "/v1/datasets",
            content=b"\x93NUMPY broken",
            headers={"Content-Type": "application/x-npy"},
        ),
        ask("/v1/jobs", content=f'{{"a": "{VALUE}"'),
        ask("/v1/jobs", json={"dataset_id": VALUE}),
        locked.http.get(f"/v1/jobs?page_token={VALUE}"),
    ]
    with closing(sqlite3.connect(folder / "var" / "service.db")) as database, database:
        damage = "UPDATE model_files SET content = x'00' WHERE name LIKE 'rows/models/%'"
        assert database.execute(damage).rowcount > 0
    replies.append(locked.http.get(f"/v1/models/m/versions/{job['model']['version']}/artifact"))
    for path in ("/v1/info", "/v1/jobs", "/metrics", "/openapi.json", "/docs", "/"):
        replies.append(locked.http.get(path))
    metrics = locked.http.get("/metrics").text
    log = locked.log.read_text()
    assert len(log.splitlines()) > 10
    secret = key.split("_", 2)[2]  # the secret can contain underscores
    for text, name in ((log, "log"), (metrics, "metrics")):
        for private in (secret, VALUE, NUMBER, "Traceback"):
            assert private not in text, (name, private)
    for reply in replies:
        for private in (secret, str(folder), "Traceback", "site-packages", "sqlalchemy"):
            assert private not in reply.text, (reply.url, private)


@pytest.mark.fuzz
@pytest.mark.timeout(14_400)
def test_fifty_thousand_calls(locked: Server, tmp_path: Path) -> None:
    """Examples, boundaries of every parameter, generated and linked calls: no 5xx, and no
    undocumented reply."""
    share = int(os.environ.get("FUZZ_SHARE", "100")) / 100
    single, chains = str(round(640 * share)), str(round(600 * share))
    options = ("--phases", "examples,coverage,fuzzing", "--max-examples", single)
    calls = generated_calls(locked, tmp_path, *options, timeout_s=7000)
    options = ("--phases", "stateful", "--max-examples", chains)
    linked = generated_calls(locked, tmp_path, *options, timeout_s=7000)
    print(f"{calls:,} single calls and {linked:,} linked ones")
    assert calls + linked >= 50_000 * share
