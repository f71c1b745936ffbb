"""The estimated peak of a training: above the measured one, and not far above."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from svm.data.columns import Column
from svm.data.texts import StoredTexts, texts_of, with_texts
from svm.encoding.encoder import Encoding
from svm.model.pipeline import Pipeline
from svm.solvers import (
    SMO,
    DualCoordinateDescent,
    GradientDescent,
    KernelPegasos,
    Newton,
    Pegasos,
)
from svm.stopping import Stopping
from svm.training.estimates import DataSize, rows_bytes, training_bytes
from svm.transforms.features import Nystroem, Polynomial, RandomFourier, Square
from tests.svm.cases.stored import stored
from tests.svm.cases.tables import table
from tests.svm.cases.trainings import train

MIB = 1024 * 1024
N, D = 30_000, 40
BLOCKS = Pegasos(order="blocks")


def rows(sparse: bool, n: int, d: int) -> Any:
    if sparse:
        X = csr_array(random_array((n, d), density=0.2, random_state=1).tocsr())
        parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return csr_array(parts, shape=X.shape)
    return np.random.default_rng(1).normal(size=(n, d))


CASES: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "pegasos": ({"solver": BLOCKS}, N, D, 2),
    "many rows": ({"solver": BLOCKS}, 300_000, 2, 2),
    "one-vs-one": ({"solver": BLOCKS}, N, 4, 6),
    "one-vs-rest": ({"solver": BLOCKS, "multiclass": "one-vs-rest"}, N, 4, 6),
    "scaled": ({"solver": BLOCKS, "scaling": "max-abs"}, N, D, 2),
    "single precision": ({"solver": Newton(dtype="float32"), "scaling": "max-abs"}, N, D, 2),
    "squares": ({"solver": BLOCKS, "scaling": "max-abs", "features": Square()}, N, D, 2),
    "fourier": ({"solver": BLOCKS, "features": RandomFourier(n_components=100)}, N, D, 2),
    "nystroem": ({"solver": GradientDescent(), "features": Nystroem(n_components=60)}, N, 20, 2),
    "nystroem newton": ({"solver": Newton(), "features": Nystroem(n_components=60)}, N, 20, 2),
    "nystroem single": (
        {"solver": Newton(dtype="float32"), "features": Nystroem(n_components=60)},
        *(N, 20, 2),
    ),
    "products": ({"solver": Newton(), "features": Polynomial()}, N, 12, 2),
    "newton": ({"solver": Newton()}, 300_000, 8, 2),
    "newton one-vs-one": ({"solver": Newton()}, N, 8, 6),
    "wide": ({"solver": Newton()}, 1500, 1200, 2),
    "dual": ({"solver": DualCoordinateDescent()}, N, D, 2),
    "kernel": ({"solver": KernelPegasos()}, 3000, 10, 2),
    "kernel one-vs-one": ({"solver": SMO()}, 3000, 30, 6),
    "numbers": ({"solver": Newton(loss="epsilon-insensitive")}, 300_000, 8, 2),
    "numbers, kernel": ({"solver": SMO(loss="epsilon-insensitive")}, 3000, 10, 2),
}
DENSE_ONLY = ("nystroem", "nystroem newton", "nystroem single", "products", "wide", "many rows")


@pytest.mark.soundness
@pytest.mark.parametrize("place", ["dense", "csr", "dense files", "csr files"])
@pytest.mark.parametrize("case", CASES)
def test_estimate_covers_the_peak(case: str, place: str, tmp_path: Path) -> None:
    """The memory that NumPy allocates from the first copy to the result."""
    settings, n, d, n_classes = CASES[case]
    sparse, in_files = place.startswith("csr"), place.endswith("files")
    pipeline = Pipeline(**settings, stopping=Stopping(max_epochs=1))
    if (in_files and not pipeline.solver.streams) or (sparse and case in DENSE_ONLY):
        pytest.skip("not offered")
    labels: Any = np.arange(n) % n_classes
    if pipeline.predicts_numbers:
        labels = np.random.default_rng(3).normal(size=n)
    few = slice(0, 60)
    train(pipeline, rows(sparse, 60, d), labels[few])  # loads compiled code
    X = rows(sparse, n, d)
    values = X.nnz if sparse else n * d
    size = DataSize(
        n_samples=n, n_features=d, stored_values=values, sparse=sparse, n_classes=n_classes
    )
    rows_given = stored(X, tmp_path) if in_files else X
    tracemalloc.start()
    train(pipeline, rows_given, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = training_bytes(pipeline, size, in_files=in_files)
    assert peak <= estimate <= 4 * peak + 120 * MIB, (peak / MIB, estimate / MIB)


TABLES: dict[str, tuple[dict[str, Any], int, int]] = {
    "few levels": ({"solver": BLOCKS, "scaling": "standardize"}, N, 4),
    "many levels": ({"solver": BLOCKS, "scaling": "standardize"}, N, 3000),
    "levels that no row has": ({"solver": Newton()}, 3000, -500),
    "dual": ({"solver": DualCoordinateDescent(dtype="float32")}, N, 300),
    "kernel": ({"solver": SMO()}, 2000, 40),
    "fourier": ({"solver": BLOCKS, "features": RandomFourier(n_components=100)}, N, 10),
}


@pytest.mark.parametrize("case", TABLES)
def test_estimate_covers_the_peak_of_a_table(case: str) -> None:
    """With the encoder's copies, in the form that the solver takes."""
    settings, n, n_levels = TABLES[case]
    pipeline = Pipeline(**settings, stopping=Stopping(max_epochs=1))
    X, labels, columns = table(n, n_levels=max(3, n_levels))
    if n_levels < 0:
        unused = tuple(f"unused {k}" for k in range(-n_levels))
        columns = tuple(replace(c, levels=c.levels + unused if c.levels else ()) for c in columns)
    train(pipeline, X[:60], labels[:60], columns=columns)
    size = DataSize(
        n_samples=n,
        n_features=len(columns),
        stored_values=X.size,
        sparse=False,
        n_classes=2,
        table=columns,
    )
    tracemalloc.start()
    train(pipeline, X, labels, columns=columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = training_bytes(pipeline, size, in_files=False)
    assert peak <= estimate <= 4 * peak + 120 * MIB, (peak / MIB, estimate / MIB)


TEXTS: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "messages": ({"solver": DualCoordinateDescent(loss="squared-hinge")}, 6000, 15, 2),
    "words": ({"solver": Newton(), "encoding": Encoding(tokens="words")}, 6000, 15, 2),
    "long ones": ({"solver": Newton(loss="squared-hinge")}, 600, 200, 3),
}


@pytest.mark.spread(3)
@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize("case", TEXTS)
def test_estimate_covers_the_peak_of_texts(case: str, in_files: bool, tmp_path: Path) -> None:
    """With numbers beside them, before a token is known."""
    settings, n, n_words, n_classes = TEXTS[case]
    pipeline = Pipeline(**settings, scaling="standardize", stopping=Stopping(max_epochs=2))
    if in_files and not pipeline.solver.streams:
        pytest.skip("not offered")
    random = np.random.default_rng(0)
    words = np.array([f"w{k:x}" + "aeiou"[k % 5] * (k % 7) for k in range(20_000)])
    chosen = random.zipf(1.4, size=(n, n_words)) % len(words)
    texts = [" ".join(row) for row in words[chosen].tolist()]
    labels = (chosen[:, 0] + random.integers(2, size=n)) % n_classes
    ends = np.cumsum([len(text) for text in texts])
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    raw = np.stack([random.normal(size=n), np.arange(n, dtype=np.float64)], axis=1)
    columns = Column("age"), Column("message", "text", characters=int(ends[-1]))
    X = with_texts(raw, StoredTexts(data, ends))
    size = DataSize(
        n_samples=n,
        n_features=2,
        stored_values=2 * n,
        sparse=False,
        n_classes=n_classes,
        table=columns,
        text_bytes=int(ends[-1]),
    )
    train(pipeline, X[:60], labels[:60], columns=columns)
    rows_given = replace(stored(raw, tmp_path), texts=texts_of(X)) if in_files else X
    tracemalloc.start()
    train(pipeline, rows_given, labels, columns=columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = training_bytes(pipeline, size, in_files=in_files)
    assert peak <= estimate <= 4 * peak + 120 * MIB, (peak / MIB, estimate / MIB)


@pytest.mark.long
@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_rows_of_newton_from_files_take_few_bytes(gap: float, tmp_path: Path) -> None:
    """Two classes, beside the buffers: at most 40 bytes a row."""
    pipeline = Pipeline(solver=Newton(C=1.0), stopping=Stopping(duality_gap=gap))
    peaks = []
    for n in (400_000, 1_200_000):
        random = np.random.default_rng(0)
        X = random.normal(size=(n, 4))
        labels = (X[:, 0] + random.normal(size=n) > 0).astype(np.int8)
        rows_given = stored(X, tmp_path)
        train(pipeline, X[:100], labels[:100])
        del X
        tracemalloc.start()
        train(pipeline, rows_given, labels)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 800_000 <= 40.0, peaks


@pytest.mark.parametrize("sparse", [False, True])
def test_bytes_of_rows(sparse: bool) -> None:
    """The memory of X when it is loaded."""
    X = rows(sparse, 1000, 30)
    values = X.nnz if sparse else X.size
    size = DataSize(n_samples=1000, n_features=30, stored_values=values, sparse=sparse, n_classes=2)
    arrays = (X.data, X.indices, X.indptr) if sparse else (X,)
    assert abs(rows_bytes(size) - sum(array.nbytes for array in arrays)) <= 4
