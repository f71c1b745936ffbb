"""Nothing that is secret stands where others read it: logs, metrics, replies of the service."""

from __future__ import annotations

from pathlib import Path

from tests.journeys.server import running
from tests.service.jobs.data import csv_of

KEY = "svm_"
VALUE = "confidential-4711"
NUMBER = "31415.92653"


def test_no_key_value_or_path_is_told(tmp_path: Path, compiled: None) -> None:
    """After a whole way, and everything that can go wrong on it."""
    with running(tmp_path / "var", SVM_AUTH="on", SVM_WORKERS="1", SVM_LOG_LEVEL="debug") as server:
        key = (tmp_path / "var" / "first-key").read_text().strip()
        assert key.startswith(KEY)
        replies = [server.http.get("/v1/jobs", headers={"Authorization": f"Bearer {key}x"})]
        server.http.headers["Authorization"] = f"Bearer {key}"
        table = csv_of(60).replace("label", VALUE)
        dataset = server.upload(table.encode())
        job = server.trained(dataset["id"], "m", solver={"name": "pegasos", "lambda": 0.1})
        rows = [[float(NUMBER), 1, 2]]
        ask = server.http.post
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
            server.http.get(f"/v1/jobs?page_token={VALUE}"),
        ]
        artifact = next((tmp_path / "var" / "blobs" / "models").iterdir())
        artifact.write_bytes(artifact.read_bytes()[:-1])
        replies.append(server.http.get(f"/v1/models/m/versions/{job['model']['version']}/artifact"))
        for path in ("/v1/info", "/v1/jobs", "/metrics", "/openapi.json", "/docs", "/"):
            replies.append(server.http.get(path))
        metrics = server.http.get("/metrics").text
    log = server.log.read_text()
    assert len(log.splitlines()) > 10
    secret = key.split("_", 2)[2]  # it may hold more of them
    for text, name in ((log, "log"), (metrics, "metrics")):
        for private in (secret, VALUE, NUMBER, "Traceback"):
            assert private not in text, (name, private)
    for reply in replies:
        for private in (secret, str(tmp_path), "Traceback", "site-packages", "sqlalchemy"):
            assert private not in reply.text, (reply.url, private)
