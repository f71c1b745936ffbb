"""What the course documents report, and what we get: every algorithm, over the real API.

    python -m benchmarks.course_results [--seeds 20]

A row gives the document's figure, ours (median and range over seeds), and the certified gap.
Data files come from `shared/data` beside the repository; rows that need an absent one are left out.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris, make_circles, make_moons

from benchmarks.service_process import Service, running
from svm.matrices import Vector

DATA = Path(__file__).parents[2] / "shared" / "data"

Measure = Callable[[Service, dict[str, Any]], float]


@dataclass(frozen=True)
class Line:
    """One result of a document."""

    document: str
    algorithm: str
    data: str
    reported: str
    unit: str
    spec: dict[str, Any]
    measure: Measure
    seeded: bool = True


def main(seeds: int = 20) -> list[tuple[Line, list[float]]]:
    """Print the table; returns what it shows."""
    results = []
    with running() as service:
        form = "{:22} {:34} {:18} {:>12} {:>9} {:>19} {:>9}"
        print(form.format("document", "algorithm", "data", "reported", "ours", "range", "gap"))
        for dataset, lines in _datasets(service):
            for line in lines:
                count = seeds if line.seeded else 1
                jobs = service.trained(
                    dataset, [{**line.spec, "seed": seed} for seed in range(count)]
                )
                values = [line.measure(service, job) for job in jobs]
                gap = statistics.median(job["certificate"]["relative_gap"] for job in jobs)
                print(
                    form.format(
                        *(line.document, line.algorithm, line.data),
                        f"{line.reported} {line.unit}".strip(),
                        f"{statistics.median(values):.6g}",
                        f"{min(values):.6g} … {max(values):.6g}",
                        f"{gap:.1e}",
                    )
                )
                results.append((line, values))
    return results


def _datasets(service: Service) -> Iterator[tuple[dict[str, Any], list[Line]]]:
    if (DATA / "coding5_train.csv.gz").exists():
        yield service.upload(_file("coding5_train.csv")), list(_digits())
    yield service.upload(_csv(*_separable())), list(_toy())
    yield service.upload(_csv(*make_moons(400, noise=0.2, random_state=0))), list(_moons())
    yield service.upload(_csv(*_circle())), list(_squares())
    yield service.upload(_csv(*load_iris(return_X_y=True))), list(_iris())
    if (DATA / "features.txt.gz").exists():
        tutorial = service.upload(
            _file("features.txt"), labels=_file("target.txt"), header="absent"
        )
        yield tutorial, list(_descents())


def _digits() -> Iterator[Line]:
    rows = [line.split(",") for line in _file("coding5_test.csv").decode().splitlines()[1:]]
    X = [[float(value) for value in row[:-1]] for row in rows]
    error = _test_error(X, [int(row[-1]) for row in rows])
    for intercept in ("none", "free"):
        solver = {"name": "pegasos", "lambda": 1.0, "intercept": intercept}
        spec = {"solver": solver, "stopping": {"max_epochs": 20}}
        name = f"pegasos, intercept {intercept}"
        yield Line("Pegasos", name, "digits 5/6", "3.83", "% err", spec, error)


def _toy() -> Iterator[Line]:
    spec = {"solver": {"name": "pegasos", "lambda": 0.01}, "stopping": {"max_epochs": 20}}
    yield Line("Pegasos", "pegasos", "separable toy", "98.2", "%", spec, _train_accuracy)


def _moons() -> Iterator[Line]:
    kernel = {"name": "gaussian", "gamma": 2.0}
    spec = {
        "solver": {"name": "kernel-pegasos", "lambda": 0.001, "kernel": kernel},
        "stopping": {"max_epochs": 20},
        "validation": {"fraction": 0.3},
    }
    yield Line(
        *("Pegasos", "kernel-pegasos, gaussian", "noisy moons", "96.7", "%"),
        spec,
        _validation_accuracy,
    )


def _squares() -> Iterator[Line]:
    spec = {
        "solver": {"name": "subgradient", "C": 10.0},
        "features": {"name": "square"},
        "stopping": {"max_epochs": 100},
    }
    yield Line(
        *("sub-gradient", "subgradient, square features", "circle", "99", "%"),
        spec,
        _train_accuracy,
    )


def _iris() -> Iterator[Line]:
    spec = {
        "solver": {"name": "newton"},
        "scaling": "standardize",
        "validation": {"fraction": 0.3},
    }
    yield Line("one-vs-one", "newton", "iris", "97.4", "%", spec, _validation_accuracy)


def _descents() -> Iterator[Line]:
    cases = [
        ("batch", "all", 3e-7, 0.25, "57", False),
        ("stochastic", 1, 1e-4, 0.001, "", True),
        ("mini-batch 20", 20, 1e-5, 0.01, "", True),
    ]
    for name, batch_size, rate, epsilon, reported, seeded in cases:
        solver = {
            "name": "gradient-descent",
            "C": 100,
            "batch_size": batch_size,
            "learning_rate": rate,
            "regularizer": "whole",
        }
        spec = {"solver": solver, "stopping": {"cost_change": {"epsilon": epsilon}}}
        about = ("gradient descent", name, "tutorial")
        yield Line(*about, reported, "updates", spec, _updates, seeded)
        cost = "258701.3" if name == "batch" else ""
        yield Line(*about, cost, "cost", spec, _cost, seeded)
    solver = {
        "name": "gradient-descent",
        "C": 100,
        "learning_rate": 3e-7,
        "initial": {"random_scale": 0.01},
    }
    spec = {"solver": solver, "stopping": {"cost_change": {"epsilon": 0.25}}}
    yield Line(
        *("gradient descent", "batch, small random start", "tutorial", "85", "%"),
        spec,
        _train_accuracy,
    )


def _train_accuracy(_: Service, job: dict[str, Any]) -> float:
    return 100.0 * float(job["metrics"]["train"]["accuracy"])


def _validation_accuracy(_: Service, job: dict[str, Any]) -> float:
    return 100.0 * float(job["metrics"]["validation"]["accuracy"])


def _updates(_: Service, job: dict[str, Any]) -> float:
    return float(job["updates"])


def _cost(_: Service, job: dict[str, Any]) -> float:
    return float(job["certificate"]["solver_objective"])


def _test_error(X: list[list[float]], labels: list[int]) -> Measure:
    def measure(service: Service, job: dict[str, Any]) -> float:
        return 100.0 * float(np.mean(np.array(service.predict(job, X)) != labels))

    return measure


def _separable() -> tuple[Vector, Any]:
    """Two clouds with a gap between them."""
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    centers = np.where(labels[:, None] == 1, [2.0, 2.0], [-2.0, -2.0])
    return centers + random.normal(scale=0.7, size=(200, 2)), labels


def _circle() -> tuple[Vector, Any]:
    X, labels = make_circles(500, noise=0.05, factor=0.5, random_state=0)
    return X, labels


def _file(name: str) -> bytes:
    return gzip.decompress((DATA / f"{name}.gz").read_bytes())


def _csv(X: Vector, labels: Any) -> bytes:
    names = ",".join(f"x{j}" for j in range(X.shape[1]))
    rows = (
        ",".join([*map(repr, row.tolist()), str(label)])
        for row, label in zip(X, labels, strict=True)
    )
    return "\n".join([f"{names},label", *rows]).encode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    main(parser.parse_args().seeds)
