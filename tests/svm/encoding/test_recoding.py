"""Raw values of one table in the columns of another."""

from __future__ import annotations

import numpy as np
import pytest

from svm.data.columns import UNKNOWN, Column
from svm.encoding.recoding import recode
from svm.errors import InvalidData
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
