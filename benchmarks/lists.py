"""Lists, filters, pages and metrics of a service with very many rows: time of one request.

    python -m benchmarks.lists [--rows 100000] [--database-url postgresql://…]

The rows are made here; none of the files that they name is there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import httpx2
import sqlalchemy as sa

from benchmarks.service_process import running
from service.storage.database import Database
from service.storage.database.tables import (
    dataset_tags,
    datasets,
    job_tags,
    jobs,
    model_aliases,
    model_versions,
    models,
)

AT_ONCE = 2000
BUSY = "model-0"
"""A model with a tenth of all versions and jobs."""
KINDS = ("train", "train", "train", "predict", "evaluate", "compare")
APPLIED = {"model": {"name": BUSY, "version": 1}, "outputs": ["label"], "format": "csv"}
"""What the specs of other kinds than trainings say."""
STATES = (*("succeeded",) * 90, *("failed",) * 7, *("canceled",) * 3)
LISTS = {
    "datasets": "/v1/datasets",
    "datasets, 1,000": "/v1/datasets?page_size=1000",
    "datasets, tag of all": "/v1/datasets?tag=project=churn",
    "datasets, tag of few": "/v1/datasets?tag=team=t7",
    "datasets, tag of none": "/v1/datasets?tag=team=none",
    "jobs": "/v1/jobs",
    "jobs, 1,000": "/v1/jobs?page_size=1000",
    **{f"jobs, {kind}": f"/v1/jobs?kind={kind}" for kind in sorted({*KINDS})},
    **{f"jobs, {state}": f"/v1/jobs?state={state}" for state in ("queued", "running", "failed")},
    "jobs, model": f"/v1/jobs?model_name={BUSY}",
    "jobs, model of none": "/v1/jobs?model_name=none",
    "jobs, dataset": "/v1/jobs?dataset_id={dataset}",
    "jobs, tag of all": "/v1/jobs?tag=project=churn",
    "jobs, tag of few": "/v1/jobs?tag=team=t7",
    "jobs, tag of none": "/v1/jobs?tag=team=none",
    "jobs, kind and state": "/v1/jobs?kind=compare&state=running",
    "jobs, model and state": f"/v1/jobs?model_name={BUSY}&state=running",
    "jobs, model and kind": f"/v1/jobs?model_name={BUSY}&kind=compare",
    "jobs, tag and state": "/v1/jobs?tag=project=churn&state=running",
    "jobs, tag and kind": "/v1/jobs?tag=project=churn&kind=compare",
    "jobs, all five": "/v1/jobs?kind=train&state=failed&model_name=model-1&tag=team=t7"
    "&dataset_id={dataset}",
    "evaluations": "/v1/evaluations",
    "evaluations, running": "/v1/evaluations?state=running",
    "evaluations, model": f"/v1/evaluations?model_name={BUSY}",
    "evaluations, tag": "/v1/evaluations?tag=team=t7",
    "comparisons": "/v1/comparisons",
    "comparisons, failed": "/v1/comparisons?state=failed",
    "batch predictions": "/v1/batch-predictions",
    "batch predictions, dataset": "/v1/batch-predictions?dataset_id={dataset}",
    "models": "/v1/models",
    "models, 1,000": "/v1/models?page_size=1000",
    "versions": f"/v1/models/{BUSY}/versions",
    "aliases": f"/v1/models/{BUSY}/aliases",
    "metrics": "/metrics",
    "page: home": "/",
    "page: datasets": "/datasets",
    "page: dataset": "/datasets/{dataset}",
    "page: jobs": "/jobs",
    "page: jobs, failed": "/jobs?state=failed",
    "page: jobs, model": f"/jobs?model_name={BUSY}",
    "page: train": "/train",
    "page: compare": "/compare",
    "page: models": "/models",
}


def main(
    rows: int = 100_000, rounds: int = 20, database_url: str | None = None
) -> dict[str, dict[str, float]]:
    """Print and return milliseconds by list: of its first page, and of the next."""
    with tempfile.TemporaryDirectory() as folder:
        url = database_url or f"sqlite:///{folder}/service.db"
        database = Database(url)
        database.migrate()
        dataset_id = fill(database, rows)
        database.close()
        with running(SVM_DATABASE_URL=url, SVM_DATA_DIR=folder, SVM_WORKERS="0") as service:
            found = {
                name: measure(service.http, path.format(dataset=dataset_id), rounds)
                for name, path in LISTS.items()
            }
    for name, times in found.items():
        print(f"{name:>28}" + "".join(f"  {page} {ms:7.1f} ms" for page, ms in times.items()))
    return found


def measure(http: httpx2.Client, path: str, rounds: int) -> dict[str, float]:
    """The shortest of several times: what else the machine does counts least."""
    times = {"first": _milliseconds(http, path, rounds)}
    content = http.get(path)
    if content.headers["content-type"] == "application/json":
        token = content.json().get("next_page_token")
        if token is not None:
            joint = "&" if "?" in path else "?"
            times["next"] = _milliseconds(http, f"{path}{joint}page_token={token}", rounds)
    return times


def _milliseconds(http: httpx2.Client, path: str, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        http.get(path).raise_for_status()
        times.append(1e3 * (time.perf_counter() - begun))
    return min(times)


def fill(database: Database, rows: int) -> str:
    """Create `rows` datasets, jobs, models and versions; returns the id of a dataset."""
    for table, made in (
        (datasets, _datasets(rows)),
        (dataset_tags, _tag_rows("ds", rows)),
        (models, _models(rows)),
        (model_versions, _versions(rows)),
        (model_aliases, _aliases(rows)),
        (jobs, _jobs(rows)),
        (job_tags, _tag_rows("job", rows)),
    ):
        while some := list(islice(made, AT_ONCE)):
            with database.write() as connection:
                connection.execute(sa.insert(table), some)
    return _id("ds", 7)


def _id(prefix: str, number: int) -> str:
    return f"{prefix}_{number:032x}"


def _tags(number: int) -> dict[str, str]:
    return {"project": "churn", "team": f"t{number % 1000}", "run": str(number)}


def _tag_rows(prefix: str, rows: int) -> Iterator[dict[str, Any]]:
    for number in range(rows):
        for key, value in _tags(number).items():
            yield {
                "id": _id(prefix, number),
                "key": key,
                "value": value,
                "number": number,
            }


def _datasets(rows: int) -> Iterator[dict[str, Any]]:
    names = [f"column {k}" for k in range(20)]
    column = {"min": 0.1, "max": 7.25, "mean": 3.1415, "std": 1.5}
    columns = {name: [value] * len(names) for name, value in column.items()}
    for number in range(rows):
        yield {
            "id": _id("ds", number),
            "name": f"upload {number}",
            "created_at": 1e9 + number,
            "number": number,
            "last_upload": number,
            "format": "text/csv",
            "size_bytes": 24_000,
            "n_samples": 300_000,  # more than the pages read
            "n_features": len(names),
            "sparse": False,
            "target": "kind",
            "columns": names,
            "classes": ["a", "b"],
            "class_counts": [75, 75],
            "statistics": {"columns": columns, "target": {"distinct": 2}},
            "warnings": [],
            "tags": _tags(number),
            "matrix_digest": f"{number:064x}",
            "upload_key": f"{number:064x}",
            "arrays": {"X": f"{number:064x}", "y": f"{number:064x}"},
            "ignored": [],
        }


def _models(rows: int) -> Iterator[dict[str, Any]]:
    for number in range(rows):
        deleted = 1e9 + number if number % 3 == 2 else None
        yield {
            "name": f"model-{number}",
            "number": number,
            "created_at": 1e9 + number,
            "last_version": 1,
            "deleted_at": deleted,
        }


def _versions(rows: int) -> Iterator[dict[str, Any]]:
    for number in range(rows):
        busy = number % 10 == 0
        yield {
            "model_name": BUSY if busy else f"model-{number}",
            "version": 1 + number // 10 if busy else 1,
            "created_at": 1e9 + number,
            "digest": f"{number:064x}",
            "artifact_key": f"models/artifact_{number:032x}",
            "artifact_sha256": f"{number:064x}",
            "size_bytes": 2_000,
            "classes": ["a", "b"],
            "columns": [f"column {k}" for k in range(20)],
            "n_features": 20,
            "job_id": _id("job", number),
            "dataset_id": _id("ds", number % 1000),
            "dataset_digest": f"{number:064x}",
            "seed": number,
            "spec": _spec(number),
            "result": _result(),
        }


def _aliases(rows: int) -> Iterator[dict[str, Any]]:
    for number in range(0, rows, 2):
        yield {
            "model_name": f"model-{number}",
            "alias": "default",
            "version": 1,
            "revision": 1,
            "updated_at": 1e9,
        }


def _jobs(rows: int) -> Iterator[dict[str, Any]]:
    for number in range(rows):
        waits = number > rows - 300
        yield {
            "id": _id("job", number),
            "number": number,
            "kind": KINDS[number % len(KINDS)],
            "state": "queued" if waits else STATES[number // len(KINDS) % len(STATES)],
            "priority": 0,
            "caller": f"caller-{number % 5}",
            "spec": {**_spec(number), **APPLIED},
            "tags": _tags(number),
            "dataset_id": _id("ds", number % 1000),
            "dataset_digest": f"{number:064x}",
            "model_name": BUSY if number % 10 == 0 else f"model-{number % 1000}",
            "model_version": None if waits else 1,
            "created_at": 1e9 + number,
            "started_at": None if waits else 1e9 + number + 1,
            "finished_at": None if waits else 1e9 + number + 5,
            "attempt": 1,
            "attempts_without_progress": 0,
            "cancel_requested": False,
            "keep_model": False,
            "pause_requested": False,
            "progress": {"fraction": 1.0, "epoch": 20, "updates": 3000, "relative_gap": 0.001},
            "elapsed_s": 3.5,
            "stop_reason": None if waits else "gap-reached",
            "converged": None if waits else True,
            "result": None if waits else _result(),
            "warnings": [],
            "revision": 5,
        }


def _spec(number: int) -> dict[str, Any]:
    return {
        "dataset_id": _id("ds", number % 1000),
        "model_name": f"model-{number % 1000}",
        "solver": {"name": "dual-coordinate-descent", "C": 1.0, "intercept": "augmented"},
        "scaling": "standardize",
        "features": {"name": "identity"},
        "multiclass": "one-vs-one",
        "stopping": {"max_epochs": 1000, "duality_gap": 0.001, "cost_change": None},
        "validation": {"fraction": 0.25, "stratify": True},
        "calibration": None,
        "priority": 0,
        "seed": number,
        "tags": _tags(number),
    }


def _result() -> dict[str, Any]:
    scores = dict.fromkeys(("accuracy", "precision", "recall", "f1", "auc"), 0.875)
    return {
        "epochs": 20,
        "updates": 3000,
        "metrics": {"train": scores, "validation": scores, "folds": [scores] * 5},
        "certificate": {
            "primal": 0.25,
            "dual": 0.2499,
            "gap": 0.0001,
            "relative_gap": 0.0004,
            "status": "certified",
            "pairs": [{"classes": [0, 1], "primal": 0.25, "dual": 0.2499, "gap": 0.0001}],
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--database-url")
    arguments = parser.parse_args()
    main(arguments.rows, arguments.rounds, arguments.database_url)
