"""Writes the golden files of the current format; run it when the format number grows.

python -m tests.service.models.golden.make
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from service.models import artifacts
from svm.model.serialization import FORMAT
from tests.service.models.registered_models import fitted_pipeline

HERE = Path(__file__).parent


def main() -> None:
    fitted = fitted_pipeline(("setosa", "versicolor", "virginica"), 4, seed=1, scaled=True)
    path = HERE / f"format-{FORMAT}.joblib"
    digest = artifacts.dump(fitted, path)
    X = np.random.default_rng(2).normal(size=(5, 4))
    expected = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "digest": digest,
        "X": X.tolist(),
        "decision": fitted.decision_function(X).tolist(),
        "label": fitted.predict(X).tolist(),
    }
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
