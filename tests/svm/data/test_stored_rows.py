"""Rows in files: the same rows, the same bits, in little memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from svm.data.executors import executor_of
from svm.data.matrices import Matrix, Vector, cuts
from svm.data.stored_rows import PIECE_VALUES, Reader, StoredRows, gathered, pieces
from svm.errors import InvalidData
from svm.model.pipeline import Pipeline
from svm.problem.problem import BLOCK_VALUES, BLOCKS_TOGETHER
from svm.solvers import SOLVERS, AnySolver, GradientDescent, Newton, Pegasos, SubGradient
from svm.stopping import CostChange, Stopping
from svm.training.training import Execution, Training
from svm.transforms.features import Nystroem, Polynomial, RandomFourier, Square
from tests.svm.cases.problems import solver_of
from tests.svm.cases.stored import stored
from tests.svm.cases.strategies import PROPERTY
from tests.svm.cases.trainings import bits, train, written_and_read

N, D = 4000, 300  # 1.2 million values: 19 blocks, more than is shuffled together


def dense(n: int = N, d: int = D) -> Vector:
    random = np.random.default_rng(5)
    X: Vector = random.normal(size=(n, d)) * random.uniform(0.1, 3.0, size=d) + 0.5
    return X


def sparse() -> csr_array[Any, tuple[int, int]]:
    """Rows of very different lengths, some empty."""
    random = np.random.default_rng(6)
    lengths = random.integers(0, 2, size=3000) * random.integers(0, 1500, size=3000)
    indptr = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
    indices = [np.sort(random.permutation(5000)[:length]) for length in lengths]
    values = 0.05 * random.normal(size=indptr[-1])
    return csr_array((values, np.concatenate(indices).astype(np.int32), indptr), shape=(3000, 5000))


LAYOUTS: dict[str, Matrix] = {"dense": dense(), "csr": sparse()}


def labels_of(X: Matrix, n_classes: int = 2) -> Any:
    """Classes from a row's sum, with noise; in runs, as in sorted data."""
    n = X.shape[0]
    sums = np.asarray(X.sum(axis=1)).ravel()
    noisy = sums + np.random.default_rng(7).normal(size=n) * sums.std()
    labels = np.argsort(np.argsort(noisy)) * n_classes // n
    labels[: n // 10] = np.sort(labels[: n // 10])
    return labels


def as_rows(X: StoredRows, rows: Any) -> Any:
    matrix = X.read(np.asarray(rows, dtype=np.int64))
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


@pytest.fixture(params=LAYOUTS, scope="module")
def both(request: Any, tmp_path_factory: Any) -> tuple[Matrix, StoredRows]:
    """The same matrix in memory and in files."""
    X = LAYOUTS[request.param]
    return X, stored(X, tmp_path_factory.mktemp("rows"))


STOP = Stopping(max_epochs=3)
C = 1e-3
SOLVER_CASES: dict[str, tuple[AnySolver, Stopping]] = {
    "pegasos": (Pegasos(C=C, order="blocks"), STOP),
    "pegasos, projected": (
        Pegasos(C=C, order="blocks", project=True, intercept="augmented"),
        STOP,
    ),
    "pegasos, averaged": (
        Pegasos(C=C, order="blocks", averaging="suffix", dtype="float32"),
        STOP,
    ),
    "pegasos, batches": (Pegasos(C=C, order="blocks", batch_size=700, averaging="suffix"), STOP),
    "pegasos, batches in the order of the data": (
        Pegasos(C=C, order="given", batch_size=7, averaging="all"),
        STOP,
    ),
    "pegasos, projected, in the order of the data": (
        Pegasos(C=C, order="given", project=True),
        STOP,
    ),
    "pegasos, T updates": (Pegasos(C=C, order="blocks"), Stopping(max_updates=5000)),
    "batch descent": (GradientDescent(C=C), STOP),
    "mini-batches": (GradientDescent(C=C, batch_size=700, order="blocks"), STOP),
    "stochastic descent": (GradientDescent(C=C, batch_size=1, order="blocks"), STOP),
    "cost change": (
        GradientDescent(C=C, batch_size=1500, order="blocks"),
        Stopping(cost_change=CostChange(epsilon=1e-6), max_epochs=2),
    ),
    "newton": (Newton(C=C, intercept="augmented"), STOP),
    "subgradient": (SubGradient(C=C, order="given"), STOP),
    "subgradient, blocks": (SubGradient(C=C, order="blocks", step="restarted"), STOP),
    "subgradient, doubled": (
        SubGradient(C=C, order="blocks", step="doubled", averaging="all", dtype="float32"),
        STOP,
    ),
    "mini-batches in the order of the data": (
        GradientDescent(C=C, batch_size=700, order="given"),
        STOP,
    ),
}


@pytest.mark.spread(3)
@pytest.mark.parametrize("case", SOLVER_CASES)
def test_same_bits_from_files(both: tuple[Matrix, StoredRows], case: str) -> None:
    """Model, certificate and counts are those of the same rows in memory."""
    X, in_files = both
    solver, stopping = SOLVER_CASES[case]
    pipeline = Pipeline(solver=solver, stopping=stopping, scaling="max-abs")
    labels = labels_of(X)
    expected, result = (train(pipeline, rows, labels).result() for rows in (X, in_files))
    assert bits(result) == bits(expected)
    assert result.certificate.worst.dual > 0.0


PIPELINES: dict[str, dict[str, Any]] = {
    "as they are": {},
    "single precision": {"solver": Pegasos(C=C, order="blocks", dtype="float32")},
    "standardized": {"scaling": "standardize"},
    "min-max": {"scaling": "min-max"},
    "squares": {"scaling": "max-abs", "features": Square()},
    "products": {"features": Polynomial()},
    "random fourier": {"scaling": "max-abs", "features": RandomFourier(n_components=40)},
    "nystroem": {"scaling": "standardize", "features": Nystroem(n_components=30)},
    "one-vs-rest": {"multiclass": "one-vs-rest"},
    "class weights": {"class_weight": "balanced"},
}


@pytest.mark.spread(3)
@pytest.mark.parametrize("case", PIPELINES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_same_bits_through_every_step_before_the_solver(
    layout: str, case: str, tmp_path: Path
) -> None:
    """Three classes and a validation set: scaling, features and weights are the same in memory and
    in files, with one thread or two."""
    given = PIPELINES[case]
    if layout == "csr" and (case in ("standardized", "min-max", "products", "nystroem")):
        pytest.skip("not offered for sparse data")
    X = LAYOUTS[layout][:, :20] if case == "products" else LAYOUTS[layout]
    in_files, labels = stored(X, tmp_path), labels_of(X, 3)
    validating = np.random.default_rng(1).uniform(size=len(labels)) < 0.1
    kept, held = np.flatnonzero(~validating), np.flatnonzero(validating)
    pipeline = Pipeline(
        **{"solver": Pegasos(C=C, order="blocks"), "stopping": Stopping(max_epochs=1), **given}
    )
    expected, result = (
        Training(
            pipeline,
            rows[kept],
            labels[kept],
            seed=3,
            validation=(rows[held], labels[held]),
            how=Execution(threads=threads),
        )
        for rows, threads in ((X, 1), (in_files, 2))
    )
    watched = [
        sorted(
            (now.evaluation.pair, now.evaluation.epoch, now.evaluation.validation_error)
            for now in training
            if now.evaluation is not None
        )
        for training in (expected, result)
    ]
    assert watched[0] == watched[1]
    assert all(error is not None for _, _, error in watched[0])
    assert bits(result.result()) == bits(expected.result())


@pytest.mark.parametrize("case", ["pegasos", "mini-batches", "newton"])
def test_resumed_from_files(both: tuple[Matrix, StoredRows], case: str) -> None:
    """Interrupted at any point and resumed, the bits are those of an undisturbed training in
    memory."""
    X, in_files = both
    solver, stopping = SOLVER_CASES[case]
    pipeline, labels = Pipeline(solver=solver, stopping=stopping), labels_of(X)
    expected = bits(train(pipeline, X, labels).result())
    for cut in (0, 1, 3):
        training = Training(pipeline, in_files, labels, seed=0)
        for _, _ in zip(range(cut), training, strict=False):
            pass
        checkpoint = written_and_read(training.checkpoint())
        assert not any(array.size >= X.shape[0] * 10 for array in checkpoint.values())
        again = Training(pipeline, in_files, labels, seed=0, checkpoint=checkpoint)
        for _ in again:
            pass
        assert bits(again.result()) == expected
        other = in_files[np.arange(1, X.shape[0])]
        with pytest.raises(ValueError, match="other data"):
            Training(pipeline, other, labels[1:], seed=0, checkpoint=checkpoint)


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_that_need_all_rows_refuse_files(name: str, tmp_path: Path) -> None:
    """By default only solvers that read rows in order accept files; the others refuse."""
    X = dense(20, 3)
    pipeline = Pipeline(solver=solver_of(name))
    if pipeline.solver.streams:
        train(pipeline, stored(X, tmp_path), labels_of(X))
    else:
        with pytest.raises(InvalidData, match="memory") as refused:
            Training(pipeline, stored(X, tmp_path), labels_of(X), seed=0)
        assert refused.value.code == "plan-too-large"


@PROPERTY
@given(
    sizes=st.lists(st.integers(0, 50), max_size=60),
    limit=st.integers(1, 120),
)
def test_cuts(sizes: list[int], limit: int) -> None:
    """0 … n in parts of at least one row, each below the limit without its last row; rows of equal
    size are cut evenly."""
    for edges, each in (
        (cuts(np.array(sizes, dtype=np.int64), len(sizes), limit), sizes),
        (cuts(7, len(sizes), limit), [7] * len(sizes)),
    ):
        assert (edges[0], edges[-1]) == (0, len(sizes))
        assert (np.diff(edges) > 0).all()
        for start, stop in pairwise(edges.tolist()):
            assert sum(each[start : stop - 1]) <= limit
    assert len(set(np.diff(cuts(7, len(sizes), limit))[:-1])) <= 1


@PROPERTY
@given(chosen=st.sets(st.integers(0, 99), min_size=1), some=st.sets(st.integers(0, 99)))
def test_any_rows_are_read(chosen: set[int], some: set[int], tmp_path_factory: Any) -> None:
    """All rows or chosen ones, in one run or scattered."""
    X = dense(100, 3)
    places = sorted(chosen)
    wanted = [k for k in sorted(some) if k < len(places)]
    for matrix in (X, csr_array(np.where(X > 0.5, X, 0.0))):
        in_files = stored(matrix, tmp_path_factory.mktemp("rows"))
        values = matrix.toarray() if hasattr(matrix, "toarray") else matrix
        np.testing.assert_array_equal(as_rows(in_files, places), values[places])
        part = in_files[np.array(places)]
        assert part.shape == (len(places), 3)
        np.testing.assert_array_equal(as_rows(part, wanted), values[places][wanted])
        assert part.digest != in_files.digest
        assert part.digest == in_files[np.array(places)].digest


def test_runs_are_read_below_each_other(both: tuple[Matrix, StoredRows]) -> None:
    """A reader puts runs of rows in the given order, and reuses its memory."""
    X, in_files = both
    reader = Reader(in_files)
    runs = np.arange(500, 530), np.arange(0, 20), np.array([3, 40, 2000, 2001])
    assert in_files.shape == X.shape
    for _ in range(2):
        operand = reader.read(*runs)
        if isinstance(operand, tuple):
            data, indices, indptr = operand
            operand = csr_array((data, indices, indptr), shape=(54, X.shape[1])).toarray()
        expected = X[np.concatenate(runs)]
        np.testing.assert_array_equal(
            operand, expected if isinstance(expected, np.ndarray) else expected.toarray()
        )


def test_file_that_ends_early(tmp_path: Path) -> None:
    """An error, not a row of zeros."""
    X = stored(dense(100, 3), tmp_path)
    with (tmp_path / "0.bin").open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(OSError, match="ends at byte 1000"):
        X.read(np.arange(100))


def test_pieces_are_bounded(both: tuple[Matrix, StoredRows]) -> None:
    """The same pieces in memory and from files, of about a million values; fewer rows if each
    becomes many features."""
    for width in (0, 100_000):
        shapes = [[piece.shape for piece in pieces(X, width)] for X in both]
        assert shapes[0] == shapes[1]
        assert sum(n for n, _ in shapes[0]) == both[0].shape[0]
        if width:
            assert max(n for n, _ in shapes[0]) <= PIECE_VALUES // width + 1


@pytest.mark.parametrize("case", ["pegasos", "newton"])
def test_memory_of_a_training_from_files(case: str, tmp_path: Path) -> None:
    """During training only some blocks and a few numbers for each row are in memory: far less than
    the rows."""
    solver, _ = SOLVER_CASES[case]
    n, d = 200_000, 100
    X, labels = dense(n, d), np.arange(n) % 2
    X[:, 0] += labels
    in_files, size = stored(X, tmp_path), X.nbytes
    del X
    pipeline = Pipeline(solver=solver, stopping=Stopping(max_epochs=1), scaling="standardize")
    (tmp_path / "few").mkdir()
    train(pipeline, stored(dense(100, d), tmp_path / "few"), labels[:100])  # loads compiled code
    tracemalloc.start()
    train(pipeline, in_files, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * (BLOCK_VALUES * BLOCKS_TOGETHER + 3 * PIECE_VALUES + 25 * n) < size / 2


@pytest.mark.parametrize("make", [dense, sparse])
def test_threads_copy_the_same_rows(make: Any) -> None:
    X = make()
    rows = np.arange(1, X.shape[0], 3)
    made: Any = gathered(X, rows, executor_of(3))
    difference = made - X[rows]
    assert abs(difference).max() == 0.0
