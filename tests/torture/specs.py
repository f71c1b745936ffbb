"""Trainings of a few seconds with every solver, and the data for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.solvers import SOLVERS

N_SAMPLES, N_FEATURES, N_CLASSES = 2000, 20, 3

WHOLE: dict[str, Any] = {"duality_gap": 1e-12}  # to the last epoch
_OWN: dict[str, dict[str, Any]] = {
    "pegasos": {
        "solver": {"name": "pegasos", "lambda": 1e-3, "order": "uniform"},
        "stopping": {"max_updates": 1_000_001, **WHOLE},  # ends within an epoch
        "validation": {"fraction": 0.2},
    },
    "kernel-pegasos": {
        "solver": {
            "name": "kernel-pegasos",
            "lambda": 1e-3,
            "kernel": {"name": "gaussian", "gamma": 0.05},
        },
        "stopping": {"max_epochs": 12, **WHOLE},
    },
    "subgradient": {
        "solver": {"name": "subgradient", "C": 1.0, "order": "shuffled-once", "averaging": "all"},
        "stopping": {"max_epochs": 3000, **WHOLE},
        "features": {"name": "square"},
    },
    "gradient-descent": {
        "solver": {
            "name": "gradient-descent",
            "C": 0.01,
            "learning_rate": 1e-4,
            "batch_size": 10,
            "averaging": "suffix",
            "initial": {"random_scale": 0.01},
        },
        "stopping": {"max_epochs": 1000, **WHOLE},
        "scaling": "standardize",
    },
    "dual-coordinate-descent": {
        "solver": {"name": "dual-coordinate-descent", "C": 10.0},
        "stopping": {"max_epochs": 3000, **WHOLE},
        "multiclass": "one-vs-rest",
    },
    "newton": {
        "solver": {"name": "newton", "C": 10.0},
        "stopping": {"max_epochs": 25, **WHOLE},
        "features": {"name": "random-fourier", "n_components": 600, "gamma": 0.05},
    },
    "smo": {
        "solver": {"name": "smo", "C": 100.0, "kernel": {"name": "gaussian", "gamma": 0.05}},
        "stopping": {"max_epochs": 200, **WHOLE},
    },
}
SPECS: dict[str, dict[str, Any]] = {
    name: _OWN.get(name, {"solver": {"name": name}, "stopping": {"max_epochs": 3000, **WHOLE}})
    for name in SOLVERS
}
"""By solver, which is also the name of the model."""


def rows() -> bytes:
    """Three overlapping clouds, as CSV with the label last."""
    random = np.random.default_rng(0)
    codes = np.arange(N_SAMPLES) % N_CLASSES
    X = random.normal(size=(N_SAMPLES, N_FEATURES)) + 0.5 * codes[:, None]
    header = [*(f"x{j}" for j in range(N_FEATURES)), "label"]
    lines = [[*(f"{value:.5f}" for value in x), f"c{k}"] for x, k in zip(X, codes, strict=True)]
    return "".join(",".join(cells) + "\n" for cells in (header, *lines)).encode()
