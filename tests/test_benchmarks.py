"""Every benchmark runs, small, and gives what it promises: so that none rots."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

from benchmarks import gaps, passes
from benchmarks.problems import dense, sparse

SMALL = (dense(300, 20, C=0.1), sparse(400, 500, 0.02, C=1.0))


def test_passes_are_compared() -> None:
    ratios = passes.main(SMALL, rounds=1)
    solvers = {"pegasos", "dual-coordinate-descent"}
    assert set(ratios) == {(problem.name, solver) for problem in SMALL for solver in solvers}
    assert min(ratios.values()) > 0


def test_times_to_a_gap_are_compared() -> None:
    """The peer's number of passes is the smallest that comes near enough."""
    ratios = gaps.main(SMALL, gaps=(1e-1, 1e-2), rounds=1)
    names, dtypes = [problem.name for problem in SMALL], ("float64", "float32")
    assert set(ratios) == set(product(names, (1e-1, 1e-2), dtypes))
    assert min(ratios.values()) > 0


def test_unknown_measurement_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks", "passes", "speed"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "no measurement is called speed; there are passes, gaps" in ended.stderr
