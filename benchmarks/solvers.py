"""Time to a given distance from the optimum: our solvers against every trainer that is installed.

    python -m benchmarks.solvers [--cases dense] [--rounds 3] [--budget 60] [--figures FOLDER]

Linear: ours are whole trainings from the raw arrays that end when they have *proved* the gap. The
peers compute no gap, so each gets the fewest passes (or the largest tolerance) with which its
primal value is in truth as near to the best one known, found beforehand and at no cost to it.
Kernel: everyone ends by its own rule (ours: a gap of 0.1 %), with the dual objectives beside the
times.

All take turns in one process on one thread, and medians of CPU times count; with `--threads 2`
kernel cases are timed by the clock. "dense 12k × 784" is a pair of Fashion-MNIST if it is
installed, "ten classes" its first 2,000 rows of each class; the 500k × 54 are made in the shape of
the forest cover types, the texts at random (`benchmarks.solver_cases`).
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.style import context
from threadpoolctl import threadpool_limits

from benchmarks import peers
from benchmarks.growth import STYLE
from benchmarks.peers import LinearFit
from benchmarks.solver_cases import Case, all_cases
from svm import (
    SMO,
    Auto,
    DualCoordinateDescent,
    GaussianKernel,
    Newton,
    Pipeline,
    Stopping,
    Training,
    TrainingResult,
)
from svm.data.matrices import is_sparse
from svm.solvers import AnyChoice
from svm.training.warm_up import warm_up

GAPS = (1e-2, 1e-3)
EXACT_GAP = 1e-5
"""Relative gap of the optimum from which distances are measured."""
KERNEL_GAP = 1e-3
MOST_EFFORT = 1 << 20
REFINEMENTS = 4
"""Halvings of the last doubling of a peer's effort: it is overrated by a sixteenth at most."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    case: str
    gap: float
    candidate: str
    ours: bool
    seconds: float | None
    """None if the gap was not reached within the budget."""
    note: str = ""


def main(
    cases: Sequence[Case] | None = None,
    rounds: int = 3,
    budget: float = 60.0,
    threads: int = 1,
    figures: Path | None = None,
) -> list[Row]:
    """Print the table, and give its rows; `budget` is the most CPU seconds of a single fit."""
    warm_up()
    rows = []
    with threadpool_limits(1):
        for case in cases or all_cases():
            print(f"\n{case.name}", flush=True)
            if case.gamma is None:
                measured = _linear_rows(case, rounds, budget)
            else:
                measured = _kernel_rows(case, rounds, threads)
            _print(measured)
            rows += measured
            if figures is not None:
                draw(case.name, measured, figures)
    return rows


def _linear_rows(case: Case, rounds: int, budget: float) -> list[Row]:
    fits = peers.linear(case.X, case.labels, case.C)
    ladders = {name: _Ladder(case, fit, budget) for name, fit in fits.items()}
    ours = _linear_solvers(case.C)
    # Sparse Newton steps are products with the Hessian: far from the optimum they take long.
    exact = DualCoordinateDescent if is_sparse(case.X) else Newton
    best = _trained(case, exact(C=case.C, intercept="none"), EXACT_GAP).certificate.worst
    rows = []
    for gap in GAPS:
        candidates: dict[str, Callable[[], object]] = {}
        notes = {}
        for name, solver in ours.items():
            start = time.process_time()
            reached = _trained(case, solver, gap, budget).stop_reason == "gap-reached"
            notes[name] = "" if reached else f"> {time.process_time() - start:.0f} s"
            if reached:
                candidates[name] = partial(_trained, case, solver, gap)
        for name, fit in fits.items():
            effort, notes[name] = ladders[name].least((1.0 + gap) * best.primal)
            if effort is not None:
                candidates[name] = partial(fit, effort)
        seconds, _ = _median_seconds(candidates, rounds, time.process_time)
        rows += [
            Row(case.name, gap, name, name in ours, seconds.get(name), note)
            for name, note in notes.items()
        ]
    return rows


def _linear_solvers(C: float) -> dict[str, AnyChoice]:
    return {
        "auto": Auto(C=C, intercept="none"),
        "newton": Newton(C=C, intercept="none"),
        "newton float32": Newton(C=C, intercept="none", dtype="float32"),
        "dual-coordinate-descent": DualCoordinateDescent(C=C, intercept="none"),
        "dual-coordinate-descent float32": DualCoordinateDescent(
            C=C, intercept="none", dtype="float32"
        ),
    }


def _trained(
    case: Case, solver: AnyChoice, gap: float, budget: float | None = None, threads: int = 1
) -> TrainingResult:
    pipeline = Pipeline(
        solver=solver,
        stopping=Stopping(duality_gap=gap, max_epochs=20_000, time_budget_s=budget),
    )
    training = Training(pipeline, case.X, case.labels, seed=0, threads=threads)
    for _ in training:
        pass
    return training.result()


class _Ladder:
    """What a peer reaches with an effort, tried once each."""

    def __init__(self, case: Case, fit: LinearFit, budget: float) -> None:
        self._case, self._fit, self._budget = case, fit, budget
        self._tried: dict[int, tuple[float, bool]] = {}

    def tried(self, effort: int) -> tuple[float, bool]:
        """(The primal value after that effort, whether it took no longer than the budget.)"""
        if effort not in self._tried:
            start = time.process_time()
            w = self._fit(effort)
            within = time.process_time() - start <= self._budget
            losses = np.maximum(0.0, 1.0 - self._case.labels * (self._case.X @ w))
            penalty = 0.5 * float(w @ w) / (len(losses) * self._case.C)
            self._tried[effort] = penalty + float(losses.mean()), within
        return self._tried[effort]

    def least(self, target: float) -> tuple[int | None, str]:
        """The least effort found whose primal value is at most `target`, and a note on it."""
        effort = 1
        while self.tried(effort)[0] > target:
            if not self.tried(effort)[1] or effort > MOST_EFFORT:
                nearest = min(value for value, _ in self._tried.values())
                return None, f"> {self._budget:.0f} s ({nearest / target - 1.0:+.1%})"
            effort *= 2
        low, high = effort // 2, effort
        for _ in range(REFINEMENTS):
            middle = (low + high) // 2
            if middle not in (low, high):
                low, high = (low, middle) if self.tried(middle)[0] <= target else (middle, high)
        return high, f"effort {high}"


def _kernel_rows(case: Case, rounds: int, threads: int) -> list[Row]:
    """Times, each with the dual objective of all pairs together relative to the largest of all."""
    assert case.gamma is not None
    gaussian = GaussianKernel(gamma=case.gamma)
    ours: dict[str, AnyChoice] = {
        "smo": SMO(C=case.C, kernel=gaussian),
        "smo float32": SMO(C=case.C, kernel=gaussian, dtype="float32"),
    }
    candidates: dict[str, Callable[[], Any]] = {
        name: partial(_trained, case, solver, KERNEL_GAP, threads=threads)
        for name, solver in ours.items()
    }
    candidates |= peers.kernel(case.X, case.labels, case.C, case.gamma, threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds, outcomes = _median_seconds(candidates, rounds, clock)
    duals = {
        name: _dual(outcome) if name in ours else outcome.dual(gaussian)
        for name, outcome in outcomes.items()
    }
    best = max(duals.values())
    return [
        Row(
            case.name, KERNEL_GAP, name, name in ours, seconds[name], f"dual {dual / best - 1:+.0e}"
        )
        for name, dual in duals.items()
    ]


def _dual(result: TrainingResult) -> float:
    """Of all pairs together, in the constants of LIBSVM."""
    pairs = result.certificate.pairs
    return sum(pair.dual * pair.solver_objective / pair.primal for pair in pairs)


def _median_seconds(
    candidates: Mapping[str, Callable[[], Any]], rounds: int, clock: Callable[[], float]
) -> tuple[dict[str, float], dict[str, Any]]:
    """(Median time of each over alternating rounds, what its last run gave.)"""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    outcomes = {}
    for _ in range(rounds):
        for name, run in candidates.items():
            start = clock()
            outcomes[name] = run()
            times[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in times.items()}, outcomes


def _print(rows: Sequence[Row]) -> None:
    """Times in seconds, and the ratio to the best peer."""
    for gap in dict.fromkeys(row.gap for row in rows):
        some = [row for row in rows if row.gap == gap]
        theirs = [row.seconds for row in some if not row.ours and row.seconds is not None]
        print(f"  to {gap:.1%}")
        for row in some:
            spent = ">" if row.seconds is None else f"{row.seconds:.3f}"
            ratio = f"{row.seconds / min(theirs):.2f}" if row.seconds and theirs else ""
            print(f"{row.candidate:>34} {spent:>9} {ratio:>7}   {row.note}", flush=True)
        ours = {row.candidate: row.seconds for row in some if row.ours and row.seconds}
        # It has the data in float64.
        single = [ours[name] for name in ("newton", "dual-coordinate-descent") if name in ours]
        if "auto" in ours and single:
            print(f"{'auto over the best single solver':>34} {ours['auto'] / min(single):9.2f}")


def draw(name: str, rows: Sequence[Row], folder: Path) -> None:
    """The times of one case as bars, an SVG file for each gap."""
    folder.mkdir(parents=True, exist_ok=True)
    for gap in dict.fromkeys(row.gap for row in rows):
        some = [row for row in rows if row.gap == gap and row.seconds is not None]
        some.sort(key=lambda row: row.seconds or 0.0, reverse=True)
        with context(STYLE):
            figure = Figure(figsize=(6.0, 0.8 + 0.3 * len(some)), layout="constrained")
            axes = figure.subplots()
            colors = ["#1f4e79" if row.ours else "#c55a11" for row in some]
            axes.barh([r.candidate for r in some], [r.seconds or 0.0 for r in some], color=colors)
            axes.set_xscale("log")
            axes.set_xlabel(f"seconds to {gap:.1%}")
            axes.set_title(name)
            words = re.sub(r"[^a-z0-9.]+", "-", f"{name} to {gap:.1%}".lower()).strip("-")
            figure.savefig(folder / f"{words}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="", help="only those whose names contain this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds of one fit")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--figures", type=Path)
    given = parser.parse_args()
    chosen = all_cases(given.cases)
    main(chosen, given.rounds, given.budget, given.threads, given.figures)
