"""What changed between two versions of a model, or of two models: in words, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.common.figures import NOTHING, at_most, counted, duration, number, size
from service.datasets.dataset import Dataset
from service.models.measured import (
    are_of_numbers,
    effective,
    in_unit,
    score,
    score_name,
    shares,
)
from service.models.paired import Paired, same_rows
from service.storage.database.tables import ModelVersion
from svm.model.measures import interval

MOST = 20
"""Columns that are named."""
CHARACTERS = 200
NOT_SET = "not set"
_ROWS = {"validation": "validation set", "train": "training set"}
_ELSEWHERE = {"dataset_id", "model_name", "set_alias", "tags", "priority"}
"""Of a spec, what has another place on the page, or is not about the model."""
_OF_CLASSES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "macro_f1": "Mean F1",
}
_OF_NUMBERS = {
    "mae": "Mean absolute error",
    "median_absolute_error": "Median absolute error",
    "rmse": "Root of the mean squared error",
    "r2": "R²",
}
"""Scores that are compared, the first one also on the training set."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing, as it is in each."""

    name: str
    one: str
    other: str

    @property
    def differs(self) -> bool:
        return self.one != self.other


@dataclass(frozen=True, slots=True)
class Part:
    """Lines about one subject; `note` is a sentence in place of lines, or before them."""

    title: str
    lines: list[Line]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """One of both, with its data and the time of its training, if they are still known."""

    version: ModelVersion
    dataset: Dataset | None
    elapsed_s: float | None

    @property
    def name(self) -> str:
        return f"{self.version.model_name} version {self.version.version}"

    @property
    def result(self) -> Mapping[str, Any]:
        return self.version.result

    def metrics(self, subset: str) -> Mapping[str, Any]:
        metrics = (self.result.get("metrics") or {}).get(subset) or {}
        return metrics if "accuracy" in metrics or are_of_numbers(metrics) else {}


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What evaluations of both measured on the same rows of a dataset."""

    name: str
    """Of the dataset."""
    metrics: tuple[Mapping[str, Any], Mapping[str, Any]]


def same_training(version: ModelVersion, digest: str, spec: Mapping[str, Any]) -> bool:
    """Whether a training with this request, on data with this digest, would give the version again:
    the name and the tags do not matter."""
    known, asked = (
        {name: value for name, value in each.items() if name not in _ELSEWHERE}
        for each in (version.spec, spec)
    )
    return version.dataset_digest == digest and known == asked


def parts_of(one: Side, other: Side, evaluated: Evaluated | None) -> list[Part]:
    """All that differs, and the scores."""
    scores = _scores(one, other)
    if evaluated:
        key = "mae" if are_of_numbers(evaluated.metrics[0]) else "accuracy"
        texts = (_score(metrics, key) for metrics in evaluated.metrics)
        title = f"{score_name(evaluated.metrics[0])} on {evaluated.name}"
        scores.lines.insert(0, Line(title, *texts))
    return [scores, _settings(one, other), _data(one, other), _training(one, other)]


def verdict(one: Side, other: Side, paired: Paired | None, evaluated: Evaluated | None) -> str:
    """Whether one of them is better, in sentences."""
    if evaluated is None:
        return _of_validation(one, other, paired)
    said = _of_evaluations(one, other, evaluated)
    return said if paired is None else f"{_of_validation(one, other, paired)} {said}"


def _of_validation(one: Side, other: Side, paired: Paired | None) -> str:
    if one.version.predicts != other.version.predicts:
        return "One predicts classes and the other numbers: their scores cannot be compared."
    metrics = [side.metrics("validation") for side in (one, other)]
    for side, each in zip((one, other), metrics, strict=True):
        if not each:
            what = "was not measured" if side.version.imported else "has no validation set"
            return f"{side.name} {what}: evaluate both on the same data to know which is better."
    if not same_rows(one.version, other.version):
        return (
            "They were measured on different rows, which alone makes scores differ: evaluate both "
            "on the same data to know which is better."
        )
    if paired is None:
        return (
            "They were measured on the same rows, but what was predicted for each is not known, as "
            "of folds: evaluate both on the same data to know which is better."
        )
    some = f"{paired.n_samples:,} validation rows"
    if paired.n_samples < paired.n_total:
        some = f"{paired.n_samples:,} of the {paired.n_total:,} validation rows"
    some += paired.groups
    if paired.difference == 0.0:
        return f"Both have the same score on the same {some}."
    better = one if paired.difference > 0.0 else other
    if paired.interval is None:
        return f"{better.name} has the better score on the same {some}, which are too few to know."
    ends = sorted(map(abs, paired.interval)) if paired.beyond_chance else paired.interval
    if not paired.beyond_chance and better is other:
        ends = [-end for end in reversed(ends)]
    by, low, high = (in_unit(x, metrics[0]) for x in (abs(paired.difference), *ends))
    said = f"{better.name} is right on {by} more of the rows ({low} to {high}"
    if are_of_numbers(metrics[0]):
        said = f"the mean absolute error of {better.name} is smaller by {by} ({low} to {high}"
    end = "this is beyond chance" if paired.beyond_chance else "this can be chance"
    return f"On the same {some}, {said} with 95 % confidence): {end}."


def _of_evaluations(one: Side, other: Side, evaluated: Evaluated) -> str:
    """What evaluations say: a difference is beyond chance only if the intervals do not overlap, and
    the training of neither had some of the rows."""
    metrics, sides = evaluated.metrics, (one, other)
    key = "mae" if are_of_numbers(metrics[0]) else "accuracy"
    scores, spans = [each[key] for each in metrics], [_span(each, key) for each in metrics]
    better, what = "higher" if key == "accuracy" else "smaller", score_name(metrics[0]).lower()
    best = int((scores[1] > scores[0]) == (key == "accuracy"))
    said = f"Evaluated on the same {counted(metrics[0]['n_samples'], 'row')} of {evaluated.name}, "
    if scores[0] == scores[1]:
        said += f"both have the same {what}, {score(metrics[0])}."
    else:
        said += f"{sides[best].name} has the {better} {what}, {score(metrics[best])}, and "
        said += f"{sides[1 - best].name} {score(metrics[1 - best])}"
        if spans[0] is None or spans[1] is None:
            said += ": the rows are too few to know whether this is chance."
        elif spans[0][0] <= spans[1][1] and spans[1][0] <= spans[0][1]:
            said += ": their intervals overlap, so this can be chance."
        elif any(each.get("trained_rows") != 0 for each in metrics):
            said += ", but not all rows are known to be new: this does not tell which is better."
        else:
            said += ": their intervals do not overlap, so this is beyond chance."
    for side, each in zip(sides, metrics, strict=True):
        seen = each.get("trained_rows")
        if seen is None:
            said += f" Whether {side.name} was trained on some of them is not known."
        elif seen:
            equal = "is" if seen == 1 else "are"
            said += f" {seen:,} of the rows {equal} equal to training rows of {side.name}."
    return said


def _span(metrics: Mapping[str, Any], key: str) -> Sequence[float] | None:
    """The interval of a score with 95 % confidence; None if it has none, or of too few rows."""
    counts = metrics.get("confusion_matrix")
    if key == "accuracy" and counts:
        return interval(metrics[key], effective(metrics, sum(map(sum, counts))))
    span: Sequence[float] | None = (metrics.get("intervals") or {}).get(key)
    return span


def _line(
    name: str, one: Side, other: Side, value: Callable[[Side], Any], show: Callable[[Any], str]
) -> Line:
    texts = (NOTHING if (v := value(side)) is None else show(v) for side in (one, other))
    return Line(name, *texts)


def _scores(one: Side, other: Side) -> Part:
    lines = []
    for subset, most in (("validation", None), ("train", 1)):
        for measures in (_OF_CLASSES, _OF_NUMBERS):
            for key, name in list(measures.items())[:most]:
                texts = (_score(side.metrics(subset), key) for side in (one, other))
                lines.append(Line(f"{name}, {_ROWS[subset]}", *texts))
    return Part("Scores", [line for line in lines if {line.one, line.other} != {NOTHING}])


def _score(metrics: Mapping[str, Any], key: str) -> str:
    value = metrics.get(key)
    return NOTHING if value is None else in_unit(value, metrics) + _interval(metrics, key)


def _interval(metrics: Mapping[str, Any], key: str) -> str:
    span = _span(metrics, key)
    if span is None:
        return ""
    of_share = key == "accuracy"
    return f" ({shares(span) if of_share else f'{number(span[0])} to {number(span[1])}'})"


def _settings(one: Side, other: Side) -> Part:
    imported = [side.name for side in (one, other) if side.version.imported]
    if imported:
        return Part("Settings", [], f"{' and '.join(imported)}: imported, with unknown settings.")
    flat = [dict(_flat(side.version.spec)) for side in (one, other)]
    lines = [
        Line(name, *(each.get(name, NOT_SET) for each in flat))
        for name in dict.fromkeys([*flat[0], *flat[1]])
    ]
    lines = [line for line in lines if line.differs]
    lines.sort(key=lambda line: (line.name == "seed", not line.name.startswith("solver")))
    return Part("Settings", lines, "" if lines else "All settings are the same.")


def _flat(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The settings by their place in words, such as `solver, max epochs`."""
    if isinstance(value, Mapping) and (value or not path):
        for key, each in value.items():
            if path or key not in _ELSEWHERE:
                yield from _flat(each, (*path, str(key).replace("_", " ")))
    elif value is not None:
        yield ", ".join(path), str(value) if path == ("seed",) else _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 1] + "…"


def _data(one: Side, other: Side) -> Part:
    versions = one.version, other.version
    digests = {version.dataset_digest for version in versions}
    if len(digests) == 1 and None not in digests:
        kept = one.dataset or other.dataset
        what = f"{kept.name or 'unnamed'}, {kept.n_samples:,} rows" if kept else "deleted by now"
        return Part("Data", _encodings(one, other), f"Trained on the same data: {what}.")

    def name(side: Side) -> str:
        if side.dataset is None:
            return "unknown" if side.version.imported else "deleted"
        return side.dataset.name or "unnamed"

    kinds = [_kinds(version) for version in versions]
    lines = [
        Line("Data", *(name(side) for side in (one, other))),
        _line("Rows", one, other, lambda side: side.dataset and side.dataset.n_samples, number),
        _line("Columns", one, other, lambda side: side.version.n_features, number),
        _line("Classes", one, other, lambda side: side.version.classes or None, _names),
        Line(
            "Only in this one",
            *(_names([n for n in kinds[k] if n not in kinds[1 - k]]) for k in (0, 1)),
        ),
    ]
    changed = [n for n in kinds[0] if kinds[1].get(n, kinds[0][n]) != kinds[0][n]]
    lines += [Line(f"Kind of {n}", kinds[0][n], kinds[1][n]) for n in changed[:MOST]]
    note = "" if len(changed) <= MOST else f"{len(changed):,} columns have another kind."
    return Part("Data", [line for line in lines if line.differs] + _encodings(one, other), note)


def _kinds(version: ModelVersion) -> dict[str, str]:
    table = version.result.get("table")
    if table:
        return {column["name"]: column["kind"] for column in table["columns"]}
    return dict.fromkeys(version.columns or (), "number")


def _names(names: Sequence[Any]) -> str:
    shown = ", ".join(map(str, names[:MOST]))
    return f"{shown} and {len(names) - MOST:,} more" if len(names) > MOST else shown or NOTHING


def _encodings(one: Side, other: Side) -> list[Line]:
    """Columns that are encoded in another way."""
    said = [
        dict(
            text.partition(": ")[::2]
            for text in side.result.get("metrics", {}).get("encoding") or ()
        )
        for side in (one, other)
    ]
    lines = [
        Line(f"Encoding of {n}", *(each.get(n, NOTHING) for each in said))
        for n in dict.fromkeys([*said[0], *said[1]])
    ]
    return [line for line in lines if line.differs][:MOST]


def _training(one: Side, other: Side) -> Part:
    def of(key: str) -> Callable[[Side], Any]:
        return lambda side: side.result.get(key)

    def proven(side: Side) -> Any:
        return (side.result.get("certificate") or {}).get("status")

    def excess(side: Side) -> Any:
        return (side.result.get("certificate") or {}).get("excess")

    lines = [
        _line("Certificate", one, other, proven, lambda s: "not converged" if s == "open" else s),
        _line("Cost above the lowest, at most", one, other, excess, at_most),
        _line("Epochs", one, other, of("epochs"), number),
        _line("Support vectors", one, other, lambda s: s.version.n_support_vectors, number),
        _line("Training time", one, other, lambda s: s.elapsed_s, duration),
        _line("File", one, other, lambda s: s.version.size_bytes, size),
    ]
    same = one.version.digest == other.version.digest
    return Part(
        "Training", lines, "Both are the same model: their digests are equal." if same else ""
    )
