"""What metrics of a model say: its score, what that is worth, and where the model is wrong. Metrics
are mappings, as records have them, or objects, as replies have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.common.figures import counted, number, percent
from svm.model.measures import interval


def expected_beside(search: Any, measured: Mapping[str, Any]) -> float | None:
    """The score that a search expects on new rows, if these metrics are too good because all rows
    of their folds chose the setting; else None."""
    if not search or search["score"] is None or not measured.get("folds"):
        return None
    counts = map(sum, measured.get("confusion_matrix") or ())
    n = measured.get("n_samples") or sum(counts)
    score: float | None = search["score"] if search["n_samples"] >= n else None
    return score


def are_of_numbers(metrics: Any) -> bool:
    """Whether metrics, a mapping or an object, are those of numbers. Replies for both kinds have
    the members of the other one as null."""
    return _member(metrics, "mae") is not None


def measured_on(metrics: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], str] | None:
    """The metrics that say most, and the rows that they were measured on: `validation`, `training`
    or, of an evaluation, `evaluation`; None if nothing was measured."""
    subsets = {"validation": "validation", "train": "training"}
    each = [((metrics or {}).get(subset), rows) for subset, rows in subsets.items()]
    for some, rows in (*each, (metrics, "evaluation")):
        if some and ("accuracy" in some or are_of_numbers(some)):
            return some, rows
    return None


def effective(metrics: Any, n: int) -> float:
    """As many independent rows would say as much about the accuracy as these `n`. Old metrics do
    not have it."""
    known: float | None = _member(metrics, "n_effective")
    return n if known is None else known


def in_groups(metrics: Any) -> str:
    """Such as ` in 40 groups`, if rows belong together."""
    if (count := _member(metrics, "n_groups")) is not None:
        return f" in {counted(count, 'group')}"
    count = _member(metrics, "n_distinct")
    return "" if count is None else f" in {counted(count, 'group')} of equal rows"


def less_sure(metrics: Any) -> Iterator[str]:
    """What a card adds where it counts rows as independent ones."""
    if groups := in_groups(metrics):
        yield f"These rows are{groups}: the share of one model can be further off."


def between(share: float, n: float) -> str:
    """The interval of a share that was measured on `n` rows, in words."""
    return shares(interval(share, n))


def shares(ends: Sequence[float]) -> str:
    """An interval as `91.4 to 99.6 %`."""
    return "{:.1f} to {:.1f} %".format(*(100 * end for end in ends))


def hardest_class(confusion: Sequence[Sequence[int]], classes: Sequence[str]) -> str:
    """The class with the lowest recall, and what it is taken for; empty if all rows are right."""
    recalls = {i: row[i] / sum(row) for i, row in enumerate(confusion) if sum(row)}
    i = min(recalls, key=recalls.__getitem__)
    if recalls[i] == 1:
        return ""
    row = list(confusion[i])
    total, hits, row[i] = sum(row), row[i], -1
    often = "" if len(classes) == 2 else f", most often as {classes[row.index(max(row))]}"
    return f"{classes[i]} ({total - hits:,} of {counted(total, 'row')} predicted wrongly{often})"


def worst_confusions(
    confusion: Sequence[Sequence[int]], classes: Sequence[str], most: int = 8
) -> list[tuple[str, str, int, int]]:
    """The most frequent pairs of a true class and another one that was predicted, each with the
    count, and the rows of the true class."""
    pairs = [
        (classes[i], classes[j], count, sum(row))
        for i, row in enumerate(confusion)
        for j, count in enumerate(row)
        if i != j and count
    ]
    return sorted(pairs, key=lambda pair: -pair[2])[:most]


@dataclass(frozen=True, slots=True)
class WrongPair:
    """Rows of one class that are taken for another one."""

    id: str
    """The numbers of both classes."""
    rows: list[Any]
    """Some of them, as an evaluation has them."""
    count: int


def wrong_pairs(metrics: Any) -> list[WrongPair]:
    """The wrong rows of an evaluation by the true and the predicted class, the most frequent pair
    first; empty for other metrics."""
    by_pair: dict[tuple[int, int], list[Any]] = {}
    for one in getattr(metrics, "wrong_rows", None) or ():
        pair = metrics.classes.index(one.actual), metrics.classes.index(one.predicted)
        by_pair.setdefault(pair, []).append(one)
    pairs = [
        WrongPair(f"{i}-{j}", rows, metrics.confusion_matrix[i][j])
        for (i, j), rows in by_pair.items()
    ]
    return sorted(pairs, key=lambda pair: -pair.count)


def wrong_count(confusion: Sequence[Sequence[int]]) -> int:
    return sum(sum(row) - row[i] for i, row in enumerate(confusion))


def score_name(metrics: Any) -> str:
    """What `score` is."""
    return "Mean absolute error" if are_of_numbers(metrics) else "Accuracy"


def in_unit(value: float | None, metrics: Any) -> str:
    """A score or a difference of scores: a number, or a share of the rows."""
    return number(value) if are_of_numbers(metrics) else percent(value)


def score(metrics: Any) -> str:
    """The accuracy or the mean absolute error."""
    return in_unit(_member(metrics, "mae" if are_of_numbers(metrics) else "accuracy"), metrics)


@dataclass(frozen=True, slots=True)
class Headline:
    """A score, and what it is worth; that is empty if it is not known."""

    score: str
    worth: str


def headline(metrics: Any, where: str, search: Mapping[str, Any] | None = None) -> Headline:
    """`where`: the rows, such as "on the validation set". `search`: what chose the setting."""
    of_numbers, expected = are_of_numbers(metrics), expected_beside(search, metrics)
    counts = [sum(row) for row in _member(metrics, "confusion_matrix") or ()]
    n = _member(metrics, "n_samples") or 0 if of_numbers else sum(counts)
    seen = _member(metrics, "trained_rows") or 0
    learned = where == "on the training set"
    measured_rows = n
    if learned and search and search["score"] is not None:
        expected, measured_rows = search["score"], search["n_samples"] or n
    shown = score(metrics) if expected is None else in_unit(expected, metrics)
    if expected is not None:
        where = "expected on new rows"
    elif n and seen == n:
        where = "on rows that it was trained on"
    elif learned:
        where += ", not measured on new rows"
    title = f"{shown} {score_name(metrics).lower()} {where}"
    if not n:
        return Headline(title, "")
    parts, baseline = [], "the most frequent class"
    source = metrics if expected is None else search
    rows = f"{counted(measured_rows, 'row')}{in_groups(source)}"
    if of_numbers:
        baseline = "the median of the training rows"
        constant = _member(_member(metrics, "baseline"), "mae")
        if expected is None:
            ends = _member(_member(metrics, "intervals"), "mae")
            if ends:
                parts.append(_with_confidence(f"{number(ends[0])} to {number(ends[1])}", rows))
            median = number(_member(metrics, "median_absolute_error"))
            parts.append(f"half of the errors are below {median}")
    else:
        constant = max(counts) / n
        share = _member(metrics, "accuracy") if expected is None else expected
        parts.append(_with_confidence(between(share, effective(source, measured_rows)), rows))
    parts.append(f"always predicting {baseline}: {in_unit(constant, metrics)}")
    if learned and expected is not None:
        more = f". The rows that it has learned from: {score(metrics)}"
    elif expected is not None:
        more = (
            f". The setting that was kept has {score(metrics)} on these folds, but it was chosen "
            "by them"
        )
    elif learned or seen == n:
        what = "error" if of_numbers else "accuracy"
        more = (
            f". The model has learned from these rows, so that its {what} on new rows is not "
            "known: evaluate it on others"
        )
    else:
        equal = "is" if seen == 1 else "are"
        some = 0 < 2 * seen < n  # of more of them the audit says it
        more = f". {seen:,} of these rows {equal} equal to training rows" if some else ""
    return Headline(title, "; ".join(parts) + more)


def _with_confidence(interval: str, rows: str) -> str:
    return f"{interval} with 95 % confidence, from {rows}"


def _member(one: Any, name: str) -> Any:
    return one.get(name) if isinstance(one, Mapping) else getattr(one, name, None)
