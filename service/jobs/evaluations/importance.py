"""How much the accuracy of an evaluated model depends on each column."""

from __future__ import annotations

from typing import Any

import numpy as np

from service.jobs.core.attempts import Attempt
from service.jobs.core.model_columns import class_numbers
from service.jobs.scoring import Scoring
from svm.data.matrices import is_sparse
from svm.model.explanations import permutation_importance

MAX_COLUMNS = 200
MAX_ROWS = 2000
SEED = 0


def importance_of(scoring: Scoring, attempt: Attempt) -> dict[str, Any]:
    """As JSON, the most important columns first. Raises Interrupted."""
    n = scoring.dataset.n_samples
    drawn = np.random.default_rng(SEED).permutation(n)[:MAX_ROWS]
    rows = np.sort(drawn)
    X = scoring.read(rows)
    codes = scoring.data.codes
    assert codes is not None
    numbers = class_numbers(scoring.dataset, scoring.version.classes)[codes[rows]]
    with np.errstate(all="ignore"):
        measured = permutation_importance(
            scoring.fitted,
            X.toarray() if is_sparse(X) else X,
            numbers,
            seed=SEED,
            check=attempt.check,
        )
    names = scoring.version.columns or [f"feature {j}" for j in range(len(measured))]
    falls, errors = measured.T.tolist()
    columns = [
        {"name": names[j], "decrease": falls[j], "standard_error": errors[j]}
        for j in np.argsort(-measured[:, 0], kind="stable").tolist()
    ]
    return {"n_samples": len(rows), "columns": columns}
