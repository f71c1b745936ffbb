"""Raw values of one table in the columns of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svm.data.columns import UNKNOWN, Column
from svm.data.matrices import dense
from svm.data.texts import TextList, texts_of, with_texts
from svm.encoding.recoding import recode, recoding
from svm.errors import InvalidData
from tests.svm.cases.stored import stored
from tests.svm.cases.tables import NAN

ONTO = (Column("Age"), Column("Port", "category", ("C", "Q", "S")), Column("Alone", "boolean"))


def test_levels_and_order_become_those_of_the_other_table() -> None:
    """Levels by their text; unknown ones are marked; further columns are left out."""
    columns = (
        Column("Port", "category", ("A", "C", "S")),
        Column("Name", "category", ("x",)),
        Column("Alone", "boolean"),
        Column("Age"),
    )
    X = np.array([[0, 0, 1, 20], [1, 0, 0, NAN], [2, 0, NAN, 3], [NAN, 0, 0, 4], [UNKNOWN] * 4])
    np.testing.assert_array_equal(
        recode(X, columns, ONTO),
        [[20, UNKNOWN, 1], [NAN, 0, 0], [3, 2, NAN], [4, NAN, 0], [UNKNOWN] * 3],
    )
    assert recode(X, columns, columns) is X


def test_numbers_and_booleans_can_be_levels() -> None:
    """A table without gaps may have been read as plain numbers."""
    onto = (
        Column("Class", "category", ("1", "2.5", "10")),
        Column("Alone", "boolean"),
        Column("Paid", "category", ("false", "true")),
        Column("Age"),
    )
    given = (Column("Class"), Column("Alone"), Column("Paid", "boolean"), Column("Age", "boolean"))
    X = np.array([[2.5, 0, 1, 1], [NAN, 1, 0, NAN], [10, NAN, NAN, 0], [3, 0, 0, 0]])
    np.testing.assert_array_equal(
        recode(X, given, onto),
        [[1, 0, 1, 1], [NAN, 1, 0, NAN], [2, NAN, NAN, 0], [UNKNOWN, 0, 0, 0]],
    )


def test_missing_column_or_other_kind_is_refused() -> None:
    """With its name."""
    X = np.zeros((2, 2))
    with pytest.raises(InvalidData, match="no column 'Port' and 1 more"):
        recode(X, (Column("Age"), Column("Fare")), ONTO)
    with pytest.raises(InvalidData, match=r"'Age' has values of the kind date.* the kind number"):
        recode(X, (Column("Age", "date"), *ONTO[1:]), ONTO)
    with pytest.raises(InvalidData, match="'Alone' has numbers, and the model takes 0 and 1"):
        recode(np.full((1, 3), 2.0), (*ONTO[:2], Column("Alone")), ONTO)
    with pytest.raises(InvalidData) as error:
        recode(X, (), ONTO)
    assert error.value.code == "feature-mismatch"


ONTO_TEXTS = (
    Column("Name", "text"),
    Column("Note", "text"),
    Column("Port", "category", ("C", "Q", "S")),
)


def test_texts_levels_and_columns_of_another_order() -> None:
    """Texts stay, levels become texts, and texts that are levels are found."""
    columns = (
        Column("Port", "text"),
        Column("Name", "category", ("Ada", "Bob")),
        Column("Age"),
        Column("Note", "text"),
    )
    texts = TextList(["see you", "S", " C ", "X", "free"])
    raw = np.array([[1, 0, 20, 0], [2, 1, 3, NAN], [3, NAN, 4, 4], [NAN, UNKNOWN, NAN, 0]])
    X = with_texts(raw, texts)
    recoded = recode(X, columns, ONTO_TEXTS)
    np.testing.assert_array_equal(recoded[:, 2], [2, 0, UNKNOWN, NAN])
    assert texts_of(recoded).take(recoded[:2, 0].astype(int).tolist()) == ["Ada", "Bob"]
    assert np.isnan(recoded[2:, 0]).all()
    np.testing.assert_array_equal(recoded[:, 1], [0, NAN, 4, 0])
    assert texts_of(recoded).take([0, 4]) == ["see you", "free"]
    assert recode(X, columns, columns) is X
    assert texts_of(recode(X, columns, columns[2:3])).take([]) == []


def test_recoded_texts_in_files(tmp_path: Path) -> None:
    """As in memory: the texts of all rows are those of each piece."""
    raw = np.stack([np.arange(3000.0), np.arange(3000.0) % 2], axis=1)
    columns = Column("Note", "text"), Column("Name", "category", ("Ada", "Bob"))
    X = with_texts(raw, TextList([f"text {k}" for k in range(3000)]))
    changed = recoding(columns, ONTO_TEXTS[:2])
    rewritten = replace(stored(raw, tmp_path), texts=texts_of(X)).rewritten(changed)
    some = dense(rewritten.read(np.array([0, 7, 2999])))
    np.testing.assert_array_equal(some, changed(X)[[0, 7, 2999]])
    assert texts_of(some).take(some[:, 0].astype(int).tolist()) == ["Ada", "Bob", "Bob"]
    assert texts_of(some).take(some[:, 1].astype(int).tolist())[2] == "text 2999"


@pytest.mark.parametrize("kind", ["number", "boolean", "date"])
def test_other_kinds_are_not_texts(kind: Any) -> None:
    """Neither way."""
    other, text = Column("Name", kind), Column("Name", "text")
    for given, onto in ((other, text), (text, other)):
        with pytest.raises(InvalidData, match=f"the kind {given.kind}.* the kind {onto.kind}"):
            recode(np.zeros((1, 1)), (given,), (onto,))
