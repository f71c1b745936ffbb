"""Random problems for the property tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from svm.data.matrices import Vector
from svm.problem.problem import Problem
from tests.svm.cases.problems import INTERCEPTS

# The first example may compile loops, and every run of the suite must be the same.
PROPERTY = settings(deadline=None, max_examples=60, derandomize=True)

ordinary = st.floats(-10.0, 10.0).map(lambda value: round(value, 3))


def vectors(n: int, elements: st.SearchStrategy[float] = ordinary) -> st.SearchStrategy[Vector]:
    return arrays(np.float64, n, elements=elements)


@st.composite
def problems(draw: Any, max_rows: int = 12, max_features: int = 5) -> Problem:
    """A dense problem with both classes, any intercept, weights and λ."""
    n, d = draw(st.integers(2, max_rows)), draw(st.integers(1, max_features))
    y = draw(arrays(np.float64, n, elements=st.sampled_from([-1.0, 1.0])))
    y[:2] = [-1.0, 1.0]
    return Problem(
        X=draw(arrays(np.float64, (n, d), elements=ordinary)),
        some_rows=np.arange(n),
        y=y,
        unequal_weights=draw(vectors(n, st.floats(0.1, 4.0))),
        regularization=draw(st.floats(1e-3, 1e2)),
        intercept=draw(st.sampled_from(INTERCEPTS)),
        seed=draw(st.integers(0, 1000)),
    )
