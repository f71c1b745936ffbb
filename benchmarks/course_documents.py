"""What the course documents report, each with the training that should give the same."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris, make_circles, make_moons

from benchmarks.service_process import Service
from svm.data.matrices import Vector

DATA = Path(__file__).parents[2] / "shared" / "data"

Job = dict[str, Any]
Measure = Callable[[Service, Job], float]


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One result of a document."""

    document: str
    algorithm: str
    data: str
    figure: str
    """The result in the document; empty if it gives no number."""
    unit: str
    spec: dict[str, Any]
    """A training request without dataset, model and seed."""
    measure: Measure
    seeded: bool = True
    """Whether another seed gives another result."""
    note: str = ""


def trained(service: Service, seeds: int) -> Iterator[tuple[Reported, list[Job]]]:
    """Every result with a job for each seed."""
    for dataset, results in _documents(service):
        for reported in results:
            count = seeds if reported.seeded else 1
            spec = {"scaling": "none", **reported.spec}
            specs = [{**spec, "seed": seed} for seed in range(count)]
            yield reported, service.finished(service.train(dataset, specs))


def _documents(service: Service) -> Iterator[tuple[dict[str, Any], list[Reported]]]:
    """Datasets, uploaded, each with the results on it; without those whose files are absent."""
    if (DATA / "coding5_train.csv.gz").exists():
        yield service.upload(_file("coding5_train.csv")), list(_digits())
    yield service.upload(as_csv(*_separable())), [_toy()]
    yield service.upload(as_csv(*moons())), [_moons()]
    yield service.upload(as_csv(*_circle())), [_squares()]
    yield service.upload(as_csv(*load_iris(return_X_y=True))), [_iris()]
    if (DATA / "features.txt.gz").exists():
        tutorial = service.upload(
            _file("features.txt"), labels=_file("target.txt"), header="absent"
        )
        yield tutorial, [*_descents(), _random_start()]


def _digits() -> Iterator[Reported]:
    rows = [line.split(",") for line in _file("coding5_test.csv").decode().splitlines()[1:]]
    X = [[float(value) for value in row[:-1]] for row in rows]
    labels = [int(row[-1]) for row in rows]
    for intercept in ("none", "free"):
        solver = {"name": "pegasos", "lambda": 1.0, "intercept": intercept}
        yield Reported(
            document="Pegasos",
            algorithm=f"pegasos, intercept {intercept}",
            data="digits 5/6",
            figure="3.83",
            unit="% test error",
            spec={"solver": solver, "stopping": {"max_epochs": 20}},
            measure=lambda service, job: error(service, job, X, labels),
        )


def _toy() -> Reported:
    return Reported(
        document="Pegasos",
        algorithm="pegasos",
        data="separable toy",
        figure="98.2",
        unit="%",
        spec={"solver": {"name": "pegasos", "lambda": 0.01}, "stopping": {"max_epochs": 20}},
        measure=_train_accuracy,
    )


def _moons() -> Reported:
    kernel = {"name": "gaussian", "gamma": 2.0}
    return Reported(
        document="Pegasos",
        algorithm="kernel-pegasos, Gaussian",
        data="noisy moons",
        figure="96.7",
        unit="% held out",
        spec={
            "solver": {"name": "kernel-pegasos", "lambda": 0.001, "kernel": kernel},
            "stopping": {"max_epochs": 20},
            "validation": {"fraction": 0.3},
        },
        measure=_validation_accuracy,
        note="the document's moons are not available; on ours scikit-learn's SVC has 95.8 too",
    )


def _squares() -> Reported:
    return Reported(
        document="sub-gradient",
        algorithm="subgradient, squares",
        data="circle",
        figure="99",
        unit="%",
        spec={
            "solver": {"name": "subgradient", "C": 10.0},
            "features": {"name": "square"},
            "stopping": {"max_epochs": 100},
        },
        measure=_train_accuracy,
    )


def _iris() -> Reported:
    return Reported(
        document="one-vs-one",
        algorithm="newton, one-vs-one",
        data="iris",
        figure="97.4",
        unit="% held out",
        spec={
            "solver": {"name": "newton"},
            "scaling": "standardize",
            "validation": {"fraction": 0.3},
        },
        measure=_validation_accuracy,
    )


def _descents() -> Iterator[Reported]:
    for name, batch_size, rate, epsilon in (
        ("batch", "all", 3e-7, 0.25),
        ("stochastic", 1, 1e-4, 0.001),
        ("mini-batch", 20, 1e-5, 0.01),
    ):
        solver = {
            "name": "gradient-descent",
            "C": 100,
            "batch_size": batch_size,
            "learning_rate": rate,
            "regularizer": "whole",
        }
        spec = {"solver": solver, "stopping": {"cost_change": {"epsilon": epsilon}}}
        exact = name == "batch"
        for figure, unit, measure in (("57", "updates", _updates), ("258701.3", "cost", _cost)):
            yield Reported(
                document="gradient descent",
                algorithm=f"{name} descent",
                data="tutorial",
                figure=figure if exact else "",
                unit=unit,
                spec=spec,
                measure=measure,
                seeded=not exact,
            )


def _random_start() -> Reported:
    return Reported(
        document="gradient descent",
        algorithm="batch, small random start",
        data="tutorial",
        figure="85",
        unit="%",
        spec={
            "solver": {
                "name": "gradient-descent",
                "C": 100,
                "learning_rate": 3e-7,
                "initial": {"random_scale": 0.01},
            },
            "stopping": {"max_epochs": 1000},
        },
        measure=_train_accuracy,
        note="after 1,000 updates; the tutorial's rule, ε = 0.25, would end it at 58 and 82.5 %",
    )


def _train_accuracy(_: Service, job: Job) -> float:
    return 100.0 * float(job["metrics"]["train"]["accuracy"])


def _validation_accuracy(_: Service, job: Job) -> float:
    return 100.0 * float(job["metrics"]["validation"]["accuracy"])


def _updates(_: Service, job: Job) -> float:
    return float(job["updates"])


def _cost(_: Service, job: Job) -> float:
    return float(job["certificate"]["solver_objective"])


def error(service: Service, job: Job, X: list[list[Any]], labels: list[int]) -> float:
    """Percent of the rows that the job's model gives another label."""
    return 100.0 * float(np.mean(np.array(service.predict(job, X)) != labels))


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


def moons() -> tuple[Vector, Any]:
    """Two interleaved half moons that overlap a little."""
    X, labels = make_moons(400, noise=0.2, random_state=0)
    return X, labels


def as_csv(X: Vector, labels: Any, names: Sequence[str] | None = None) -> bytes:
    """With a header; the label is the last column."""
    header = ",".join([*(names or [f"x{j}" for j in range(X.shape[1])]), "label"])
    rows = (
        ",".join([*map(repr, row.tolist()), str(label)])
        for row, label in zip(X, labels, strict=True)
    )
    return "\n".join([header, *rows]).encode()
