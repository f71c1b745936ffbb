"""Trainings that are passes over the rows, which other processes can compute: which ones are, and
how many passes they take, estimated before there is a problem."""

from __future__ import annotations

import math
from dataclasses import dataclass

from svm.hyperparameters import Hyperparameters
from svm.problem.problem import Problem
from svm.solvers.auto import Auto
from svm.solvers.gradient_descent import GradientDescent
from svm.solvers.newton import Newton, sample_share
from svm.solvers.smoothing.smoothed_hinge import DENSE_HESSIAN, PRODUCTS
from svm.stopping import DEFAULT_DUALITY_GAP, DEFAULT_MAX_EPOCHS, Stopping

DIGIT_STEPS, FEWER_STEPS, SAMPLE_STEPS = 4.0, 2.0, 5.0
"""Newton steps for each decimal digit of the relative gap, without the first ones, and without
those that a sample of the rows saves. Counted: 60,000 x 54 without a sample 6, 13 and 24 for 1e-2,
1e-4 and 1e-6; 200,000 x 54 and 500,000 x 100 with one 2 to 6 for 1e-3, and 15 to 19 for 1e-6."""
STEP_READS = 3
"""Passes of a step that read rows: all for their scores; those near the margin for the Hessian;
those whose slopes change for the gradient."""
FURTHER_READS = 2
"""The first gradient, and the certificate."""
STEP_VECTORS = 7
"""Of d numbers each, in all messages of a step beside its Hessian: weights, and sums by class."""
SHARD_NUMBERS = 12
"""Of each shard, in all messages of a step: counts and sums of its rows."""


@dataclass(frozen=True, slots=True)
class ExpectedPasses:
    """Of one binary training."""

    passes: int
    """That read rows."""
    epoch_numbers: int
    """To and from each process in an epoch."""
    row_values: int
    """Numbers that are kept of each row."""


def computes_in_passes(solver: Hyperparameters, problem: Problem) -> bool:
    """Whether all that it does with the rows are sums over them, and values of each."""
    if problem.kernel is not None or problem.some_rows is not None:
        return False
    return isinstance(solver, Newton) or _is_batch(solver)


def expected_passes(
    choice: Hyperparameters,
    stopping: Stopping,
    n: int,
    d: int,
    values: int,
    *,
    sparse: bool,
    shards: int,
) -> ExpectedPasses | None:
    """Of a training on n rows with d features and this number of stored values; None if it is not
    computed in passes. `auto` counts as `newton`."""
    chooses_newton = isinstance(choice, Auto) and choice.kernel is None
    if not (chooses_newton or isinstance(choice, Newton) or _is_batch(choice)):
        return None
    most = stopping.max_epochs or DEFAULT_MAX_EPOCHS
    most = min(most, stopping.max_updates or most)
    digits = -math.log10(min(0.1, stopping.duality_gap or DEFAULT_DUALITY_GAP))
    steps = DIGIT_STEPS * digits - FEWER_STEPS
    steps -= SAMPLE_STEPS if sample_share(n, d, values) else 0.0
    products = int(PRODUCTS) if sparse or d > DENSE_HESSIAN else 0
    passes = min(most, max(2, math.ceil(steps))) * (STEP_READS + products) + FURTHER_READS
    hessian = 2 * products * (d + 1) if products else (d + 1) ** 2
    numbers = hessian + STEP_VECTORS * (d + 1) + SHARD_NUMBERS * shards
    if _is_batch(choice):
        passes, numbers = passes + most, 2 * (d + 1)
    return ExpectedPasses(passes, numbers, sum(Newton.row_values))


def _is_batch(solver: Hyperparameters) -> bool:
    return isinstance(solver, GradientDescent) and solver.batch_size == "all"
