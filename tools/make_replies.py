"""The replies that the OpenAPI document shows: `make docs` gets them from a running service."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from service.jobs.kinds import KINDS
from service.web.docs import REPLIES
from tests.journeys.server import Server, ok, running
from tests.service.jobs.core.receiver import receiving
from tests.waiting import until
from tools.make_tables import DOCS

FLOWERS = (DOCS / "quickstart.md").read_text().partition("<<END\n")[2].partition("END\n")[0]
ROWS = {"instances": [[1.5, 0.3], [5.4, 2.3]], "outputs": ["label", "decision"]}
CALLBACK = "https://hooks.example.com/svm"
TENSOR = {"name": "X", "shape": [2, 2], "datatype": "FP64", "data": [1.5, 0.3, 5.4, 2.3]}


def recorded() -> dict[str, Any]:
    """One reply for each schema, by its name."""
    callbacks = {"SVM_CALLBACK_HOSTS": "127.0.0.1", "SVM_CALLBACK_SECRET": f"whsec_{'A' * 32}"}
    with (
        tempfile.TemporaryDirectory() as folder,
        receiving() as receiver,
        running(Path(folder) / "var", SVM_WORKERS="1", **callbacks) as server,
    ):
        url = receiver.url("/ok")
        replies = json.dumps(_replies(server, url), sort_keys=True)
        made: dict[str, Any] = json.loads(replies.replace(url, CALLBACK))
        return made


def _replies(server: Server, callback: str) -> dict[str, Any]:
    dataset_id = server.upload(FLOWERS.encode(), name="flowers")["id"]
    spec: dict[str, Any] = {
        "dataset_id": dataset_id,
        "model_name": "iris",
        "solver": {"name": "newton", "C": 10.0},
        "scaling": "standardize",
        "seed": 1,
    }
    job = ok(server.http.post("/v1/jobs", json={**spec, "callback": callback}), 202)
    job_id = server.finished(job)["id"]
    until(lambda: '"delivered"' in server.http.get(f"/v1/jobs/{job_id}/deliveries").text)
    alias = server.http.put(
        "/v1/models/iris/aliases/champion", json={"version": 1}, headers={"If-None-Match": "*"}
    )
    several = {
        **spec,
        "validation": {"fraction": 0.25},
        "grid": {"solver": [{"name": "newton"}], "C": [1.0]},
    }
    del several["solver"], several["model_name"]
    version, one = "/v1/models/iris/versions/1", f"/v1/jobs/{job_id}"
    gets = {
        **_of_kinds(server, several),
        "DatasetRead": f"/v1/datasets/{dataset_id}",
        "DatasetPage": "/v1/datasets",
        "RowPage": f"/v1/datasets/{dataset_id}/rows?page_size=2",
        "JobRead": one,
        "JobPage": "/v1/jobs?kind=train",
        "DeliveryList": f"{one}/deliveries",
        "TraceRead": f"{one}/trace",
        "ModelRead": "/v1/models/iris",
        "ModelPage": "/v1/models",
        "ModelVersionRead": version,
        "ModelVersionPage": "/v1/models/iris/versions",
        "ModelCardRead": f"{version}/card",
        "AliasPage": "/v1/models/iris/aliases",
        "ChangePage": "/v1/audit?resource=models/iris",
        "InfoRead": "/v1/info",
        "ProblemKindRead": "/problems/not-a-number",
        "ServerMetadata": "/v2",
        "ModelMetadata": "/v2/models/iris",
    }
    posts = {
        "DatasetSplitRead": (f"/v1/datasets/{dataset_id}/split", {"fraction": 0.25, "seed": 1}),
        "JobBatchRead": ("/v1/jobs:batch", {"jobs": [spec, {**spec, "solver": {"name": "svc"}}]}),
        "JobPlanRead": ("/v1/jobs?validate_only=true", spec),
        "ComparisonPlanRead": ("/v1/comparisons?validate_only=true", several),
        "PredictionRead": ("/v1/models/iris/predict", ROWS),
        "InferRead": ("/v2/models/iris/infer", {"id": "7", "inputs": [TENSOR]}),
    }
    json_only = {"Accept": "application/json"}
    events = server.http.get(f"{one}/events", headers=json_only)
    return {
        "AliasRead": ok(alias, 201),
        "EventPage": ok(events, 200),
        **{name: ok(server.http.get(path), 200) for name, path in gets.items()},
        **{name: ok(server.http.post(p, json=b), 200, 201) for name, (p, b) in posts.items()},
    }


def _of_kinds(server: Server, comparison: dict[str, Any]) -> dict[str, str]:
    """Where a finished job of each kind but trainings is, and a list of such jobs, by the schemas
    of these replies. The example of comparisons would have too many entries."""
    gets: dict[str, str] = {}
    for kind in KINDS.values():
        if kind.name == "train":
            continue
        body = comparison if kind.name == "compare" else kind.routes.EXAMPLE
        job = ok(server.http.post(kind.path, json=body), 202)
        server.finished(job)
        name = kind.noun.title().replace(" ", "")
        gets |= {f"{name}Read": f"{kind.path}/{job['id']}", f"{name}Page": kind.path}
    return gets


if __name__ == "__main__":
    REPLIES.write_text(json.dumps(recorded(), ensure_ascii=False, indent=1) + "\n")
