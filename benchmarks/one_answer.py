"""A row has one answer: the same bits alone, in any batch, in every format, online and as a job.

And what the promise costs a lone row: its time against products by BLAS, which give a row other
bits in other company.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.service_process import Service, running
from benchmarks.serving.models import fitted_gaussian, fitted_linear
from service.predictions.batcher import score_rows
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import NO_QUERY
from service.predictions.wire_format import PlainExchange
from service.settings import Limits
from svm.model.pipeline import FittedPipeline

N_FEATURES = 64
SIZES = (1, 7, 64, 4096)
SPECS: dict[str, dict[str, Any]] = {
    "linear": {"solver": {"name": "pegasos"}, "scaling": "standardize"},
    "gaussian": {"solver": {"name": "kernel-pegasos", "kernel": {"name": "gaussian"}}},
}

Values = NDArray[np.float64]


def main(
    linear_rows: int = 1_000_000, gaussian_rows: int = 20_000, http_rows: int = 20_000
) -> dict[str, float]:
    """Print and return how many values differ, and the costs."""
    figures: dict[str, float] = {}
    for name, fitted, rows in (
        ("linear", fitted_linear(N_FEATURES), linear_rows),
        ("gaussian", fitted_gaussian(N_FEATURES), gaussian_rows),
    ):
        figures |= differences(name, fitted, rows)
        figures[f"{name}: time of a lone row / without the promise"] = cost(fitted)
    with running() as service:
        figures |= differences_over_http(service, http_rows)
    for name, figure in figures.items():
        print(f"{name:>60} {figure:8.2f}", flush=True)
    return figures


def differences(name: str, fitted: FittedPipeline, rows: int) -> dict[str, float]:
    """Values that differ from those of one batch, through the handler, by size of the batches."""
    model = LoadedModel(
        "key", name, 1, "", ["no", "yes"], None, N_FEATURES, fitted, fitted.prepare()
    )
    exchange = PlainExchange([(b"content-type", b"application/x-npy")], NO_QUERY, Limits())
    X = np.random.default_rng(0).normal(size=(rows, N_FEATURES))
    expected = fitted.decision_function(X)
    found: dict[str, float] = {}
    for size in SIZES:
        values = np.empty(rows)
        for start in range(0, rows, size):
            asked = exchange.read(_npy(X[start : start + size]), model)
            answer = score_rows(model, asked.X)
            values[start : start + size] = answer.decision
        found[f"{name}: of {rows:,} rows in batches of {size} differ"] = _differing(
            values, expected
        )
    return found


def cost(fitted: FittedPipeline, rounds: int = 31, calls: int = 200) -> float:
    """Of scoring one row, as a share of the same by products of BLAS."""
    x = np.random.default_rng(0).normal(size=(1, N_FEATURES))

    def without() -> Values:
        rows: Any = fitted.scaling.transform(x)
        if fitted.kernel is not None:
            rows_norms = np.einsum("ij,ij->i", rows, rows)
            rows = fitted.kernel.of_products(rows @ vectors.T, rows_norms, norms)
        return np.asarray(rows @ fitted.coefficients.T + fitted.intercepts)

    vectors: Any = np.zeros((1, 1)) if fitted.support_vectors is None else fitted.support_vectors
    norms = np.einsum("ij,ij->i", vectors, vectors)
    ratios = []
    for _ in range(rounds):
        kept = _seconds(lambda: fitted.scores_of_checked(x), calls)
        ratios.append(kept / _seconds(without, calls))
    return statistics.median(ratios)


def differences_over_http(service: Service, rows: int) -> dict[str, float]:
    """Values that differ from those of NPY in one piece, by model and form."""
    random = np.random.default_rng(1)
    X = random.normal(size=(rows, N_FEATURES))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 1, "yes", "no")
    text = _csv(X)
    lines = [f"{row},{label}" for row, label in zip(text.splitlines(), y, strict=True)]
    trained_on = service.upload("\n".join(lines[:2000]).encode(), header="absent")
    to_predict = service.upload(text.encode(), header="absent", target="none")
    found: dict[str, float] = {}
    for name, spec in SPECS.items():
        jobs = [{"model_name": name, "stopping": {"max_epochs": 2}, **spec}]
        service.finished(service.train(trained_on, jobs))
        path = f"/v1/models/{name}/predict"

        def asked(media_type: str, content: bytes, path: str = path) -> Values:
            headers = {"Content-Type": media_type}
            reply = service.http.post(f"{path}?outputs=decision", content=content, headers=headers)
            return np.array(reply.raise_for_status().json()["decision"])

        forms: dict[str, Callable[[Values], Values]] = {
            "JSON": lambda X: asked(
                "application/json", json.dumps({"instances": X.tolist()}).encode()
            ),
            "CSV": lambda X: asked("text/csv", _csv(X).encode()),
            "NPY": lambda X: asked("application/x-npy", _npy(X)),
            "V2 binary": lambda X, name=name: _infer(service, name, X),  # type: ignore[misc]
        }
        pieces = [X[start : start + 5000] for start in range(0, rows, 5000)]
        expected = np.concatenate([forms["NPY"](piece) for piece in pieces])
        for form, ask in forms.items():
            for size in SIZES[1:]:
                parts = [ask(X[start : start + size]) for start in range(0, rows, size)]
                found[f"{name} over HTTP, {form} in batches of {size}"] = _differing(
                    np.concatenate(parts), expected
                )
        found[f"{name} over HTTP, a batch job"] = _differing(
            _batch(service, name, to_predict["id"]), expected
        )
    return found


def _infer(service: Service, name: str, X: Values) -> Values:
    tensor = {"name": "x", "shape": list(X.shape), "datatype": "FP64"}
    outputs = [{"name": "decision", "parameters": {"binary_data": True}}]
    head = json.dumps({"inputs": [tensor], "outputs": outputs}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    reply = service.http.post(
        f"/v2/models/{name}/infer", content=head + X.tobytes(), headers=headers
    ).raise_for_status()
    return np.frombuffer(reply.content[int(reply.headers["Inference-Header-Content-Length"]) :])


def _batch(service: Service, name: str, dataset_id: str) -> Values:
    body = {"dataset_id": dataset_id, "model": name, "outputs": ["decision"], "format": "npy"}
    reply = service.http.post("/v1/batch-predictions", json=body).raise_for_status()
    where = reply.headers["Location"]
    while (job := service.http.get(where).json())["state"] not in ("succeeded", "failed"):
        time.sleep(0.1)
    content = service.http.get(job["results"]["url"]).raise_for_status().content
    return np.asarray(np.load(io.BytesIO(content)))


def _npy(X: Values) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def _csv(X: Values) -> str:
    return "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())


def _differing(values: Values, expected: Values) -> int:
    return int(np.count_nonzero(values.view(np.int64) != expected.view(np.int64)))


def _seconds(work: Callable[[], object], calls: int) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        work()
    return time.perf_counter() - started


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--linear-rows", type=int, default=1_000_000)
    parser.add_argument("--gaussian-rows", type=int, default=20_000)
    parser.add_argument("--http-rows", type=int, default=20_000)
    main(**vars(parser.parse_args()))
