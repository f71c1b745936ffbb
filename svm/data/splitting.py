"""Training and validation rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from svm.data.matrices import Array, Indices, Vector
from svm.data.randomness import generator
from svm.errors import InvalidData

Pair = tuple[Indices, Indices]
"""(training rows, validation rows), both ascending."""


@dataclass(frozen=True, slots=True)
class Apart:
    """What keeps rows apart: a group is on one side of a split only, and training rows are of the
    past of all validation rows."""

    groups: Indices | None = None
    """(n,) the number of each row's group."""
    times: Vector | None = None
    """(n,)"""
    gap: float = 0.0
    """Between the last training row and the first validation row there is at least this time."""
    weights: Vector | None = None
    """(n,) A training does not see rows of weight 0: they are dealt like those of other classes."""

    def of(self, rows: Indices) -> Apart:
        """That of some rows."""
        groups = None if self.groups is None else self.groups[rows]
        times = None if self.times is None else self.times[rows]
        weights = None if self.weights is None else self.weights[rows]
        return Apart(groups, times, self.gap, weights)

    @property
    def is_trivial(self) -> bool:
        """Whether nothing keeps rows apart."""
        return self.groups is None and self.times is None


def split(
    codes: Array, fraction: float, *, stratify: bool, seed: int, apart: Apart | None = None
) -> Pair:
    """A function of the arguments alone.

    `codes` are class numbers, (n,). `fraction` in (0, 1) of the rows are held out, the same
    share of every class if `stratify`: of a small class that may be none. With groups it is about
    these shares, with times the last rows. Raises InvalidData (`class-too-small`) if a class would
    have no row for training, or no row is held out; `not-separable` if `apart` does not allow it.
    """
    codes = _dealt_as(codes, apart)
    if apart is not None and not apart.is_trivial:
        shares = np.array([fraction, 1.0 - fraction])
        known = codes if stratify else np.zeros(len(codes), np.int64)
        return _separated(codes, known, apart, shares, held_out=1, seed=seed)[0]
    random = generator("split", seed)
    held_out = np.zeros(len(codes), dtype=bool)
    if stratify:
        for code in np.unique(codes):
            members = np.flatnonzero(codes == code)
            count = held_out_rows(len(members), fraction)
            held_out[random.permutation(members)[:count]] = True
        if not held_out.any():
            message = f"every class has too few rows to hold out {fraction:g} of them"
            raise InvalidData("class-too-small", message)
    else:
        count = min(max(1, round(fraction * len(codes))), len(codes) - 1)
        held_out[random.permutation(len(codes))[:count]] = True
        if len(np.unique(codes[~held_out])) < len(np.unique(codes)):
            raise InvalidData(
                "class-too-small", "a class has no row left to train on; stratify the split"
            )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def folds(codes: Array, n_folds: int, *, seed: int, apart: Apart | None = None) -> list[Pair]:
    """The rows of each fold's training, and those that it measures: a function of the arguments
    alone.

    Folds have the same size, and the same number of rows of every class, up to one row; of groups
    up to the largest one. With times each fold is of later rows than the one before, and the first
    rows are in none. There can be fewer than `n_folds` where groups or times are few. Raises
    InvalidData as `fold_numbers`, and `not-separable`.
    """
    codes = _dealt_as(codes, apart)
    if apart is not None and not apart.is_trivial:
        shares = np.full(n_folds, 1.0 / n_folds)
        return _separated(codes, codes, apart, shares, held_out=n_folds, seed=seed)
    numbers = fold_numbers(codes, n_folds, seed=seed)
    return [(np.flatnonzero(numbers != k), np.flatnonzero(numbers == k)) for k in range(n_folds)]


def _dealt_as(codes: Array, apart: Apart | None) -> Array:
    """The classes (n,), apart for rows of weight 0. Without classes all rows are alike."""
    if apart is None or apart.weights is None or (codes == codes[0]).all():
        return codes
    return np.where(apart.weights > 0.0, codes, codes + codes.max() + 1)


def fold_numbers(codes: Array, n_folds: int, *, seed: int) -> Indices:
    """The fold of every row, 0 … n_folds - 1, (n,): a function of the arguments alone.

    Folds have the same size, and the same number of rows of every class, up to one row. The only
    row of a class is in no fold, -1: it is always trained on. Raises InvalidData
    (`class-too-small`) if a fold would be empty.
    """
    random = generator("split", seed)
    numbers = np.full(len(codes), -1)
    dealt = 0
    for code in np.unique(codes):
        members = np.flatnonzero(codes == code)
        if len(members) == 1:
            continue
        numbers[random.permutation(members)] = np.arange(dealt, dealt + len(members)) % n_folds
        dealt += len(members)
    if dealt < n_folds:
        raise InvalidData("class-too-small", f"the classes have too few rows for {n_folds} folds")
    return numbers


def _separated(
    codes: Array, balanced: Array, apart: Apart, shares: Vector, *, held_out: int, seed: int
) -> list[Pair]:
    """Pairs of rows that `apart` keeps apart, one for each of the first `held_out` shares where
    that is possible. `balanced`: classes (n,) whose shares are kept.

    Raises InvalidData (`not-separable`) if no pair has a training row of every class, and a
    validation row.
    """
    of_groups = None
    if apart.groups is not None:
        groups = np.unique(apart.groups, return_inverse=True)[1]
        of_groups = _dealt(balanced, groups, shares, held_out, seed)[groups]
    pairs: list[Pair] = []
    if apart.times is None:
        assert of_groups is not None
        for k in range(held_out):
            pairs.append((np.flatnonzero(of_groups != k), np.flatnonzero(of_groups == k)))
    else:
        edges = _edges(codes, apart, shares, held_out)
        for k, (start, end) in enumerate(zip(edges, [*edges[1:], np.inf], strict=False)):
            past = (apart.times < start) & (apart.times <= start - apart.gap)
            later = (apart.times >= start) & (apart.times < end)
            if of_groups is not None:
                both = np.intersect1d(groups[past], groups[later])
                is_both, is_held = np.isin(groups, both), of_groups == k
                past &= ~(is_both & is_held)
                later &= ~is_both | is_held
            pairs.append((np.flatnonzero(past), np.flatnonzero(later)))
    n_classes = len(np.unique(codes))
    usable = [
        (training, validation)
        for training, validation in pairs
        if len(validation) and len(np.unique(codes[training])) == n_classes
    ]
    if not usable:
        raise InvalidData("not-separable", _reason(codes, apart))
    return usable


def _reason(codes: Array, apart: Apart) -> str:
    """Why no split keeps rows apart."""
    what = "of every class" if len(np.unique(codes)) > 1 else "at all"
    if apart.groups is not None and len(np.unique(apart.groups)) == 1:
        return "all rows are of one group, so that none can be held out"
    if apart.times is None:
        return f"no group can be held out so that there are training rows {what}"
    if len(np.unique(apart.times)) == 1:
        return "all rows are of one time, so that none is in the past of another"
    group = " in other groups" if apart.groups is not None else ""
    gap = ""
    if apart.gap:
        span = apart.times.max() - apart.times.min()
        gap = f"; the gap is {apart.gap:g}, and from the first time to the last it is {span:g}"
    return f"no cut by time has rows {what}{group} to train on before it, and rows after it{gap}"


def _edges(codes: Array, apart: Apart, shares: Vector, n: int) -> list[float]:
    """The times at which blocks of validation rows begin, ascending, at most `n`: the last of them
    has its share of the rows, or as near as rows of equal time allow. Before the first one there
    are training rows of every class."""
    assert apart.times is not None
    times = np.unique(apart.times)
    before = np.searchsorted(np.sort(apart.times), times)
    first = max(apart.times[codes == code].min() for code in np.unique(codes))
    possible = (times > first) & (times - apart.gap >= first)
    times, before, total = times[possible], before[possible], len(codes)
    if not len(times):
        return []
    wanted = total * (1.0 - shares[0]) if n == 1 else total / (n + 1)
    start = max(float(before[0]), wanted)
    targets = start + (total - start) * np.arange(n) / n
    later = np.searchsorted(before, targets).clip(1, max(1, len(before) - 1))
    is_later = before[later] - targets < targets - before[later - 1] if len(before) > 1 else 0
    return [float(time) for time in np.unique(times[later - 1 + is_later])]


def _dealt(codes: Array, groups: Indices, shares: Vector, held_out: int, seed: int) -> Indices:
    """The part of every group, (n_groups,): 0 … held_out - 1 are held out.

    Groups with equal counts of all classes are dealt by the shares; the rest, the largest first,
    each to the part that lacks most of its classes. -1: always trained on, as a class would have no
    training row otherwise.
    """
    classes, codes = np.unique(codes, return_inverse=True)
    random = generator("split", seed)
    cells, counts = np.unique(groups * len(classes) + codes, return_counts=True)
    owner, code = np.divmod(cells, len(classes))
    starts = np.searchsorted(owner, np.arange(groups.max() + 2))
    sizes = np.add.reduceat(counts, starts[:-1])
    totals = np.bincount(codes)
    # A random number for each group, equal for equal counts.
    cell = np.unique(code * (len(codes) + 1) + counts, return_inverse=True)[1]
    numbers = random.integers(1 << 62, size=len(cells), dtype=np.int64)[cell]
    alike = np.add.reduceat(numbers, starts[:-1])
    order = random.permutation(len(sizes))
    order = order[np.argsort(alike[order], kind="stable")]
    parts, rest = np.full(len(sizes), -1), []
    for some in np.split(order, np.flatnonzero(np.diff(alike[order])) + 1):
        each = np.floor(len(some) * shares + 1e-9).astype(np.int64)
        parts[some[: each.sum()]] = np.repeat(np.arange(len(shares)), each)
        rest.append(some[each.sum() :])
    have = np.zeros((len(shares), len(classes)))
    given = parts[owner] >= 0
    np.add.at(have, (parts[owner[given]], code[given]), counts[given])
    wanted, left = np.outer(shares, totals), np.concatenate(rest)
    for group in left[np.argsort(-sizes[left], kind="stable")].tolist():
        own = slice(starts[group], starts[group + 1])
        some, added = code[own], counts[own]
        over = have[:, some] - wanted[:, some]
        costs = ((2.0 * over + added) * (added / totals[some])).sum(axis=1)
        parts[group] = np.argmin(costs)
        have[parts[group], some] += added
    for k, one in np.argwhere(have[:held_out] == totals):
        of_class = owner[code == one]
        if (parts[of_class] == k).all():
            parts[of_class[np.argmin(sizes[of_class])]] = -1
    return parts


def class_groups(n_classes: int, n_groups: int, *, seed: int) -> Indices:
    """The group of every class, 0 … n_groups - 1, (n_classes,): a function of the arguments alone.
    Groups have the same number of classes, up to one."""
    groups = np.empty(n_classes, np.int64)
    groups[generator("classes", seed).permutation(n_classes)] = np.arange(n_classes) % n_groups
    return groups


def held_out_rows(count: int, fraction: float) -> int:
    """How many rows of a class with `count` rows a stratified split holds out; one is left."""
    return min(round(fraction * count), count - 1)
