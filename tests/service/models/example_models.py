"""Versions of every kind, each trained by a job on its own data, for tests that read them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.engine.worker_process import Worker
from service.settings import Settings

MODELS: dict[str, dict[str, Any]] = {
    "binary": {
        "solver": {"name": "newton", "C": 1.0},
        "scaling": "standardize",
        "validation": {"fraction": 0.3},
        "calibration": "sigmoid",
    },
    "ten": {
        "solver": {"name": "dual-coordinate-descent", "intercept": "augmented", "C": 1.0},
        "scaling": "min-max",
        "validation": {"fraction": 0.3},
        "calibration": "isotonic",
    },
    "kernel": {
        "solver": {"name": "smo", "C": 5.0, "kernel": {"name": "gaussian", "gamma": 0.5}},
        "scaling": "standardize",
    },
    "sparse": {"solver": {"name": "newton", "C": 1.0}, "scaling": "max-abs"},
    "plane": {
        "solver": {"name": "pegasos", "lambda": 0.01},
        "multiclass": "one-vs-rest",
        "stopping": {"max_epochs": 5},
    },
}
"""Name of the model → spec of its job."""
NUMERIC: dict[str, dict[str, Any]] = {
    "prices": {"solver": {"name": "newton"}, "validation": {"fraction": 0.3}},
    "tails": {
        "solver": {"name": "newton", "epsilon": 0.01},
        "validation": {"fraction": 0.3},
        "target_scale": "logarithmic",
    },
    "seen": {"solver": {"name": "smo"}, "scaling": "standardize"},
}
"""The same of numeric targets."""


@dataclass(frozen=True)
class ExampleModels:
    """A running service with one version of each of `MODELS`."""

    client: TestClient
    settings: Settings
    datasets: dict[str, str]
    """Name of the model → id of its data."""

    def train(self, model: str, dataset_id: str, **spec: Any) -> int:
        """Train another version with a worker."""
        body = {"dataset_id": dataset_id, "model_name": model, "seed": 1, **spec}
        reply = self.client.post("/v1/jobs", json=body)
        assert reply.status_code == 202, reply.text
        assert Worker(self.settings, threading.Event()).take_next_job()
        job = self.client.get(f"/v1/jobs/{reply.json()['id']}").json()
        assert job["state"] == "succeeded", job
        version: int = job["model"]["version"]
        return version

    def upload(self, content: str, media_type: str = "text/csv", **query: str) -> str:
        headers = {"Content-Type": media_type}
        reply = self.client.post("/v1/datasets", content=content, headers=headers, params=query)
        assert reply.status_code in (200, 201), reply.text
        dataset_id: str = reply.json()["id"]
        return dataset_id


def rows_of(
    n: int, n_features: int, n_classes: int, seed: int = 0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Overlapping clouds, one for each class."""
    random = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    centers = 2.5 * random.normal(size=(n_classes, n_features))
    return centers[codes] + random.normal(size=(n, n_features)), codes


def csv_of(X: npt.NDArray[np.float64], labels: list[str], names: list[str]) -> str:
    rows = [[*(repr(float(v)) for v in x), label] for x, label in zip(X, labels, strict=True)]
    return "".join(",".join(cells) + "\n" for cells in ([*names, "label"], *rows))


def prices_csv(n: int, *, skewed: bool = False) -> str:
    """A table with a category and gaps, and a price."""
    random = np.random.default_rng(3)
    sizes, noise = random.uniform(50, 200, n), random.normal(scale=5.0, size=n)
    lines = ["size,kind,price"]
    for k, (size, error) in enumerate(zip(sizes.tolist(), noise.tolist(), strict=True)):
        price = size + 40 * (k % 2) + error
        price = math.exp(price / 30) if skewed else 1000 * price
        lines.append(f"{'' if k % 10 == 0 else size},{'ab'[k % 2]},{price:.3f}")
    return "\n".join(lines) + "\n"


def _data(model: str) -> tuple[str, str]:
    """(content, media type)."""
    if model in NUMERIC:
        return prices_csv(120, skewed=model == "tails"), "text/csv"
    if model == "sparse":
        X, codes = rows_of(120, 40, 2, seed=4)
        X = np.where(np.random.default_rng(5).random(X.shape) < 0.2, X, 0.0)
        lines = [
            f"{code} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(x) if value)
            for x, code in zip(X.tolist(), codes, strict=True)
        ]
        return "\n".join(lines), "text/x-libsvm"
    n, d, k = {
        "binary": (120, 5, 2),
        "ten": (300, 8, 10),
        "kernel": (120, 2, 2),
        "plane": (90, 2, 3),
    }[model]
    X, codes = rows_of(n, d, k)
    # Names with characters that are special in XML and formulas.
    names = [f"length $x_{{{j}}}$ <&> é" for j in range(d)]
    return csv_of(X, [f"class <{code}>" for code in codes], names), "text/csv"


@contextmanager
def open_examples(
    folder: Path, models: Mapping[str, Mapping[str, Any]] = MODELS
) -> Iterator[ExampleModels]:
    settings = Settings(data_dir=folder / "var", workers=0)
    with TestClient(create_app(settings)) as client:
        examples = ExampleModels(client, settings, {})
        for model, spec in models.items():
            examples.datasets[model] = examples.upload(*_data(model))
            examples.train(model, examples.datasets[model], **spec)
        yield examples
