"""Models of tables with categories, dates and gaps: trained, scored, stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svm.data.columns import UNKNOWN, Column
from svm.data.matrices import is_sparse
from svm.encoding.encoder import Encoder, Encoding, PlainEncoder
from svm.errors import CheckpointMismatch, InvalidData
from svm.kernel.kernels import GaussianKernel
from svm.model.explanations import contributions
from svm.model.paths import Paths, path_work
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.model.scorers import TableScorer
from svm.model.serialization import from_arrays, to_arrays
from svm.solvers import SMO, DualCoordinateDescent, GradientDescent, Newton, Pegasos
from svm.stopping import Stopping
from svm.training.training import Execution, Training
from svm.transforms.features import Interactions, Nystroem, RandomFourier, Square
from tests.svm.cases.stored import stored
from tests.svm.cases.tables import NAN, SlowEncoder, table
from tests.svm.cases.trainings import bits, train, written_and_read

NEWTON = Newton(C=1.0)
GAUSS = SMO(C=1.0, kernel=GaussianKernel(gamma=0.05))
PIPELINES: dict[str, Pipeline] = {
    "linear": Pipeline(solver=NEWTON, scaling="standardize"),
    "rare": Pipeline(solver=NEWTON, scaling="min-max", encoding=Encoding(min_count=8)),
    "unscaled": Pipeline(solver=DualCoordinateDescent(C=0.1), encoding=Encoding(missing="mean")),
    "kernel": Pipeline(solver=GAUSS, scaling="standardize"),
    "square": Pipeline(solver=NEWTON, scaling="standardize", features=Square()),
    "products": Pipeline(solver=NEWTON, scaling="max-abs", features=Interactions()),
    "fourier": Pipeline(
        solver=NEWTON, scaling="standardize", features=RandomFourier(n_components=40)
    ),
    "nystroem": Pipeline(solver=NEWTON, scaling="standardize", features=Nystroem(n_components=30)),
}


def strange_rows(X: Any, n_levels: int) -> Any:
    """Rows with a missing cell and an unknown level in each place."""
    rows = X[:40].copy()
    for i in range(20):
        rows[i, i % X.shape[1]] = NAN
    rows[5:10, 1] = UNKNOWN
    rows[10:15, 4] = n_levels - 1
    return rows


@pytest.mark.parametrize("n_levels", [5, 90])
@pytest.mark.parametrize("name", PIPELINES)
def test_rows_are_scored_as_the_slow_encoder_says(name: str, n_levels: int) -> None:
    """Few outputs, which are trained dense, and many, which are CSR if nothing needs them dense.
    The same model of plain numbers on slowly encoded rows has the same scores."""
    pipeline = PIPELINES[name]
    X, y, columns = table(150, n_levels=n_levels)
    training = train(pipeline, X, y, columns=columns)
    fitted = training.result().fitted
    assert isinstance(fitted.encoder, Encoder)
    linear = pipeline.kernel is None and pipeline.features.name == "identity"
    assert is_sparse(training.prepared.X) == (linear and fitted.encoder.n_outputs > 64)
    assert (fitted.n_features, fitted.columns) == (6, columns)
    slow = SlowEncoder(pipeline.encoding, pipeline.scaling, X, columns)
    rows = strange_rows(X, n_levels)
    encoded = np.array([slow.outputs(row) for row in rows.tolist()])
    plain = replace(
        fitted,
        encoder=PlainEncoder.of(fitted.encoder.n_outputs),
        scaling=replace(fitted.scaling, offset=None, scale=None),
    )
    scores = fitted.problem_scores(rows)
    np.testing.assert_allclose(scores, plain.problem_scores(encoded), rtol=1e-8, atol=1e-8)
    start = fitted.intercepts
    if path_work(fitted):
        paths = Paths(fitted)
        terms, start = np.array([row.terms for row in paths.rows(rows)]), start + paths.baseline
    else:
        terms = contributions(fitted, rows)
        alone = np.concatenate([contributions(fitted, row[None]) for row in rows])
        assert terms.tobytes() == alone.tobytes()
    assert name == "products" or terms.shape[2] == len(columns)
    np.testing.assert_allclose(terms.sum(axis=2) + start, scores, rtol=1e-8, atol=1e-8)


@pytest.mark.spread(3)
@pytest.mark.parametrize("name", PIPELINES)
def test_row_has_the_same_bits_in_any_batch(name: str) -> None:
    """Alone, first, last, and after the model was stored."""
    X, y, columns = table(150, n_levels=20)
    fitted = train(PIPELINES[name], X, y, columns=columns).result().fitted
    rows = np.tile(strange_rows(X, 20), (40, 1))
    expected = np.concatenate([fitted.decision_function(row[None]) for row in rows])
    assert fitted.decision_function(rows).tobytes() == expected.tobytes()
    assert fitted.decision_function(rows[::-1])[::-1].tobytes() == expected.tobytes()
    assert fitted.decision_function(rows[7:]).tobytes() == expected[7:].tobytes()
    loaded = from_arrays(to_arrays(fitted))
    assert loaded.prepare() >= 0
    assert loaded.decision_function(rows).tobytes() == expected.tobytes()


@pytest.mark.parametrize("width", [1, 2, 3, 9, 40])
@pytest.mark.parametrize("scaling", ["standardize", "none"])
def test_row_without_dates_has_the_same_bits_alone(width: int, scaling: Any) -> None:
    """Of one problem it is scored in another way than in a batch: with gaps, unknown levels and
    numbers whose squares overflow, too."""
    kinds: list[Any] = ["number", "category", "boolean"] * width
    X, y, columns = table(150, n_levels=20, kinds=kinds)
    fitted = train(Pipeline(solver=NEWTON, scaling=scaling), X, y, columns=columns).result().fitted
    rows = np.concatenate(
        [strange_rows(X, 20) if width > 1 else X[:40], np.where(np.isnan(X), 0.0, X)]
    )
    rows[60:70, ::3] *= 1e200
    rows[70:80, 1::3] = UNKNOWN
    expected = fitted.problem_scores(rows)
    assert np.isfinite(expected).all()
    for row, scores in zip(rows, expected, strict=True):
        assert fitted.problem_scores(row[None]).tobytes() == scores.tobytes()


@pytest.mark.parametrize("n_levels", [5, 90])
def test_unknown_cell_adds_nothing_to_the_bit(n_levels: int) -> None:
    """A missing cell in a column without gaps in training, and a level without training rows: the
    score is that of the model without the column's coefficients."""
    X, y, columns = table(150, n_levels=n_levels, kinds=["number", "category", "boolean", "date"])
    X = np.where(np.isnan(X), 1.0, X)
    fitted = train(PIPELINES["linear"], X, y, columns=columns).result().fitted
    assert isinstance(fitted.encoder, Encoder)
    assert isinstance(fitted._unscaled, TableScorer)
    for j, value in [(0, NAN), (1, UNKNOWN), (1, NAN), (3, NAN)]:
        rows = X[:30].copy()
        rows[:, j] = value
        coefficients = fitted.coefficients.copy()
        coefficients[:, fitted.encoder.output_columns == j] = 0.0
        without = replace(fitted, coefficients=coefficients)
        assert fitted.problem_scores(rows).tobytes() == without.problem_scores(X[:30]).tobytes()
        for row in rows:
            assert not contributions(fitted, row[None])[0, :, j].any()


@pytest.mark.parametrize("scaling", ["none", "min-max", "max-abs", "standardize"])
def test_missing_cell_is_typical_without_gaps_in_training(scaling: Any) -> None:
    """The median, or the mean if that is what the scaling subtracts; and not 0, or 1970-01-01."""
    X, y, columns = table(150, kinds=["number", "category", "boolean", "date"])
    X = np.where(np.isnan(X), 1.0, X)
    X[:, 2], X[:, 3] = np.arange(150) % 3 > 0, X[:, 3] + 20_000.0
    fitted = train(replace(PIPELINES["linear"], scaling=scaling), X, y, columns=columns)
    for j in (0, 2, 3):
        rows, typical = X[:30].copy(), X[:30].copy()
        rows[:, j], typical[:, j] = NAN, np.median(X[:, j])
        scores, expected = (fitted.result().fitted.problem_scores(one) for one in (rows, typical))
        if scaling != "standardize" or j == 2:
            assert scores.tobytes() == expected.tobytes()
        else:
            np.testing.assert_allclose(scores, expected, atol=0.5)


def test_contributions_are_those_of_the_original_columns() -> None:
    """A number with an indicator, four parts of a date and all levels are one term each."""
    X, y, columns = table(100)
    fitted = train(PIPELINES["linear"], X, y, columns=columns).result().fitted
    (terms,) = contributions(fitted, X[:1])
    assert terms.shape == (1, len(columns))
    slow = SlowEncoder(Encoding(), "standardize", X, columns)
    assert isinstance(fitted.encoder, Encoder)
    products = fitted.coefficients[0] * slow.outputs(X[0].tolist())
    for j in range(len(columns)):
        expected = products[fitted.encoder.output_columns == j].sum()
        assert terms[0, j] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_validation_rows_change_no_bit() -> None:
    """Their levels, medians and gaps are not learned: only the rows in training are."""
    X, y, columns = table(200, n_levels=30)
    pipeline = replace(PIPELINES["linear"], encoding=Encoding(min_count=3))
    kept = train(pipeline, X[:150], y[:150], columns=columns)
    other = X[150:].copy()
    other[:, 0] += 1000.0
    other[:, 1] = 29.0
    other[::2, [0, 2]] = NAN
    errors = []
    for rows in (X[150:], other):
        training = Training(
            pipeline, X[:150], y[:150], seed=0, columns=columns, validation=(rows, y[150:])
        )
        seen = [p.evaluation for p in training if p.evaluation is not None]
        errors.append(seen[-1].validation_error)
        assert bits(training.result()) == bits(kept.result())
        wrong = training.result().fitted.predict(rows) != y[150:]
        assert seen[-1].validation_error == wrong.mean()
    assert errors[0] != errors[1]
    whole = train(pipeline, X, y, columns=columns).result().fitted
    part = kept.result().fitted
    assert isinstance(whole.encoder, Encoder)
    assert isinstance(part.encoder, Encoder)
    assert whole.encoder.counts.sum() > part.encoder.counts.sum()


@pytest.mark.parametrize(
    "solver", [NEWTON, DualCoordinateDescent(C=1.0), Pegasos(C=1.0), GradientDescent(C=0.1)]
)
def test_dense_and_sparse_training_have_the_same_objective(
    solver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimum does not depend on the form that the solver sees."""
    X, y, columns = table(150, n_levels=8)
    stopping = Stopping(duality_gap=1e-6, max_epochs=20_000)
    if not isinstance(solver, Newton | DualCoordinateDescent):
        stopping = Stopping(max_epochs=30)
    pipeline = Pipeline(solver=solver, scaling="standardize", stopping=stopping)
    dense = train(pipeline, X, y, columns=columns)
    monkeypatch.setattr("svm.training.preparation.DENSE_OUTPUTS", 1)
    sparse = train(pipeline, X, y, columns=columns)
    assert not is_sparse(dense.prepared.X)
    assert is_sparse(sparse.prepared.X)
    first, second = (t.result().certificate.worst.primal for t in (dense, sparse))
    assert first == pytest.approx(second, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pairs_of_classes_share_one_encoder(dtype: Any) -> None:
    """A level that no row of a pair has gets weight 0 in that pair, and rows still have scores."""
    X, _, columns = table(180, n_levels=80)
    y = np.arange(180) % 3
    X[:, 1] = np.where(y == 2, 3.0, np.where(X[:, 1] == 3.0, 0.0, X[:, 1]))
    X[:, 0] += 5.0 * y
    pipeline = Pipeline(solver=Newton(C=1.0, dtype=dtype), scaling="standardize")
    fitted = train(pipeline, X, y, columns=columns).result().fitted
    assert isinstance(fitted.encoder, Encoder)
    output = fitted.encoder.output_names.index("column 1: level 0003")
    assert fitted.coefficients.shape == (3, fitted.encoder.n_outputs)
    assert fitted.coefficients[0, output] == 0.0
    assert fitted.coefficients[1:, output].all()
    assert (fitted.predict(X) == y).mean() > 0.8


def dense(X: Any) -> Any:
    return X.toarray() if is_sparse(X) else X


@pytest.mark.parametrize("n_levels", [5, 90])
@pytest.mark.parametrize("name", ["linear", "rare", "square", "products", "fourier", "mean"])
def test_rows_in_files_give_the_same_bits(name: str, n_levels: int, tmp_path: Path) -> None:
    """Encoder, scaling and model are learned some rows at a time, with a validation set."""
    mean = replace(PIPELINES["linear"], encoding=Encoding(missing="mean"))
    pipeline = (PIPELINES | {"mean": mean})[name]
    X, y, columns = table(400, n_levels=n_levels)
    rows, other = np.arange(0, 400, 2), np.arange(1, 400, 2)
    in_memory = train(pipeline, X[rows], y[rows], columns=columns, validation=(X[other], y[other]))
    files = stored(X, tmp_path)
    in_files = train(
        pipeline, files[rows], y[rows], columns=columns, validation=(files[other], y[other])
    )
    assert bits(in_files.result()) == bits(in_memory.result())
    prepared = in_memory.prepared  # as other machines make some of its rows
    some = prepared.steps.transform(X[rows[20:50]])
    given: Any = prepared.X
    assert (dense(some) == dense(given[20:50])).all()
    encoder = in_files.result().fitted.encoder
    assert isinstance(encoder, Encoder)


def test_encoder_is_stored_with_the_model() -> None:
    """As plain arrays and texts; releases that do not know it refuse the format."""
    X, y, columns = table(100, n_levels=12)
    columns = (replace(columns[0], name="Größe"), *columns[1:])
    fitted = train(PIPELINES["rare"], X, y, columns=columns).result().fitted
    content = to_arrays(fitted)
    assert content["format"] == 2
    assert all(isinstance(v, int | str | np.ndarray) for v in content.values())
    loaded = from_arrays(content)
    assert isinstance(loaded.encoder, Encoder)
    assert loaded.columns == columns
    assert repr(to_arrays(loaded)) == repr(content)
    plain = train(PIPELINES["linear"], np.nan_to_num(X), y).result().fitted
    assert to_arrays(plain)["format"] == 1
    assert not [name for name in to_arrays(plain) if name.startswith(("enco", "columns"))]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encoder_counts", np.zeros(3, dtype=np.int64)),
        ("encoder_missing", np.array([-1, 0, 0, 0, 0, 0])),
        ("encoder_fills", np.zeros(1)),
        ("encoding", '{"min_count": 0}'),
        ("columns", "[]"),
        ("n_features", 3),
    ],
)
def test_damaged_encoder_is_refused(name: str, value: Any) -> None:
    """With the error of a damaged model."""
    X, y, columns = table(60)
    content = to_arrays(train(PIPELINES["linear"], X, y, columns=columns).result().fitted)
    with pytest.raises(InvalidData) as error:
        from_arrays(content | {name: value})
    assert error.value.code == "model-unreadable"


def test_rows_are_checked() -> None:
    """Their number of columns, codes, and cells that the encoding refuses."""
    X, y, columns = table(60)
    X[:, [0, 2, 3, 5]] = np.nan_to_num(X[:, [0, 2, 3, 5]])
    pipeline = Pipeline(solver=NEWTON, encoding=Encoding(missing="refuse", unseen="refuse"))
    fitted = train(pipeline, X, y, columns=columns).result().fitted
    codes = []
    for j, value in [(0, NAN), (1, UNKNOWN), (1, 7.0), (0, np.inf)]:
        rows = X[:3].copy()
        rows[1, j] = value
        with pytest.raises(InvalidData, match="row 1") as error:
            fitted.predict(rows)
        codes.append(error.value.code)
    assert codes == ["missing-value", "unseen-level", "not-a-number", "non-finite-value"]
    with pytest.raises(InvalidData, match="columns"):
        fitted.predict(X[:, :3])


def model_and_start(n: int) -> tuple[Any, Any, Any, FittedPipeline, Any]:
    X, y, columns = table(200, n_levels=10)
    result = train(PIPELINES["linear"], X[:n], y[:n], columns=columns).result()
    return X, y, columns, result.fitted, result.warm_start


def test_warm_start_keeps_the_encoder_of_the_model() -> None:
    """Weights mean the same then; more rows with other medians do not change it."""
    X, y, columns, earlier, start = model_and_start(100)
    later = train(PIPELINES["linear"], X, y, columns=columns, warm_start=start).result().fitted
    assert later.encoder is earlier.encoder


def test_warm_start_on_other_columns_is_refused() -> None:
    """Names, kinds, levels and encodings; and plain numbers instead of a table."""
    X, y, columns, _, start = model_and_start(200)
    longer = replace(columns[1], levels=(*columns[1].levels, "z"))
    messages = {
        "other levels": (columns[0], longer, *columns[2:]),
        "column 0": (Column("renamed"), *columns[1:]),
        "plain numbers": None,
    }
    for message, other in messages.items():
        rows = X if other else np.nan_to_num(X)
        with pytest.raises(InvalidData, match=message) as error:
            Training(PIPELINES["linear"], rows, y, seed=0, columns=other, warm_start=start)
        assert error.value.code == "warm-start-unsupported"
    strict = replace(PIPELINES["linear"], encoding=Encoding(min_count=2))
    with pytest.raises(InvalidData, match="min_count"):
        Training(strict, X, y, seed=0, columns=columns, warm_start=start)


def test_checkpoint_belongs_to_columns_and_encoding() -> None:
    """It continues the same training to the bit, and refuses another one."""
    X, y, columns = table(150)
    pipeline = Pipeline(solver=Pegasos(C=1.0), stopping=Stopping(max_epochs=9))
    undisturbed = bits(train(pipeline, X, y, columns=columns).result())
    training = Training(pipeline, X, y, seed=0, columns=columns, how=Execution(digest="d"))
    steps = iter(training)
    next(steps)
    taken = written_and_read(training.checkpoint())
    resumed = train(pipeline, X, y, columns=columns, checkpoint=taken, digest="d")
    assert bits(resumed.result()) == undisturbed
    renamed = (replace(columns[0], name="other"), *columns[1:])
    fewer = replace(pipeline, encoding=Encoding(missing="mean"))
    for settings, described in [(pipeline, renamed), (fewer, columns)]:
        with pytest.raises(CheckpointMismatch):
            Training(
                settings,
                X,
                y,
                seed=0,
                columns=described,
                checkpoint=taken,
                how=Execution(digest="d"),
            )
