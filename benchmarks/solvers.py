"""Time to a given distance from the optimum: our solvers against every trainer that is installed.

    python -m benchmarks.solvers [--cases dense] [--rounds 3] [--budget 60] [--figures FOLDER]

Linear: ours are whole trainings from the raw arrays that end when they have *proved* the gap. The
peers compute no gap, so each gets the fewest passes (or the largest tolerance) with which its
primal value is in truth as near to the best one known, found beforehand for each seed and at no
cost to it. Every model, also ours, is judged by the same lines here: beside its time is by how much
its cost is above the best one known, the largest of all seeds.
Kernel: everyone ends by its own rule (ours: a gap of 0.1 %), with the dual objectives beside the
times.

All take turns in one process on one thread, in the opposite order every other round, each round
with another seed; medians of CPU times count. With `--threads 2` kernel cases are timed by the
clock. `benchmarks.solver_cases` says what the data is.
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
from threadpoolctl import threadpool_limits

from benchmarks import peers
from benchmarks.peers import LinearFit
from benchmarks.solver_cases import Case, all_cases
from service import charts
from service.charts.chart import Axis, Chart, Panel, Series
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
from svm.data.matrices import Vector, is_sparse
from svm.solvers import AnyChoice
from svm.training.training import Execution
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
    ladders = {
        name: [Ladder(case, partial(fit, seed), budget) for seed in range(rounds)]
        for name, fit in fits.items()
    }
    ours = _linear_solvers(case.C)
    # Sparse Newton steps are products with the Hessian: far from the optimum they take long.
    exact = DualCoordinateDescent if is_sparse(case.X) else Newton
    best = cost(case, _weights(case, exact(C=case.C, intercept="none"), EXACT_GAP, 0))
    rows = []
    for gap in GAPS:
        candidates: dict[str, Callable[[int], Vector]] = {}
        notes = {}
        for name, solver in ours.items():
            start = time.process_time()
            reached = _trained(case, solver, gap, budget).stop_reason == "gap-reached"
            notes[name] = "" if reached else f"> {time.process_time() - start:.0f} s"
            if reached:
                candidates[name] = partial(_weights, case, solver, gap)
        for name, fit in fits.items():
            efforts, notes[name] = efforts_to(ladders[name], (1.0 + gap) * best)
            if efforts:
                candidates[name] = partial(_with_effort, fit, efforts)
        seconds, weights = _median_seconds(candidates, rounds, time.process_time)
        for name, some in weights.items():
            excess = max(cost(case, w) for w in some) / best - 1.0
            notes[name] = f"{excess:+.3%} {notes[name]}".rstrip()
        rows += [
            Row(case.name, gap, name, name in ours, seconds.get(name), note)
            for name, note in notes.items()
        ]
    return rows


def cost(case: Case, w: Vector) -> float:
    """λ/2 ‖w‖² + (1/n) Σ hinge, from its definition: the same for everyone's weights."""
    losses = np.maximum(0.0, 1.0 - case.labels * (case.X @ w))
    return 0.5 * float(w @ w) / (len(losses) * case.C) + float(losses.mean())


class Ladder:
    """What a peer reaches with an effort and one seed, tried once each."""

    def __init__(self, case: Case, fit: Callable[[int], Vector], budget: float) -> None:
        self._case, self._fit, self._budget = case, fit, budget
        self._tried: dict[int, tuple[float, bool]] = {}

    def tried(self, effort: int) -> tuple[float, bool]:
        """(The primal value after that effort, whether it took no longer than the budget.)"""
        if effort not in self._tried:
            start = time.process_time()
            w = self._fit(effort)
            within = time.process_time() - start <= self._budget
            self._tried[effort] = cost(self._case, w), within
        return self._tried[effort]

    def least(self, target: float) -> tuple[int | None, str]:
        """The least effort found whose primal value is at most `target`, and a note on it."""
        effort = 1
        while self.tried(effort)[0] > target:
            if not self.tried(effort)[1] or effort > MOST_EFFORT:
                nearest = min(value for value, _ in self._tried.values())
                return None, f"> {self._budget:.0f} s, {nearest / target - 1.0:+.1%} too high"
            effort *= 2
        low, high = effort // 2, effort
        for _ in range(REFINEMENTS):
            middle = (low + high) // 2
            if middle not in (low, high):
                low, high = (low, middle) if self.tried(middle)[0] <= target else (middle, high)
        return high, ""


def efforts_to(ladders: Sequence[Ladder], target: float) -> tuple[list[int], str]:
    """The least effort found for each seed, none if one of them needs too long; and a note."""
    efforts = []
    for ladder in ladders:
        effort, note = ladder.least(target)
        if effort is None:
            return [], note
        efforts.append(effort)
    return efforts, "effort " + " ".join(map(str, efforts))


def _weights(case: Case, solver: AnyChoice, gap: float, seed: int) -> Vector:
    weights: Vector = _trained(case, solver, gap, seed=seed).fitted.coefficients[0]
    return weights


def _with_effort(fit: LinearFit, efforts: Sequence[int], seed: int) -> Vector:
    return fit(seed, efforts[seed])


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
    case: Case,
    solver: AnyChoice,
    gap: float,
    budget: float | None = None,
    threads: int = 1,
    seed: int = 0,
) -> TrainingResult:
    pipeline = Pipeline(
        solver=solver,
        stopping=Stopping(duality_gap=gap, max_epochs=20_000, time_budget_s=budget),
    )
    training = Training(pipeline, case.X, case.labels, seed=seed, how=Execution(threads=threads))
    for _ in training:
        pass
    return training.result()


def _kernel_rows(case: Case, rounds: int, threads: int) -> list[Row]:
    """Times, each with the dual objective of all pairs together relative to the largest of all."""
    assert case.gamma is not None
    gaussian = GaussianKernel(gamma=case.gamma)
    ours: dict[str, AnyChoice] = {
        "smo": SMO(C=case.C, kernel=gaussian),
        "smo float32": SMO(C=case.C, kernel=gaussian, dtype="float32"),
    }
    candidates: dict[str, Callable[[int], Any]] = {
        name: partial(_trained, case, solver, KERNEL_GAP, None, threads)
        for name, solver in ours.items()
    }
    theirs = peers.kernel(case.X, case.labels, case.C, case.gamma, threads)
    candidates |= {name: partial(_without_seed, fit) for name, fit in theirs.items()}
    clock = time.process_time if threads == 1 else time.perf_counter
    seconds, outcomes = _median_seconds(candidates, rounds, clock)
    duals = {
        name: _dual(some[-1]) if name in ours else some[-1].dual(gaussian)
        for name, some in outcomes.items()
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


def _without_seed(fit: Callable[[], Any], _seed: int) -> Any:
    return fit()


def _median_seconds(
    candidates: Mapping[str, Callable[[int], Any]], rounds: int, clock: Callable[[], float]
) -> tuple[dict[str, float], dict[str, list[Any]]]:
    """(Median time of each over alternating rounds, what it gave in each round.)"""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    outcomes: dict[str, list[Any]] = {name: [] for name in candidates}
    for seed in range(rounds):
        for name in list(candidates)[:: -1 if seed % 2 else 1]:
            start = clock()
            outcomes[name].append(candidates[name](seed))
            times[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in times.items()}, outcomes


def _print(rows: Sequence[Row]) -> None:
    """Times in seconds and the ratio to the best peer; then what `auto` needs of each other one."""
    for gap in dict.fromkeys(row.gap for row in rows):
        some = [row for row in rows if row.gap == gap]
        theirs = [row.seconds for row in some if not row.ours and row.seconds is not None]
        print(f"  to {gap:.1%}")
        for row in some:
            spent = ">" if row.seconds is None else f"{row.seconds:.3f}"
            ratio = f"{row.seconds / min(theirs):.2f}" if row.seconds and theirs else ""
            print(f"{row.candidate:>34} {spent:>9} {ratio:>7}   {row.note}", flush=True)
        times = {row.candidate: row.seconds for row in some if row.seconds}
        if auto := times.pop("auto", None):
            print("  auto / " + ", ".join(f"{name} {auto / t:.2f}" for name, t in times.items()))


def draw(name: str, rows: Sequence[Row], folder: Path) -> None:
    """The times of one case as dots, an SVG file for each gap."""
    folder.mkdir(parents=True, exist_ok=True)
    for gap in dict.fromkeys(row.gap for row in rows):
        some = [row for row in rows if row.gap == gap and row.seconds is not None]
        some.sort(key=lambda row: row.seconds or 0.0, reverse=True)
        title, names = f"{name} to {gap:.1%}", [row.candidate for row in some]
        series = [
            Series(
                [row.seconds or 0.0 for row in some if row.ours is ours],
                [k for k, row in enumerate(some) if row.ours is ours],
                whose,
                color,
                "dots",
            )
            for whose, ours, color in (("svm", True, 0), ("peers", False, 1))
        ]
        panel = Panel(Axis("", names=names), series, height=20 + 20 * len(some))
        chart = Chart(title, title, Axis(f"seconds to {gap:.1%}", "log"), [panel])
        words = re.sub(r"[^a-z0-9.]+", "-", title.lower()).strip("-")
        (folder / f"{words}.svg").write_text(charts.write(chart, "svg"))


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
