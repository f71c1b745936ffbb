"""What `auto` compares: families of functions, each with its settings, as pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from svm.hyperparameters import Effort
from svm.kernel.kernels import Gamma, GaussianKernel
from svm.model.pipeline import Pipeline
from svm.transforms.features import Nystroem, Splines
from svm.transforms.scaling import ScalingName

Family: TypeAlias = Literal["linear", "splines", "gaussian"]
FAMILIES: tuple[Family, ...] = "linear", "splines", "gaussian"
"""The simpler ones first."""
TITLES: dict[Family, str] = {"linear": "linear", "splines": "splines", "gaussian": "Gaussian"}
FEWEST_ROWS = 50
"""With fewer rows nothing is compared."""
MOST_CLASSES = 20
"""With more classes, too: each setting is trained for each pair."""
MOST_VALUES = 1 << 24
"""Of a sample: 128 MiB."""
MOST_CURVES = 200
"""With more columns there are no splines."""
EXACT_ROWS = 30_000
"""With more rows a Gaussian kernel is approximated by Nyström features."""


FOLDS = 5
"""Of the first comparison, and of the last one, which computes the first two of them."""
LAST_FOLDS, FINALISTS = 2, 3


@dataclass(frozen=True)
class Amount:
    """How much work a search is."""

    rows: int
    """Of the sample for the first comparison."""
    more_rows: int
    """Of that for the last one, if there are more rows."""
    rounds: int
    """How often the best candidate gets neighbors …"""
    of_families: bool
    """… or that of each family."""
    kept: tuple[int, int]
    """Candidates that remain after the first and after the second fold."""

    def most_trainings(self, first: Sequence[Candidate], has_more: bool) -> int:
        """Trainings of a search that begins with `first`, at most, on parts of samples."""
        near = {one.family: 2 if one.gamma is None else 4 for one in first}.values()
        count = len(first) + self.rounds * (sum(near) if self.of_families else max(near))
        some, fewer = (min(count, kept) for kept in self.kept)
        return count + some + (FOLDS - 2) * fewer + LAST_FOLDS * min(count, FINALISTS) * has_more


AMOUNTS: dict[Effort, Amount] = {
    "balanced": Amount(3_000, 10_000, 1, False, (9, 4)),
    "thorough": Amount(10_000, 30_000, 2, True, (16, 8)),
}


@dataclass(frozen=True)
class Candidate:
    """One way to train."""

    family: Family
    C: float
    scaling: ScalingName
    gamma: Gamma | None = None

    def pipeline(self, usual: Pipeline) -> Pipeline:
        """`usual` with the settings of this candidate."""
        given: Any = usual.solver
        kernel = None if self.gamma is None else GaussianKernel(gamma=self.gamma)
        solver = replace(given, C=self.C, kernel=kernel)
        features = Splines() if self.family == "splines" else usual.features
        return replace(usual, solver=solver, scaling=self.scaling, features=features)


def sample_sizes(effort: Effort, n_samples: int, stored_values: int) -> tuple[int, int]:
    """Rows of the first comparison, and of the last one."""
    amount, width = AMOUNTS[effort], max(1, stored_values // n_samples)
    most = max(FEWEST_ROWS, MOST_VALUES // width)
    return min(amount.rows, most), min(amount.more_rows, most)


def first_candidates(
    pipeline: Pipeline, n_columns: int, *, sparse: bool, unscaled: bool
) -> list[Candidate]:
    """Those to begin with. `sparse`: rows that solvers see as sparse ones, such as texts.
    `unscaled`: a linear model without scaling, too."""
    usual = pipeline.scaling
    linear = [Candidate("linear", 1.0, usual)]
    if sparse:
        return linear + [Candidate("linear", C, usual) for C in (0.1, 10.0)]
    if unscaled and usual != "none":
        linear.append(Candidate("linear", 1.0, "none"))
    curves = [Candidate("splines", C, usual) for C in (0.03, 0.3)]
    rules: tuple[Gamma, ...] = "median", "scale"
    kernels = [Candidate("gaussian", C, usual, gamma) for gamma in rules for C in (1.0, 10.0)]
    return linear + (curves if n_columns <= MOST_CURVES else []) + kernels


def possible_ends(first: Sequence[Candidate], pipeline: Pipeline, *, exact: bool) -> list[Pipeline]:
    """One pipeline of each family that a search may choose."""
    ends = [one.pipeline(pipeline) for one in {one.family: one for one in first}.values()]
    return [end if exact or end.kernel is None else approximated(end) for end in ends]


def approximated(pipeline: Pipeline) -> Pipeline:
    """The pipeline with Nyström features in place of its kernel."""
    given: Any = pipeline.solver
    features = Nystroem(kernel=given.kernel)
    return replace(pipeline, solver=replace(given, kernel=None), features=features)
