"""`SVMClassifier` and `SVMRegressor` on frames and arrays with texts, dates, booleans and gaps."""

from __future__ import annotations

import datetime
from importlib import import_module
from typing import Any

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from svm import Encoding, GaussianKernel, InvalidData, SVMClassifier, SVMRegressor

N = 90
CELLS: dict[str, list[Any]] = {
    "age": [None if i % 7 == 0 else 20.0 + i % 50 for i in range(N)],
    "sex": [["m", "f", None][i % 3] for i in range(N)],
    "rooms": [1 + i % 4 for i in range(N)],
    "alone": [None if i % 11 == 0 else i % 2 == 0 for i in range(N)],
    "born": [None if i % 5 == 0 else datetime.date(1990, 1, 1 + i % 28) for i in range(N)],
}
KINDS = {"age": "number", "sex": "category", "rooms": "number", "alone": "boolean", "born": "date"}
Y = np.array(["yes" if i % 3 == 0 or i % 40 > 30 else "no" for i in range(N)])
MODEL = SVMClassifier("newton", C=1.0, scaling="standardize")


def frame() -> pandas.DataFrame:
    """With nullable, categorical and datetime types."""
    made = pandas.DataFrame(CELLS)
    made["age"] = made["age"].astype("Float64")
    made["sex"] = made["sex"].astype("category")
    made["alone"] = made["alone"].astype("boolean")
    made["born"] = pandas.to_datetime(made["born"])
    return made


@pytest.mark.parametrize("form", ["pandas", "objects", "texts", "polars", "arrow", "array", "rows"])
def test_same_table_in_any_form_is_the_same_model(form: str) -> None:
    """Frames of three libraries, a frame of texts, and arrays of objects, whose columns have no
    names."""
    expected = clone(MODEL).fit(frame(), Y)
    assert {column.name: column.kind for column in expected.columns_ or ()} == KINDS
    objects: Any = pandas.DataFrame(CELLS, dtype=object)
    X: Any = {
        "pandas": frame,
        "objects": lambda: objects,
        "texts": lambda: objects.map(lambda cell: "" if cell is None else str(cell)),  # type: ignore[no-untyped-call]
        "polars": lambda: pytest.importorskip("polars").DataFrame(CELLS),
        "arrow": lambda: pytest.importorskip("pyarrow").table(CELLS),
        "array": lambda: objects.to_numpy(),
        "rows": lambda: objects.to_numpy().tolist(),
    }[form]()
    model = clone(MODEL).fit(X, Y)
    assert [column.kind for column in model.columns_ or ()] == list(KINDS.values())
    assert model.decision_function(X).tobytes() == expected.decision_function(frame()).tobytes()
    assert model.predict(X[:5]).tolist() == expected.predict(frame()[:5]).tolist()


def test_outputs_have_names_and_coefficients() -> None:
    """`get_feature_names_out` names the columns of `coef_`."""
    model = clone(MODEL).fit(frame(), Y)
    names = model.get_feature_names_out().tolist()
    assert names[:3] == ["age", "rooms", "alone"]
    assert names[-4:] == ["born: missing", "sex: f", "sex: m", "sex: missing"]
    assert model.coef_.shape == (1, len(names))
    assert (model.n_features_in_, model.feature_names_in_.tolist()) == (5, list(KINDS))
    plain = SVMClassifier().fit(frame()[["rooms"]], Y)
    assert (plain.columns_, plain.get_feature_names_out().tolist()) == (None, ["rooms"])
    assert SVMClassifier().fit([[0.0], [1.0]], [0, 1]).get_feature_names_out().tolist() == ["x0"]


def test_rows_to_predict_may_have_other_cells() -> None:
    """Gaps where training had none, and levels that it did not have, count as in the service."""
    model = clone(MODEL).fit(frame(), Y)
    row = frame()[:1].astype({"sex": object, "rooms": "Float64"})
    row.loc[0, "sex"] = "x"
    row.loc[0, "rooms"] = pandas.NA
    assert np.isfinite(model.decision_function(row)).all()
    strict = clone(MODEL).set_params(encoding=Encoding(unseen="refuse")).fit(frame(), Y)
    with pytest.raises(InvalidData, match="sex"):
        strict.predict(row)


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("age", "old", "row 1 .*'age': 'old' is not a number"),
        ("alone", "perhaps", "row 1 .*'alone': 'perhaps' is not a boolean"),
        ("born", "2020-02-31", "row 1 .*'born': '2020-02-31' is not a date"),
    ],
    ids=["number", "boolean", "date"],
)
def test_wrong_cell_is_named(column: str, cell: str, message: str) -> None:
    """With row, column and value."""
    model = clone(MODEL).fit(frame(), Y)
    rows = frame()[:2].astype({column: object})
    rows.loc[1, column] = cell
    with pytest.raises(InvalidData, match=message):
        model.predict(rows)


def test_what_is_no_such_table_is_refused() -> None:
    """Other columns, a sparse matrix, infinity, cells of other types, kinds of no column."""
    model = clone(MODEL).fit(frame(), Y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame()[["age", "sex"]])
    nameless = clone(MODEL).fit(frame().to_numpy(dtype=object), Y)
    with pytest.raises(ValueError, match="rows of a table"):
        nameless.predict(csr_array(np.ones((2, 5))))
    with pytest.raises(ValueError, match="infinity"):
        clone(MODEL).fit(frame().assign(age=np.inf), Y)
    with pytest.raises(ValueError, match="'age': list is not a number, text, boolean or date"):
        clone(MODEL).fit(frame().assign(age=[[1]] * N), Y)
    with pytest.raises(ValueError, match="no column 'height'"):
        clone(MODEL).set_params(kinds={"height": "number"}).fit(frame(), Y)
    with pytest.raises(ValueError, match="'size' is none of number, boolean"):
        clone(MODEL).set_params(kinds={"age": "size"}).fit(frame(), Y)
    with pytest.raises(ValueError, match="two columns have the same name"):
        clone(MODEL).fit(frame()[["age", "age"]], Y)


def test_kinds_make_categories_and_texts() -> None:
    """A code of digits is a category, sentences are texts; many different texts warn of it."""
    notes = [f"the {'red' if y == 'yes' else 'blue'} one of {i} boxes" for i, y in enumerate(Y)]
    rows = pandas.DataFrame({"code": [100 + i % 3 for i in range(N)], "note": notes})
    model = SVMClassifier(kinds={"code": "category", "note": "text"}).fit(rows, Y)
    assert model.columns_ is not None
    assert model.columns_[0].levels == ("100", "101", "102")
    assert "note: red" in model.get_feature_names_out()
    assert model.score(rows, Y) == 1.0
    many = pandas.DataFrame({"note": [f"box {i}" for i in range(120)]})
    with pytest.warns(UserWarning, match=r"120 different texts .* kinds=\{'note': 'text'\}"):
        SVMClassifier().fit(many, np.arange(120) % 2)


def test_arrays_may_have_gaps() -> None:
    """NaN in an array of numbers is a missing cell, with an indicator."""
    X = np.array([[float(i % 9), np.nan if i % 4 == 0 else i % 5] for i in range(N)])
    model = SVMClassifier(C=1.0).fit(X, Y)
    assert model.get_feature_names_out().tolist() == ["0", "1", "1: missing"]
    with pytest.raises(ValueError, match="NaN"):
        SVMClassifier(C=1.0).fit(np.nan_to_num(X), Y).predict(X)


def test_tables_work_in_searches_and_with_kernels() -> None:
    """Folds of a frame, weights, calibration, support vectors, and a numeric target."""
    search = GridSearchCV(clone(MODEL), {"C": [0.1, 1.0]}, cv=3).fit(frame(), Y)
    assert search.best_score_ > 0.6
    kernel = SVMClassifier(kernel=GaussianKernel(gamma=0.1), calibration="sigmoid")
    kernel.fit(frame(), Y, sample_weight=np.ones(N))
    assert kernel.predict_proba(frame()).shape == (N, 2)
    assert kernel.support_vectors_.shape == (len(kernel.support_), 5)
    target = np.array([float(i % 3 + i % 4) for i in range(N)])
    assert SVMRegressor(scaling="standardize").fit(frame(), target).score(frame(), target) > 0.5
    assert len(cross_val_score(SVMRegressor(), frame(), target, cv=3)) == 3


def test_streams_have_no_tables() -> None:
    """`partial_fit` takes numbers."""
    with pytest.raises(ValueError, match="partial_fit takes finite numbers"):
        SVMClassifier("pegasos", regularization=0.1).partial_fit(frame(), Y, classes=["no", "yes"])


def test_no_library_of_frames_is_imported() -> None:
    """They are known by their columns."""
    module = import_module("svm.data.frames")
    assert not {"pandas", "polars", "pyarrow"} & set(vars(module))
