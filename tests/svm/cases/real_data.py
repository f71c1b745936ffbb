"""The real data beside the repository (`../shared/data`); tests that need it are skipped without
it."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array

from svm.data.matrices import Vector

FOLDER = Path(__file__).parents[3].parent / "shared" / "data"

Labels = npt.NDArray[np.int64]


def _text(name: str) -> list[str]:
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{path} is not there: this test needs the project's shared data")
    with gzip.open(path, "rt") as lines:
        return list(lines)


@cache
def tutorial() -> tuple[Vector, Labels]:
    """The gradient-descent tutorial's 6414 × 122 features of 0 and 1, and labels ±1."""
    X = np.loadtxt(_text("features.txt.gz"), delimiter=",")
    return X, np.loadtxt(_text("target.txt.gz"), dtype=np.int64)


@cache
def digits(part: str) -> tuple[Vector, Labels]:
    """Handwritten digits 5 and 6 as 256 gray values; `part` is train (200) or test (600)."""
    rows = np.loadtxt(_text(f"coding5_{part}.csv.gz"), delimiter=",", skiprows=1)
    return rows[:, :-1], rows[:, -1].astype(np.int64)


@cache
def adult(name: str) -> tuple[csr_array[Any, tuple[int, int]], Labels]:
    """a9a (32561 rows) or a9a.t (16281 rows), sparse with 123 binary features."""
    labels, columns, indptr = [], [], [0]
    for line in _text(f"{name}.libsvm.gz"):
        label, *pairs = line.split()
        labels.append(int(label))
        columns += [int(pair.split(":")[0]) - 1 for pair in pairs]
        indptr.append(len(columns))
    parts = np.ones(len(columns)), np.array(columns, np.int32), np.array(indptr, np.int32)
    return csr_array(parts, shape=(len(labels), 123)), np.array(labels)
