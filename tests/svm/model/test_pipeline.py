"""Fitted pipelines: scores whose bits depend on the row alone, labels, and plain arrays."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from svm.errors import InvalidData, InvalidHyperparameter
from svm.kernel.kernels import GaussianKernel, PolynomialKernel
from svm.model.pipeline import BLOCK_VALUES, WIDE, FittedPipeline, Pipeline
from svm.model.scorers import LinearScorer
from svm.model.serialization import from_arrays, to_arrays
from svm.solvers import SMO, AnySolver, Auto, KernelPegasos, Newton, Pegasos
from svm.transforms.features import (
    AnyFeatures,
    FeatureMap,
    Identity,
    Nystroem,
    RandomFourier,
    Square,
)
from svm.transforms.scaling import Scaling
from tests.svm.cases.models import fitted, random_model
from tests.svm.cases.problems import blobs
from tests.svm.cases.strategies import PROPERTY
from tests.svm.cases.trainings import train


@PROPERTY
@given(
    n=st.integers(1, 70),
    d=st.integers(1, 300),
    n_classes=st.sampled_from([2, 3, 6]),
    scaled=st.booleans(),
    data=st.data(),
)
def test_row_has_the_same_bits_in_any_batch(
    n: int, d: int, n_classes: int, scaled: bool, data: st.DataObject
) -> None:
    """Alone, in a batch of any size, at any position, in any memory layout."""
    model, rows = random_model(d, n_classes, scaled=scaled)
    alone = np.concatenate([model.decision_function(row[None]) for row in rows[:n]])
    start = data.draw(st.integers(0, n - 1))
    layouts = {
        "C": rows[:n],
        "Fortran": np.asfortranarray(rows[:n]),
        "columns of a wider matrix": np.repeat(rows[:n], 2, axis=1)[:, ::2],
        "rows of a longer matrix": np.repeat(rows[:n], 3, axis=0)[::3],
        "lists": rows[:n].tolist(),
        "big-endian": rows[:n].astype(">f8"),
        "unaligned": np.frombuffer(b"\0" + rows[:n].tobytes(), np.float64, offset=1).reshape(n, d),
        "read-only": np.frombuffer(rows[:n].tobytes()).reshape(n, d),
    }
    for layout, batch in layouts.items():
        assert model.decision_function(batch).tobytes() == alone.tobytes(), layout
    backwards = model.decision_function(rows[:n][::-1])[::-1]
    assert backwards.tobytes() == alone.tobytes()
    later = model.decision_function(rows[start:n])
    assert later.tobytes() == alone[start:].tobytes()


@PROPERTY
@given(
    n=st.integers(1, 70),
    d=st.integers(1, 300),
    n_classes=st.sampled_from([2, 3, 6]),
    scaled=st.booleans(),
)
def test_sparse_row_has_the_bits_of_the_dense_one(
    n: int, d: int, n_classes: int, scaled: bool
) -> None:
    """With any scaling: the format of a row does not change its result."""
    model, rows = random_model(d, n_classes, scaled=scaled)
    expected = model.decision_function(rows[:n]).tobytes()
    batch = csr_array(rows[:n])
    assert model.decision_function(batch).tobytes() == expected
    alone = np.concatenate([model.decision_function(batch[[i]]) for i in range(n)])
    assert alone.tobytes() == expected


@pytest.mark.parametrize("kind", ["linear", "square", "gaussian", "random-fourier", "nystroem"])
def test_wide_rows_are_scored_by_their_non_zeros(kind: str) -> None:
    """The bits are the same for dense and sparse rows, alone or in a batch, and close to the dense
    product."""
    d = WIDE + 1
    random = np.random.default_rng(0)
    rows = random.normal(size=(20, d)) * (random.uniform(size=(20, d)) < 0.01)
    spec: AnyFeatures = Identity()
    directions, weights, kernel, vectors = None, None, None, None
    coefficients = random.normal(size=(3, d))
    if kind == "square":
        spec = Square()
    elif kind == "random-fourier":
        spec, coefficients = RandomFourier(n_components=7), coefficients[:, :7]
        directions, weights = random.normal(size=(7, d)), random.normal(size=7)
    elif kind == "nystroem":
        spec = Nystroem(n_components=7, kernel=GaussianKernel(gamma=0.01))
        coefficients = coefficients[:, :7]
        directions, weights = random.normal(size=(7, d)), random.normal(size=(7, 7))
    elif kind == "gaussian":
        kernel, coefficients = GaussianKernel(gamma=0.01), coefficients[:, :6]
        vectors = csr_array(random.normal(size=(6, d)) * (random.uniform(size=(6, d)) < 0.01))
    model = FittedPipeline(
        classes=np.arange(3),
        scaling=Scaling("max-abs", None, np.linspace(0.5, 2.0, d)),
        features=FeatureMap(spec, d, directions, weights),
        coefficients=coefficients,
        intercepts=np.ones(3),
        kernel=kernel,
        support_vectors=vectors,
    )
    assert model.takes_sparse
    together = model.problem_scores(rows)
    assert together.tobytes() == model.problem_scores(csr_array(rows)).tobytes()
    alone = np.concatenate([model.problem_scores(row[None]) for row in rows])
    assert together.tobytes() == alone.tobytes()
    if kind == "linear":
        expected = (rows / np.linspace(0.5, 2.0, d)) @ coefficients.T + 1.0
        np.testing.assert_allclose(together, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "polynomial", "nystroem", "random-fourier"])
def test_rows_of_models_with_vectors_have_the_same_bits_in_any_batch(kind: str) -> None:
    """Also in batches of several blocks: the last rows are scored like single rows."""
    X, labels = blobs(3)
    solver: AnySolver = (
        Newton()
        if kind in ("nystroem", "random-fourier")
        else KernelPegasos(
            kernel=GaussianKernel() if kind == "gaussian" else PolynomialKernel(degree=3)
        )
    )
    spec: AnyFeatures = Identity()
    if kind == "nystroem":
        spec = Nystroem(n_components=50)
    elif kind == "random-fourier":
        spec = RandomFourier(n_components=300)
    pipeline = Pipeline(solver=solver, features=spec, scaling="standardize")
    model = train(pipeline, X, labels).result().fitted
    rows = np.tile(X, (BLOCK_VALUES // X.size + 2, 1)) * np.linspace(0.5, 1.5, X.shape[1])
    scores = model.problem_scores(rows)
    for size in (1, 7, 64):
        parts = [model.problem_scores(rows[i : i + size]) for i in range(0, 200, size)]
        assert np.concatenate(parts)[:200].tobytes() == scores[:200].tobytes()
    assert model.problem_scores(rows[-3:]).tobytes() == scores[-3:].tobytes()


def test_long_rows_in_odd_memory_have_the_same_bits() -> None:
    """Also beyond NumPy's buffer of 8,192 values."""
    model, rows = random_model(20_001)
    raw = b"\0" + rows[:2].tobytes()
    unaligned = np.frombuffer(raw, np.float64, offset=1).reshape(2, -1)
    expected = model.decision_function(rows[:2])
    assert model.decision_function(unaligned).tobytes() == expected.tobytes()
    assert model.decision_function(np.asfortranarray(rows[:2])).tobytes() == expected.tobytes()


def test_single_precision_rows_are_scored_in_double() -> None:
    """float32 and integer rows are converted exactly."""
    model, rows = random_model(40)
    single = rows.astype(np.float32)
    expected = model.decision_function(single.astype(np.float64))
    assert model.decision_function(single).tobytes() == expected.tobytes()
    whole = np.arange(80).reshape(2, 40)
    expected = model.decision_function(whole.astype(np.float64))
    assert model.decision_function(whole).tobytes() == expected.tobytes()


def test_decision_is_the_score_of_the_scaled_row() -> None:
    """⟨w, (x - offset)/scale⟩ + b."""
    scaling = Scaling("standardize", np.array([1.0, -1.0]), np.array([2.0, 0.5]))
    model = fitted([[3.0, 4.0]], [0.25], scaling=scaling)
    assert model.decision_function([[2.0, 0.0], [1.0, -1.0]]).tolist() == [9.75, 0.25]


@pytest.mark.parametrize("far", [0.0, 3.0, 400.0, 1e6, 1e12])
def test_offset_costs_few_bits_however_large_it_is(far: float) -> None:
    """It is part of the intercepts, or subtracted from each row if it is large beside the scale. A
    constant column, which has no weight, does not decide which."""
    random = np.random.default_rng(0)
    scaling = Scaling("standardize", np.array([far, -far, 1e15]), np.array([0.5, 2.0, 1.0]))
    coefficients = np.append(random.normal(size=(3, 2)), np.zeros((3, 1)), axis=1)
    model = FittedPipeline(
        classes=np.arange(3),
        scaling=scaling,
        features=FeatureMap(Identity(), 3),
        coefficients=coefficients,
        intercepts=np.ones(3),
    )
    rows = np.array([far, -far, 1e15]) + random.normal(size=(50, 3)) * [0.5, 2.0, 0.0]
    assert isinstance(model._unscaled, LinearScorer)
    assert (model._unscaled.offset is None) == (far < 1000)
    expected = scaling.transform(rows) @ coefficients.T + 1.0
    np.testing.assert_allclose(model.problem_scores(rows), expected, rtol=0, atol=2e-12)
    alone = np.concatenate([model.problem_scores(row[None]) for row in rows])
    assert model.problem_scores(rows).tobytes() == alone.tobytes()


def test_positive_score_is_the_second_class_and_a_tie_the_first() -> None:
    """score > 0 means `classes[1]`; exactly 0, and -0, mean `classes[0]`."""
    model = fitted([[1.0]], [0.0], classes=["no", "yes"])
    assert model.decision_function([[1e-300], [0.0], [-0.0], [-1.0]]).shape == (4,)
    assert model.predict([[1e-300], [0.0], [-0.0], [-1.0]]).tolist() == ["yes", "no", "no", "no"]


def test_labels_follow_the_decision() -> None:
    """`labels_from_decision` of `decision_function` is `predict`, for two classes and for more."""
    for n_classes in (2, 5):
        model, rows = random_model(7, n_classes)
        decision = model.decision_function(rows)
        assert decision.shape == ((70,) if n_classes == 2 else (70, n_classes))
        assert (model.labels_from_decision(decision) == model.predict(rows)).all()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_rows_give_no_labels(n_classes: int) -> None:
    """An empty batch gives an empty result, not an error."""
    model, _ = random_model(3, n_classes)
    assert model.predict(np.empty((0, 3))).shape == (0,)
    assert model.decision_function(csr_array((0, 3))).shape[0] == 0


@pytest.mark.parametrize(
    ("code", "rows"),
    [
        ("feature-mismatch", np.ones((2, 4))),
        ("feature-mismatch", csr_array(np.ones((2, 2)))),
        ("bad-shape", np.ones(3)),
        ("bad-shape", 1.0),
        ("non-finite-value", [[1.0, np.nan, 0.0]]),
        ("non-finite-value", csr_array([[1.0, -np.inf, 0.0]])),
        ("not-a-number", [["a", "b", "c"]]),
        ("not-a-number", [[1.0, 2.0, 3.0], [1.0]]),
    ],
)
def test_rows_that_do_not_fit_are_refused(code: str, rows: Any) -> None:
    """With an error code for programs; nothing is filled in or cut off."""
    model, _ = random_model(3)
    for method in (model.predict, model.decision_function, model.problem_scores):
        with pytest.raises(InvalidData) as caught:
            method(rows)
        assert caught.value.code == code


CLASSES = {
    "strings": ["ä", "b", "c" * 40],
    "integers": [-(2**60), 0, 2**60],
    "floats": [-0.5, 0.1, 1e300],
    "booleans": [False, True],
}


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("kind", CLASSES)
def test_to_arrays_and_from_arrays(kind: str, scaled: bool) -> None:
    """`from_arrays(to_arrays())` predicts the same bits, with labels of the same type; the form
    holds nothing but arrays, numbers and strings."""
    classes = np.array(CLASSES[kind])
    model, rows = random_model(5, len(classes), scaled=scaled)
    model = replace(model, classes=classes)
    content = to_arrays(model)
    assert content["format"] == 1
    for value in content.values():
        assert isinstance(value, np.ndarray | str | int | float)
        assert not (isinstance(value, np.ndarray) and value.dtype.hasobject)
    again = from_arrays(content)
    assert again.decision_function(rows).tobytes() == model.decision_function(rows).tobytes()
    assert again.predict(rows).tolist() == model.predict(rows).tolist()
    assert again.predict(rows).dtype == classes.dtype
    assert again.nbytes == model.nbytes


def test_trained_model_to_arrays_and_from_arrays() -> None:
    """So does one that was trained, with every scaling."""
    X, labels = blobs(3)
    for scaling in ("none", "standardize", "min-max", "max-abs"):
        model = train(Pipeline(solver=Newton(), scaling=scaling), X, labels).result().fitted
        again = from_arrays(to_arrays(model))
        assert again.decision_function(X).tobytes() == model.decision_function(X).tobytes()
        assert again.scaling.name == scaling


CHANGES: dict[str, dict[str, Any]] = {
    "another format": {"format": 99},
    "another feature map": {"features": '{"name": "oracle"}'},
    "features that are no JSON": {"features": "{"},
    "a kernel without support vectors": {"kernel": '{"name": "linear"}'},
    "no coefficients": {"coefficients": None},
    "one-dimensional coefficients": {"coefficients": np.ones(3)},
    "a coefficient too few": {"coefficients": np.ones((3, 4))},
    "a pair too few": {"coefficients": np.ones((2, 5))},
    "an intercept too few": {"intercepts": np.ones(2)},
    "a class too many": {"classes": np.arange(4)},
    "a short offset": {"scaling_offset": np.ones(4)},
    "a short scale": {"scaling_scale": np.ones(4)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_unreadable_model_is_refused(change: str) -> None:
    """Missing parts, or parts that do not fit together: InvalidData."""
    content = to_arrays(random_model(5, 3, scaled=True)[0])
    from_arrays(content)
    with pytest.raises(InvalidData) as caught:
        from_arrays({**content, **CHANGES[change]})
    assert caught.value.code == "model-unreadable"


@pytest.mark.parametrize("part", ["format", "classes", "scaling", "coefficients", "intercepts"])
def test_model_without_a_part_is_refused(part: str) -> None:
    """Each of them is needed."""
    content = to_arrays(random_model(5, 3)[0])
    del content[part]
    with pytest.raises(InvalidData) as caught:
        from_arrays(content)
    assert caught.value.code == "model-unreadable"


def test_nbytes_counts_all_arrays() -> None:
    """Two vectors of scaling, one row of coefficients, an intercept and two labels."""
    model, _ = random_model(10, 2, scaled=True)
    assert model.nbytes == 8 * (10 + 10 + 10 + 1 + 2)
    assert model.n_features == 10


@pytest.mark.parametrize(
    ("field", "value"),
    [("solver", "newton"), ("scaling", "standard"), ("multiclass", "all"), ("stopping", 10)],
)
def test_pipeline_checks_its_fields(field: str, value: Any) -> None:
    """An unknown scaling is an error, not replaced by another one."""
    given: dict[str, Any] = {"solver": Newton(), field: value}
    with pytest.raises(InvalidHyperparameter, match=field):
        Pipeline(**given)


def test_a_model_without_rows_needs_numpy_alone() -> None:
    """A process that loads models but predicts nothing imports neither Numba nor SciPy."""
    program = """
import sys
import numpy as np
from svm.model.serialization import from_arrays
model = from_arrays({
    "format": 1, "features": '{"name": "identity"}', "n_features": 2,
    "multiclass": "one-vs-one", "classes": np.array(["a", "b"]),
    "scaling": "none", "coefficients": np.ones((1, 2)), "intercepts": np.zeros(1),
})
assert model.nbytes > 0
print(sorted({"numba", "scipy", "sklearn"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_defaults_for_texts() -> None:
    """The squared hinge of a linear solver that has it, unless a loss is named; one problem for
    each class."""
    by_default = [
        Pipeline(solver=solver).for_texts()
        for solver in (Auto(), Newton(loss="hinge"), Pegasos(), SMO())
    ]
    losses = [pipeline.solver.loss_name for pipeline in by_default]
    assert losses == ["squared-hinge", "hinge", "hinge", "hinge"]
    assert {pipeline.multiclass for pipeline in by_default} == {"one-vs-rest"}
