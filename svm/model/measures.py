"""What a model's predictions of some rows are worth, in one form for both kinds of targets:
`Confusion` of classes, `Errors` of numbers.

Intervals have 95 % confidence: Wilson's for shares; for the mean absolute error, the root of the
mean square and 1 - R² the normal one of their logarithm by the delta method, with Student's
quantile; for the median those two errors whose ranks are the ends of Wilson's interval of one half.
With few rows and long tails that of `rmse` is too narrow: an error that is not among the rows is
not in it. Weights wᵢ count as (Σ wᵢ)²/Σ wᵢ² rows. Of rows in groups, sums over groups are
independent of each other, single rows are not: a mean is one of groups, and a share counts as that
of as many rows as `GroupSums` says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from svm.data.matrices import Array, Mask, Vector
from svm.model.metrics import classification_metrics, confusion_matrix, weighted_metrics
from svm.model.target import Target

FEWEST_GROUPS = 8
"""Of rows: from fewer, a difference is not known."""
LEVEL = 0.975
DEVIATIONS = 1.959964
"""The quantile of the normal distribution at `LEVEL`."""
ERROR_BYTES = 120
"""Of a row while its error is measured: the true and the predicted number, and all in between."""
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@dataclass(frozen=True, slots=True)
class Groups:
    """Which of some rows belong together: they say less than independent ones."""

    numbers: Array
    """(n_samples,) of the group of each row, from 0; none is left out."""
    of_equal_rows: bool = False

    @classmethod
    def of(cls, keys: Array, of_equal_rows: bool = False) -> Groups:
        """`keys`: (n_samples,) equal for rows of the same group."""
        return cls(np.unique(keys, return_inverse=True)[1], of_equal_rows)

    def __len__(self) -> int:
        return int(self.numbers.max()) + 1

    def counted(self) -> dict[str, int]:
        """How many groups there are, as metrics have it."""
        return _counted(len(self), self.of_equal_rows)


def _counted(count: int, of_equal_rows: bool) -> dict[str, int]:
    return {"n_distinct" if of_equal_rows else "n_groups": count}


@dataclass(frozen=True, slots=True)
class GroupSums:
    """What groups of rows say about the share of wrong ones."""

    sums: Vector
    """(6,) over the groups i: 1, mᵢ, wᵢ, mᵢ², mᵢ wᵢ, wᵢ², with mᵢ rows, or their weights, of which
    wᵢ are wrong."""
    of_equal_rows: bool = False

    @classmethod
    def of(cls, groups: Groups, wrong: Array, weights: Vector | None = None) -> GroupSums:
        """`wrong`: (n_samples,) 0 or 1."""
        m = np.bincount(groups.numbers, weights).astype(np.float64)
        w = np.bincount(groups.numbers, wrong if weights is None else weights * wrong)
        sums = np.array([len(m), m.sum(), w.sum(), m @ m, m @ w, w @ w])
        return cls(sums, groups.of_equal_rows)

    @classmethod
    def alone(cls, counts: Array) -> GroupSums:
        """Of a confusion matrix of rows of which each is a group by itself."""
        n = float(counts.sum())
        wrong = n - float(np.trace(counts))
        return cls(np.array([n, n, wrong, n, wrong, wrong]))

    def metrics(self, n_samples: float) -> dict[str, Any]:
        """As JSON."""
        counted = _counted(int(self.sums[0]), self.of_equal_rows)
        return {**counted, "n_effective": self.effective(n_samples)}

    def effective(self, n_samples: float) -> float:
        """As many independent rows say as much about the share as these `n_samples`; 0 if almost
        all of them are in one group, or if squares of weights are no numbers above 0.

        The variance of a ratio of sums over groups gives the effective number of rows (Kish, Survey
        Sampling, 1965); Student's quantile then makes it smaller (Korn and Graubard, Survey
        Methodology 24, 1998). If few groups have wrong rows this variance is mostly too small, and
        0 if none has. So the number is a geometric mean with the count of groups, which is right
        if all rows of a group agree. Weights are the count of groups with wrong rows (with right
        ones, if these are fewer), and z², the weight of one half in Wilson's interval. Small groups
        say little of large ones: the count is multiplied by the cube of the size of a wrong row's
        group, on average, relative to that of any row's, if this is less than 1.
        """
        from scipy.special import stdtrit  # only where models are measured

        _, total, wrong, squares, products, wrong_squares = self.sums.tolist()
        count = total * total / squares if squares else 0.0
        if not 2.0 <= count < math.inf:
            return 0.0
        share = wrong / total
        variance = share * (1.0 - share) * total * total
        spread = wrong_squares - 2.0 * share * products + share * share * squares
        spread *= count / (count - 1.0)
        found = variance / spread if spread * n_samples > variance else n_samples
        few, few_products, few_squares = wrong, products, wrong_squares
        if share > 0.5:
            few, few_products = total - wrong, squares - products
            few_squares = squares - 2.0 * products + wrong_squares
        known = 0.0
        if few > 0.0:
            sizes = few_products / few / (squares / total)
            known = few * few / few_squares * min(sizes, 1.0) ** 3
        weight = known / (known + DEVIATIONS**2)
        shrunk = found**weight * min(count, found) ** (1.0 - weight)
        return float(shrunk * (DEVIATIONS / stdtrit(count - 1.0, LEVEL)) ** 2)


class Measures(Protocol):
    """Predictions of some rows, and what was true."""

    SCORES: ClassVar[tuple[str, ...]]
    """The metrics by which models are compared, the usual one first."""

    @property
    def n_samples(self) -> int: ...
    def metrics(self) -> dict[str, Any]:
        """As JSON, those with weights in `weighted` if the rows have weights."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """Rows by true (first axis) and predicted class: (n_classes, n_classes)."""

    SCORES: ClassVar[tuple[str, ...]] = ("accuracy", "balanced_accuracy", "macro_f1")

    counts: Array
    weighted: Vector | None
    """Sums of weights; None if the rows have none."""
    groups: GroupSums | None = None
    """None if the rows are independent."""

    @classmethod
    def of(
        cls,
        true: Array,
        predicted: Array,
        n_classes: int,
        weights: Vector | None = None,
        groups: Groups | None = None,
    ) -> Confusion:
        """From class numbers, (n,) each."""
        counts, weighted = confusion_matrix(true, predicted, n_classes), None
        if weights is not None:
            weighted = confusion_matrix(true, predicted, n_classes, weights)
        sums = None if groups is None else GroupSums.of(groups, true != predicted)
        return cls(counts, weighted, sums)

    @classmethod
    def of_metrics(cls, metrics: Mapping[str, Any]) -> Confusion:
        """Those of which `metrics` were these."""
        weighted, sums = metrics.get("weighted"), metrics.get("group_sums")
        return cls(
            np.asarray(metrics["confusion_matrix"]),
            None if weighted is None else np.asarray(weighted["confusion_matrix"]),
            None if sums is None else GroupSums(np.asarray(sums)),
        )

    @property
    def n_samples(self) -> int:
        return int(self.counts.sum())

    def metrics(self) -> dict[str, Any]:
        metrics = classification_metrics(self.counts)
        if self.groups is not None:
            metrics |= self.groups.metrics(self.n_samples)
            if not self.groups.of_equal_rows:
                metrics["group_sums"] = self.groups.sums.tolist()
        if self.weighted is None:
            return metrics
        return {**metrics, "weighted": weighted_metrics(self.weighted)}

    @classmethod
    def total(cls, parts: Sequence[Confusion]) -> Confusion:
        """Without groups if no part has any, or if they are equal rows, which may be in several."""
        weighted = [one.weighted for one in parts if one.weighted is not None]
        counts: Array = np.sum([one.counts for one in parts], axis=0)
        groups, given = None, [one.groups for one in parts if one.groups is not None]
        if given and not any(one.of_equal_rows for one in given):
            sums = [(one.groups or GroupSums.alone(one.counts)).sums for one in parts]
            groups = GroupSums(np.sum(sums, axis=0))
        return cls(counts, np.sum(weighted, axis=0) if weighted else None, groups)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a model without features always predicts: the training rows' median, which has the
    smallest absolute errors, or their mean, which has the smallest squares."""

    median: float
    mean: float

    @classmethod
    def of(cls, values: Vector) -> Baseline:
        return cls(float(np.median(values)), float(values.mean()))


@dataclass(frozen=True, slots=True)
class Errors:
    """True and predicted numbers, (n,) each, one or more."""

    SCORES: ClassVar[tuple[str, ...]] = ("mae", "rmse", "r2", "median_absolute_error")

    actual: Vector
    predicted: Vector
    target: Target
    """Of the model."""
    baseline: Baseline | None
    """None if the training rows are not known."""
    weights: Vector | None = None
    groups: Groups | None = None
    """None if the rows are independent."""

    @property
    def n_samples(self) -> int:
        return len(self.actual)

    @property
    def absolute(self) -> Vector:
        """(n,)"""
        errors: Vector = np.abs(self.actual - self.predicted)
        return errors

    def within(self, width: float) -> Mask:
        """(n,) which errors are at most this large; of a model of logarithms, those of these."""
        inside: Mask = self.target.errors(self.actual, self.predicted) <= width
        return inside

    def metrics(self) -> dict[str, Any]:
        """`mae`, `rmse`, `r2`, `median_absolute_error`, `share_inside_epsilon`, the `intervals` of
        these, and the values of the `baseline`: of its mean `rmse` and `r2`, of its median the
        others.

        `r2` is None if all numbers are equal; intervals are None if they need more than one row.
        """
        values = {
            "n_samples": self.n_samples,
            "epsilon": self.target.epsilon,
            **self._measured(None),
        }
        if self.groups is not None:
            values |= self.groups.counted()
        if self.baseline is not None:
            values["baseline"] = self._of_baseline(self.baseline)
        if self.weights is not None and self.weights.any():
            values["weighted"] = self._measured(self.weights)
        return values

    def _of_baseline(self, baseline: Baseline) -> dict[str, Any]:
        by_median = self.always(baseline.median)._measured(None)
        by_mean = self.always(baseline.mean)._measured(None)
        del by_median["intervals"]
        return {**asdict(baseline), **by_median, "rmse": by_mean["rmse"], "r2": by_mean["r2"]}

    def always(self, value: float) -> Errors:
        """The errors if this is predicted for every row."""
        return replace(self, predicted=np.full(self.n_samples, value))

    def _measured(self, weights: Vector | None) -> dict[str, Any]:
        rows, errors = _Rows(self.n_samples, weights, self.groups), self.absolute
        distances = np.abs(self.actual - rows.mean(self.actual))
        scale = float(max(errors.max(), distances.max())) or 1.0  # 1e100 has no fourth power
        squares, spread = np.square(errors / scale), np.square(distances / scale)
        mse, variance = rows.mean(squares), rows.mean(spread)
        mae, rmse = rows.mean(errors), scale * math.sqrt(mse)
        inside = self.within(self.target.epsilon)
        median, ends = rows.median(errors)
        r2, unexplained = None, None
        if variance > 0.0:
            r2 = 1.0 - mse / variance
            unexplained = rows.around(mse / variance, squares / (mse or 1.0) - spread / variance)
        return {
            "mae": mae,
            "rmse": rmse,
            "r2": r2,
            "median_absolute_error": median,
            "share_inside_epsilon": rows.mean(inside),
            "intervals": {
                "mae": rows.around(mae, errors / (mae or 1.0)),
                "rmse": rows.around(rmse, squares / (2.0 * (mse or 1.0))),
                "r2": unexplained and [1.0 - end for end in reversed(unexplained)],
                "median_absolute_error": ends,
                "share_inside_epsilon": list(interval(rows.mean(inside), rows.effective(inside))),
            },
        }


class _Rows:
    """Means over rows with weights, or without, and how sure they are."""

    def __init__(self, n: int, weights: Vector | None, groups: Groups | None = None) -> None:
        self._weights, self._groups = weights, groups
        self._each: Any = np.ones(n) if weights is None else weights
        self._total = float(self._each.sum())
        self.count = self._total**2 / float(np.square(self._each).sum())
        """The number of rows of equal weights that say as much."""

    def mean(self, values: Array) -> float:
        return float(np.average(values, weights=self._weights))

    def margin(self, values: Vector) -> float | None:
        """Between the mean and the ends of its interval; None if rows cannot be compared, or
        groups of them."""
        from scipy.special import stdtrit  # only where models are measured

        if self._groups is not None:
            sums, means = _by_group(values, self._each, self._groups.numbers)
            return _Rows(len(sums), sums).margin(means)
        if self.count < 2.0:
            return None
        squares = np.square(values - self.mean(values)) * self._each
        variance = self.mean(squares) / self._total * self.count / (self.count - 1.0)
        return float(stdtrit(self.count - 1.0, LEVEL)) * math.sqrt(variance)

    def effective(self, some: Array) -> float:
        """As many independent rows would say as much about the share of these ones, (n,) 0 or 1."""
        if self._groups is None:
            return self.count
        return GroupSums.of(self._groups, some, self._each).effective(self.count)

    def around(self, value: float, slopes: Vector) -> list[float] | None:
        """The interval of a positive value. Its logarithm has the standard error of the mean of
        `slopes`."""
        margin = self.margin(slopes)
        factor = 1.0 if margin is None else math.exp(margin)
        return None if margin is None else [value / factor, value * factor]

    def median(self, values: Vector) -> tuple[float, list[float] | None]:
        """Of two middle values the mean."""
        order = np.argsort(values, kind="stable")
        ascending, until = values[order], np.cumsum(self._each[order])
        last = len(values) - 1

        def at(share: float, side: Literal["left", "right"]) -> int:
            return int(np.searchsorted(until, share * until[-1], side))

        middle = [ascending[min(at(0.5, side), last)] for side in SIDES]
        count = self.effective(values <= middle[0])
        if count < 2.0:
            return float(np.mean(middle)), None
        low, high = interval(0.5, count)
        ends = max(at(low, "right") - 1, 0), min(at(high, "left") + 1, last)
        return float(np.mean(middle)), [float(ascending[end]) for end in ends]


def _by_group(values: Vector, each: Vector, groups: Array) -> tuple[Vector, Vector]:
    """The sums of weights of groups, and the means of their values."""
    sums = np.bincount(groups, each).astype(np.float64)
    kept = sums > 0.0
    return sums[kept], np.bincount(groups, each * values)[kept] / sums[kept]


def mean_difference(errors: Vector, others: Vector) -> tuple[float, list[float] | None]:
    """By how much the mean of the absolute errors of a model is larger than that of another one on
    the same rows, and the interval, from the differences of single rows."""
    rows, differences = _Rows(len(errors), None), errors - others
    mean, margin = rows.mean(differences), rows.margin(differences)
    return mean, None if margin is None else [mean - margin, mean + margin]


def share_difference(more: int, fewer: int, n: int) -> tuple[float, list[float]]:
    """By how much the share of wrong rows of a model is larger than that of another one on the same
    `n` rows, and the interval. `more` rows are wrong with this model alone, `fewer` with the other
    one alone.

    Each of the four counts has half a row added: Agresti and Min, Statistics in Medicine 24 (2005).
    """
    mean = (more - fewer) / (n + 2)
    margin = DEVIATIONS * math.sqrt(((more + fewer + 1) / (n + 2) - mean * mean) / (n + 2))
    return (more - fewer) / n, [mean - margin, mean + margin]


def difference_of_groups(
    differences: Vector, groups: Array, *, of_shares: bool
) -> tuple[float, list[float] | None]:
    """The mean of what a model does worse than another one on single rows, (n_samples,), and its
    interval if rows of the same group, (n_samples,) from 0, say the same: the sums of groups are
    compared. None below `FEWEST_GROUPS` groups, or if almost all rows are in one.

    `of_shares`: most differences may be 0. Two groups are added, with the largest sum for either
    model: if all groups with a difference agree, six of them are beyond chance, as by the exact
    test of signs.
    """
    sizes, means = _by_group(differences, np.ones(len(differences)), groups)
    mean = float(np.mean(differences))
    if len(sizes) < FEWEST_GROUPS:
        return mean, None
    if of_shares:
        more = np.abs(sizes * means).max() / sizes.mean()
        means, sizes = np.append(means, [more, -more]), np.append(sizes, [sizes.mean()] * 2)
    rows = _Rows(len(sizes), sizes)
    middle, margin = rows.mean(means), rows.margin(means)
    return mean, None if margin is None else [middle - margin, middle + margin]


def interval(share: float, n: float) -> tuple[float, float]:
    """The interval in which a share that was measured on `n` rows is, with 95 % confidence: all
    shares if `n` is 0.

    Wilson, Journal of the American Statistical Association 22 (1927).
    """
    if n == 0:
        return 0.0, 1.0
    z = DEVIATIONS
    middle = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * spread) / (1 + z * z / n) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)
