"""Accuracy on tables with texts and gaps: the service's reader and encoder beside skrub's.

    python -m benchmarks.tables [--count 20] [--seed 0]

Both get the same rows of the same folds and train the same SVM: `newton`, C = 1, a certified gap of
1e-3. Ours reads the CSV as an upload does, and encodes with the defaults of a job. The peer is
pandas and `skrub.TableVectorizer`, which needs a median, an indicator of gaps and a scaling of its
numbers and dates for an SVM. Row numbers, R's and those that an upload ignores with a warning (such
as `id`), are left out for both: in a sorted table they are the class. The tables are the first that
`r_tables` finds with 200 … 10,000 rows, without those that an upload refuses.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.r_tables import Table, fitting_tables
from service.errors import ServiceError
from service.rows.parsing_process import read
from service.rows.spec import CSV, Parsed, ParseSpec, ReadLimits, ReadOptions, SentFile
from service.rows.table.left_out import KEY, NUMBERED
from service.rows.table.writers import coded_positions, raw_values
from svm.data.columns import Columns
from svm.data.matrices import Indices, Vector
from svm.data.splitting import fold_numbers
from svm.model.pipeline import Pipeline
from svm.solvers import Newton
from svm.training.training import Training

FOLDS = 5
ROWS = range(200, 10_001)
SVM = Pipeline(solver=Newton(C=1.0))
LARGEST_DIFFERENCE = 0.3
"""Points; more is within the noise of the folds only if their standard error is larger."""
LIMITS = ReadLimits(
    rows=1_000_000,
    columns=20_000,
    sparse_columns=20_000,
    stored_values=100_000_000,
    cell_bytes=4096,
    line_bytes=1_048_576,
    inflated_bytes=100_000_000,
)


@dataclass(frozen=True)
class Uploaded:
    """A table as the service stores it."""

    X: Vector
    """(n_samples, n_columns) raw values."""
    codes: npt.NDArray[Any]
    """(n_samples,) class numbers."""
    columns: Columns
    row_numbers: list[str]
    """Columns that name the rows, and are ignored."""


@dataclass(frozen=True)
class Comparison:
    """Accuracy in percent on the held-out rows of every fold."""

    name: str
    ours: Vector
    """(FOLDS,)"""
    theirs: Vector
    """(FOLDS,)"""

    @property
    def difference(self) -> float:
        """Of the means: ours less theirs, in points."""
        return float(np.mean(self.ours - self.theirs))

    @property
    def standard_error(self) -> float:
        """Of the mean of the folds' differences, in points."""
        return float(np.std(self.ours - self.theirs, ddof=1) / np.sqrt(len(self.ours)))

    @property
    def below(self) -> bool:
        """Whether ours is lower by more than the larger of 0.3 points and one standard error."""
        return self.difference < -max(LARGEST_DIFFERENCE, self.standard_error)

    def __str__(self) -> str:
        means = f"{self.ours.mean():6.2f}  {self.theirs.mean():6.2f}"
        mark = "  below" if self.below else ""
        return f"{self.name:34} {means}  {self.difference:+6.2f}  {self.standard_error:5.2f}{mark}"


def main(count: int = 20, seed: int = 0) -> list[Comparison]:
    """Print and return the comparisons of `count` tables; `seed`: of folds and peer."""
    print(f"{'table':34} {'ours':>6}  {'skrub':>6}  {'diff.':>6}  s.e.")
    comparisons: list[Comparison] = []
    for table in fitting_tables():
        if len(comparisons) == count:
            break
        if len(table.frame) not in ROWS:
            continue
        table = replace(table, frame=table.frame.drop(columns="rownames", errors="ignore"))
        try:
            uploaded = upload(table)
        except ServiceError as error:
            print(f"{table.name:34} refused: {error}")
            continue
        comparisons.append(compared(table, uploaded, seed))
        print(comparisons[-1], flush=True)
    mean = np.mean([comparison.difference for comparison in comparisons])
    below = sum(comparison.below for comparison in comparisons)
    print(f"mean difference {mean:+.2f} points; {below} of {len(comparisons)} tables below")
    return comparisons


def compared(table: Table, uploaded: Uploaded, seed: int) -> Comparison:
    """Both on the same folds."""
    frame = read_by_pandas(table).drop(columns=uploaded.row_numbers)
    folds = fold_numbers(uploaded.codes, FOLDS, seed=seed)
    ours, theirs = [], []
    for fold in range(FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        labels = uploaded.codes[train], uploaded.codes[test]
        pipeline = replace(SVM, scaling="standardize")
        rows = uploaded.X[train], uploaded.X[test]
        ours.append(accuracy(pipeline, rows, labels, uploaded.columns))
        theirs.append(accuracy(SVM, vectorized(frame, train, test, seed), labels, None))
    return Comparison(table.name, np.array(ours), np.array(theirs))


def accuracy(
    pipeline: Pipeline,
    rows: tuple[Vector, Vector],
    labels: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    columns: Columns | None,
) -> float:
    """In percent, on the second rows, of a model trained on the first."""
    training = Training(pipeline, rows[0], labels[0], seed=0, columns=columns)
    for _ in training:
        pass
    predicted = training.result().fitted.predict(rows[1])
    return float(100.0 * np.mean(predicted == labels[1]))


def vectorized(frame: Any, train: Indices, test: Indices, seed: int) -> tuple[Vector, Vector]:
    """Both kinds of rows, by a vectorizer fitted to the first."""
    vectorizer = peer(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of levels that training did not have
        fitted = vectorizer.fit_transform(frame.iloc[train])
        others = vectorizer.transform(frame.iloc[test])
    return np.asarray(fitted, dtype=np.float64), np.asarray(others, dtype=np.float64)


def peer(seed: int) -> Any:
    """`TableVectorizer`, its numbers and dates filled and scaled as in a job. Its encoder of
    columns with 40 levels and more draws random numbers: without a seed, figures vary by run."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from skrub import DatetimeEncoder, StringEncoder, TableVectorizer

    def filled() -> tuple[Any, Any]:
        return SimpleImputer(strategy="median", add_indicator=True), StandardScaler()

    return TableVectorizer(
        high_cardinality=StringEncoder(random_state=seed),
        numeric=make_pipeline(*filled()),
        datetime=make_pipeline(DatetimeEncoder(), *filled()),
    )


def read_by_pandas(table: Table) -> Any:
    """The features, as `pandas.read_csv` reads the same file."""
    import pandas as pd

    return pd.read_csv(io.BytesIO(table.written("comma"))).drop(columns=table.target)


def upload(table: Table) -> Uploaded:
    """As `POST /v1/datasets` with `target` reads it. Raises ServiceError."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored = parsed(table, folder)
        codes = np.load(folder / "y.npy")
        row_numbers = [one["name"] for one in stored.ignored if one["reason"] in (NUMBERED, KEY)]
        arrays = [
            np.load(folder / f"{name}.npy") for name in ("X", "codes") if name in stored.arrays
        ]
        X = raw_values(arrays, coded_positions(stored.table))
    return Uploaded(X, codes, stored.kinds, row_numbers)


def parsed(table: Table, folder: Path) -> Parsed:
    """The table as an upload stores it in the folder. Raises ServiceError."""
    (folder / "data").write_bytes(table.written("comma"))
    spec = ParseSpec(
        file=SentFile(str(folder / "data"), CSV),
        out=str(folder),
        limits=LIMITS,
        asked=ReadOptions(target=table.target),
    )
    return read(spec)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
