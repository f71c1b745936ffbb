"""Planted leaks are found by name, clean tables are not accused, and odd tables are audited."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.leaks import ACCUSED, KINDS, Case, generated
from svm.audit import audit
from svm.audit.findings import ABOUT, NAMES, Finding, percent
from svm.data.columns import Column, PlainColumns

BASES = [generated(number) for number in (101, 102, 103)]


def names(findings: list[Finding]) -> set[str]:
    return {finding.name for finding in findings}


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_leak_is_found_by_its_name(kind: str, base: Case) -> None:
    name, plant = KINDS[kind]
    assert name in names(plant(base, np.random.default_rng(7)).findings())


@pytest.mark.parametrize("number", range(200, 212))
def test_clean_tables_are_not_accused(number: int) -> None:
    found = [one for one in generated(number).findings() if one.grade in ACCUSED]
    assert found == []


def test_findings_depend_on_the_data_alone() -> None:
    case = KINDS["patients"][1](BASES[1], np.random.default_rng(0))
    assert case.findings() == case.findings()
    assert case.findings()[0].as_dict() == {
        "name": "group",
        "found": case.findings()[0].found,
        "columns": ["patient"],
        "numbers": case.findings()[0].numbers,
    }


def test_the_columns_of_a_finding_are_the_strongest_first() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 400)
    clear, nearly = labels + random.uniform(0, 0.9, (2, 400))
    nearly[:4] = 1.5 - nearly[:4]
    X = np.column_stack([random.standard_normal((400, 3)), nearly, clear])
    columns = [Column(name) for name in "abcde"]
    found = audit(X, labels, columns)
    assert [(one.name, one.columns) for one in found] == [("single-column", ("e", "d"))]
    assert found[0].found.endswith("So for `d`.")


def test_labels_that_every_column_tells_are_no_leak() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 300)
    X = random.standard_normal((300, 2)) + 8 * labels[:, None]
    assert audit(X, labels, PlainColumns(["x", "y"], 2)) == []


def test_texts_are_groups_and_copies_like_categories() -> None:
    case = KINDS["numbers in texts"][1](BASES[1], np.random.default_rng(0))
    assert names(audit(case.X, case.labels, case.columns)) == {"identifier"}


def test_each_class_is_compared_with_the_others_for_missing_cells() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 100)
    X = random.standard_normal((300, 2))
    X[labels == 2, 1] = np.nan
    found = audit(X, random.permuted(labels), [Column("a"), Column("b")])
    assert "missing-pattern" not in names(found)
    [one] = [one for one in audit(X, labels, [Column("a"), Column("b")]) if one.columns]
    assert (one.name, one.columns) == ("missing-pattern", ("b",))
    assert "is empty in 100 % of the rows of '2' and 0 % of the others" in one.found


def test_files_sorted_by_their_label_are_reported() -> None:
    random = np.random.default_rng(0)
    X, labels = random.standard_normal((100, 3)), np.repeat([1, 0], 50)
    columns = PlainColumns(None, 3)
    assert names(audit(X, labels, columns)) == {"sorted-by-label"}
    assert names(audit(X, -np.arange(100.0), columns)) == {"sorted-by-label"}
    assert names(audit(X, random.permuted(labels), columns)) == set()


def test_equal_rows_of_few_possible_ones_are_no_copies() -> None:
    X = np.random.default_rng(0).integers(0, 3, (500, 3)).astype(float)
    assert audit(X, np.arange(500) % 2, PlainColumns(None, 3)) == []


def test_rows_on_a_curve_are_near_without_being_copies() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, 2000)
    X = np.column_stack([x, x**2, x**3, np.exp(x)])
    assert "near-duplicates" not in names(audit(X, None, PlainColumns(None, 4)))


@pytest.mark.parametrize(
    ("X", "labels"),
    [
        (np.zeros((0, 2)), np.zeros(0, np.int64)),
        (np.zeros((100, 2)), np.zeros(100)),
        (np.full((100, 4), np.nan), np.arange(100) % 3),
        (np.full((100, 3), 1e308) * (np.arange(100)[:, None] / 100), np.arange(100.0)),
        (np.random.default_rng(0).standard_normal((100, 5)), np.arange(100)),
        (np.random.default_rng(0).standard_normal((40, 3000)), np.arange(40) % 2),
        (np.random.default_rng(0).standard_normal((9000, 2)), None),
        (np.arange(60.0).reshape(30, 2), np.full(30, 1e300)),
    ],
    ids=["empty", "constant", "missing", "huge", "singles", "wide", "unlabeled", "one value"],
)
@pytest.mark.filterwarnings("error")
def test_odd_tables_are_audited(X: Any, labels: Any) -> None:
    found = audit(X, labels, PlainColumns(None, X.shape[1]))
    assert names(found) <= {"more-columns-than-rows", "duplicates", "equal-to-label", *NAMES[-7:]}


def test_a_leak_is_found_among_thousands_of_columns() -> None:
    random = np.random.default_rng(0)
    X, labels = random.standard_normal((120, 2000)), random.integers(0, 2, 120)
    X[:, 1234] = labels + random.uniform(0, 0.5, 120)
    found = {one.name: one.columns for one in audit(X, labels, PlainColumns(None, 2000))}
    assert found == {"single-column": ("1234",), "more-columns-than-rows": ()}


def test_leaks_of_large_tables_are_found_in_a_sample() -> None:
    base = replace(generated(0), columns=())
    random = np.random.default_rng(0)
    n = 200_000
    patients = random.integers(0, n // 10, n)
    labels = random.integers(0, 2, n // 10)[patients]
    columns = (Column("x"), Column("patient", "category", tuple(map(str, range(n // 10)))))
    case = replace(
        base, X=np.column_stack([random.random(n), patients]), labels=labels, columns=columns
    )
    [found] = case.findings()
    assert found.name == "group"
    assert "in about 11 rows each" in found.found


def test_every_name_says_why_and_what_to_do() -> None:
    assert list(ABOUT) == list(NAMES)
    assert all(about.why.endswith(".") and about.to_do.endswith(".") for about in ABOUT.values())


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100 %"), (0.9999, "99.9 %"), (0.5, "50 %"), (0.98765, "98.8 %")]
)
def test_percents_are_100_only_of_all(share: float, text: str) -> None:
    assert percent(share) == text
