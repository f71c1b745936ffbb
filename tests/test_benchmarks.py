"""Every benchmark runs, small, and gives what it promises: so that none rots."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    choices,
    growth,
    limits,
    parts,
    passes,
    small_jobs,
    solvers,
    waits,
)
from benchmarks import tables as accuracy_on_tables
from benchmarks.__main__ import main
from benchmarks.problems import cover_like, image_like, text_like
from benchmarks.solver_cases import Case

NOISE = np.array([2.0, -3.0, 2.0, -3.0, 0.0])
SMALL = (
    Case("dense", *image_like(300, 20), 0.1),
    Case("sparse", *text_like(400, 500, 0.02), 1.0),
)


def test_passes_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """Each solver with its peer, on every problem; both take a time of the same kind."""
    ratios = passes.main(SMALL, rounds=1)
    solvers = {"pegasos", "dual-coordinate-descent"}
    assert set(ratios) == {(problem.name, solver) for problem in SMALL for solver in solvers}
    assert all(0.001 < ratio < 1000 for ratio in ratios.values()), ratios
    table = capsys.readouterr().out
    assert [table.count(peer) for peer in passes.PEERS.values()] == [2, 2]


def test_choices_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """`auto` proves the gap in each cell in which one of the solvers does."""
    cells = choices.main({"iris": choices.DATASETS["iris, two classes"]}, rounds=1)
    assert len(cells) == len(choices.STRENGTHS)
    assert all(cell.reached["auto"] and cell.best < np.inf for cell in cells)
    assert "0 in which only auto misses the gap" in capsys.readouterr().out


def test_solvers_are_compared(tmp_path: Path) -> None:
    """Each reaches the gap that it is timed to, all kernel solvers reach the same dual value."""
    X, y = image_like(200, 12)
    classes = y + (X[:, 0] > X[:, 1])
    cases = [
        Case("dense", *cover_like(300), 1.0),
        Case("sparse", *text_like(200, 300, 0.02), 0.1),
        Case("kernel", X, y, 1.0, gamma=0.1),
        Case("classes", X, classes, 1.0, gamma=0.1),
    ]
    rows = solvers.main(cases, rounds=1, budget=5.0, figures=tmp_path)
    assert {row.case for row in rows} == {case.name for case in cases}
    assert {"newton", "LinearSVC", "smo", "SVC"} <= {row.candidate for row in rows}
    assert all(row.seconds is not None and 0 < row.seconds < 60 for row in rows)
    cells = {(row.case, row.gap): {True: 0, False: 0} for row in rows}
    for row in rows:
        cells[row.case, row.gap][row.ours] += 1
    assert all(min(counts.values()) >= 1 for counts in cells.values()), cells  # ours and a peer
    assert len(list(tmp_path.glob("*.svg"))) == 2 * 2 + 2
    peer = [row for row in rows if row.gap == solvers.KERNEL_GAP and "dual" in row.note]
    assert min(float(row.note.split()[1]) for row in peer) > -1e-2


def test_accuracies_on_tables_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The first table of 200 rows and more; texts and numbers reach both in the same way."""
    [comparison] = accuracy_on_tables.main(count=1)
    assert comparison.name == "AER/Affairs"
    assert 60 < comparison.ours.min() <= 100
    assert abs(comparison.difference) < 5
    assert re.search(r"mean difference [+-]\d\.\d\d points; \d of 1", capsys.readouterr().out)


def test_difference_below_both_bounds_is_marked() -> None:
    """0.3 points, or one standard error of the folds' differences."""
    theirs = np.full(5, 80.0)
    steady = accuracy_on_tables.Comparison("steady", theirs - 0.4, theirs)
    noisy = accuracy_on_tables.Comparison("noisy", theirs + NOISE, theirs)
    assert (steady.difference, steady.standard_error) == pytest.approx((-0.4, 0.0))
    assert (noisy.difference, noisy.standard_error) == pytest.approx((-0.4, 1.1225), rel=1e-3)
    assert steady.below
    assert str(steady).endswith("below")
    assert not noisy.below


@pytest.mark.long
def test_small_jobs_are_counted() -> None:
    """With one worker and with two, and the time that they compute."""
    results = small_jobs.main(jobs=6, rounds=1, databases=("SQLite",))
    assert [result.workers for result in results] == [1, 2]
    assert all(result.jobs_per_s > 0.2 and result.cpu_ms > 0.5 for result in results)


@pytest.mark.long
def test_waits_for_trainings_are_timed() -> None:
    """Of a few; without the minute of silence."""
    taken = waits.main(rounds=2, silences=0, rows=500)
    assert taken.keys() == {"first job", "small job", "upload", "its job", "upload to model"}
    assert all(1.0 < ms < 60_000 for ms in taken.values())


@pytest.mark.long
def test_jobs_with_parts_are_timed() -> None:
    """Each kind, with one worker and with two."""
    results = parts.main(rounds=1, rows=200, predicted=5_000)
    assert len(results) == 4
    assert all(0.0 < result.ratio < 100.0 for result in results)


def test_limits_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Both ratios; the scores are LIBSVM's."""
    assert 0.001 < limits.gradient_pass(500, rounds=1) < 1000
    assert 0.001 < limits.scores(200, 20, rounds=1) < 1000
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"gradient pass over 500 × 784 float32: \d", lines[0])
    assert re.match(r"20 rows by 200 support vectors, float64: \d", lines[1])


def test_growth_is_drawn(tmp_path: Path) -> None:
    """Three curves; the same measurements make the same file, with text that stays text."""
    assert len(growth.main(tmp_path, largest=512, rounds=1)) == 3
    assert len(list(tmp_path.glob("*.svg"))) == 3
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    curve = growth.Curve("twice", "Twice", "rows", "O(n)", sizes, 3.0 * sizes)
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    growth.draw(curve, first)
    growth.draw(curve, second)
    assert first.read_bytes() == second.read_bytes()
    assert "fit: exponent 1.00, expected O(n)" in first.read_text()


def test_unknown_measurement_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["passes", "speed"])
    assert "no measurement is called speed; there are passes, solvers" in capsys.readouterr().err
