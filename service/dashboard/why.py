"""The explanation of a predicted row as bars to both sides of one line, with the row's own values;
and in words what one column alone would change."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.common.figures import number
from service.dashboard.formatting import day
from service.dashboard.row_inputs import Input
from service.predictions.changes import Change, Move, Range, far_outside
from service.predictions.loaded_models import LoadedModel
from svm.data.matrices import Matrix

MAX_BARS = 10
"""The other columns are summed."""
MAX_AGAINST = 20
"""Classes that the predicted one is compared with."""
MAX_CHANGES = 6
MAX_LEVELS = 3
MAX_WORDS = 5
"""Of a text, that are listed as those that add or take most."""
WIDTH = 200
BASES = {
    "baseline": "baseline",
    "intercept": "intercept",
    "typical": "mean of each number and date, and intercept",
}
"""What does not depend on the row."""
Problem = Mapping[str, Any]
"""An `ExplanationRead`."""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    term: float
    x: float
    width: float
    """Of `WIDTH`."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Why the predicted class is ahead of another one; or what a number is the sum of."""

    against: Any
    """The other class; None for a number."""
    bars: list[Bar]
    score: float
    zero: float
    """Where the line is."""
    error: float
    """What the terms of a kernel model leave out of the score."""


def bars_of(
    answer: Mapping[str, Any], inputs: Sequence[Input], entries: Mapping[str, str]
) -> list[Bars]:
    """The first one is that of the runner-up."""
    problems = (answer.get("explanation") or [[]])[0]
    if not problems:
        return []
    values = {one.label: _with_value(one, entries.get(f"x{i}", "")) for i, one in enumerate(inputs)}
    if "label" not in answer:
        return [_bars(None, problems[0], values)]
    label, classes, decision = answer["label"][0], answer["classes"], answer["decision"][0]
    others = [one for one in classes if one != label]
    if len(classes) > 2:
        others.sort(key=lambda one: -decision[classes.index(one)])
    return [_bars(one, _against(problems, label, one), values) for one in others[:MAX_AGAINST]]


def _with_value(one: Input, value: str) -> str:
    if one.kind == "text":
        return one.label
    return f"{one.label} = {value.strip()}" if value.strip() else f"{one.label} is missing"


def _against(problems: Sequence[Problem], label: Any, other: Any) -> Problem:
    """The terms for the label against another class: of their own problem, or the difference of
    both classes against all others."""
    for one in problems:
        if {label, other} == set(one["classes"]) and len(one["classes"]) == 2:
            return _sum((1.0 if one["positive"] == label else -1.0, one))
    of = {one["positive"]: one for one in problems}
    return _sum((1.0, of[label]), (-1.0, of[other]))


def _sum(*parts: tuple[float, Problem]) -> Problem:
    sums: dict[str, float] = defaultdict(float)
    terms: dict[str, float] = defaultdict(float)
    for sign, problem in parts:
        for name in ("score", "intercept", "typical", "baseline", "error"):
            if name in problem:
                sums[name] += sign * problem[name]
        for name, term in problem["terms"].items():
            terms[name] += sign * term
    return {**sums, "terms": terms}


def _bars(against: Any, problem: Problem, values: Mapping[str, str]) -> Bars:
    terms = sorted(problem["terms"].items(), key=lambda one: -abs(one[1]))
    rows = [(values.get(name, name), term) for name, term in terms[:MAX_BARS]]
    if len(rest := terms[MAX_BARS:]) == 1:
        rows += [(values.get(name, name), term) for name, term in rest]
    elif rest:
        rows.append((f"{len(rest):,} other columns", sum(term for _, term in rest)))
    rows += [(BASES[name], problem[name]) for name in BASES if name in problem]
    low, high = min(0.0, *(term for _, term in rows)), max(0.0, *(term for _, term in rows))
    unit = WIDTH / ((high - low) or 1.0)
    bars = [Bar(name, term, unit * (min(term, 0.0) - low), unit * abs(term)) for name, term in rows]
    return Bars(against, bars, problem["score"], -unit * low, problem.get("error", 0.0))


@dataclass(frozen=True, slots=True)
class InWords:
    """What one column alone would change."""

    name: str
    after: str
    """Such as "at least 52.3", "= female"."""
    before: str
    result: str


def in_words(model: LoadedModel, found: Sequence[Change] | Sequence[Move]) -> Iterator[InWords]:
    """The smallest changes, or the farthest moves."""
    for one in found[:MAX_CHANGES]:
        column = model.features.table[one.column]
        if isinstance(one, Move):
            ends = [_shown(column, at) for at in (one.lowest_at, one.highest_at)]
            after, result = " or ".join(ends), f"{number(one.lowest)} or {number(one.highest)}"
        else:
            shown = [_shown(column, value) for value in one.after[:MAX_LEVELS]]
            more = len(one.after) - len(shown)
            sign = "="
            if one.kind in ("number", "date") and not math.isnan(one.before):
                down, up = ("until", "from") if one.kind == "date" else ("at most", "at least")
                sign = up if one.after[0] > one.before else down
            after = f"{sign} {', '.join(shown)}" + (f" or {more:,} more" if more else "")
            result = str(one.label)
        yield InWords(column.name, after, _shown(column, one.before), result)


def far_in_words(model: LoadedModel, X: Matrix, ranges: Sequence[Range]) -> Iterator[str]:
    """What the model has seen nothing like."""
    for column, *values in far_outside(model, X, ranges):
        value, low, high = (_shown(column, one) for one in values)
        yield f"{column.name} = {value} is far outside of the training rows ({low} to {high})."


def _shown(column: Any, value: float) -> str:
    """A raw value as people write it."""
    if math.isnan(value):
        return "missing"
    match column.kind:
        case "category":
            return column.levels[int(value)] if 0 <= value < len(column.levels) else "unknown"
        case "boolean":
            return "true" if value else "false"
        case "date":
            return day(value)
        case _:
            return f"{value:.12g}"


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text that was predicted, cut into its words and what is between them."""

    column: str
    pieces: list[tuple[str, float]]
    """Each with what it adds."""

    @property
    def largest(self) -> float:
        return max((abs(value) for _, value in self.pieces), default=0.0)

    def strongest(self, sign: int) -> list[tuple[str, float]]:
        """Words that add most, or of the sign -1 take most; each once, with all that it adds."""
        words: dict[str, float] = defaultdict(float)
        for word, value in self.pieces:
            words[word.lower()] += value
        ordered = sorted(words.items(), key=lambda one: -sign * one[1])[:MAX_WORDS]
        return [(word, value) for word, value in ordered if sign * value > 0.0]


def marked_texts(
    answer: Mapping[str, Any], inputs: Sequence[Input], entries: Mapping[str, str]
) -> list[MarkedText]:
    """The texts of the predicted row, with what their words add to the score of the predicted
    class, on average over its binary problems; or to the number."""
    label = (answer.get("label") or [None])[0]
    sums: dict[str, dict[tuple[int, int], float]] = defaultdict(lambda: defaultdict(float))
    problems = 0
    for problem in (answer.get("explanation") or [[]])[0]:
        classes = problem["classes"]
        if classes and label not in classes:
            continue
        problems += 1
        sign = 1.0 if not classes or classes[-1] == label else -1.0
        for text in problem.get("texts") or ():
            for start, end, value in text["marks"]:
                sums[text["column"]][start, end] += sign * value
    marked = []
    for i, one in enumerate(inputs):
        text, pieces, at = entries.get(f"x{i}", ""), [], 0
        for (start, end), value in sorted(sums.get(one.label, {}).items()):
            pieces += [(text[at:start], 0.0), (text[start:end], value / problems)]
            at = end
        if pieces:
            marked.append(MarkedText(one.label, [*pieces, (text[at:], 0.0)]))
    return marked
