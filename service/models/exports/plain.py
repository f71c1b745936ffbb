"""Predicts with NumPy alone from a model that svm-service exported as NPZ or JSON.

    model = load("iris-1.npz")
    predict(model, X)                         # labels of the rows of X, (n_samples, n_features)
    decision(model, scores(model, X))         # decision values
    probabilities(model, scores(model, X))    # of a calibrated model
    labels_or_none(model, scores(model, X), 0.05)   # None for rows of no known class
    intervals(model, scores(model, X), 0.9)   # of a model of numbers, which predict gives

Rows of a table with categories, texts, dates or gaps are lists in the order of `model["columns"]`,
or dictionaries with their names: numbers, texts, booleans, dates such as "2024-05-01", and None for
a missing cell. An array of floats has their raw values, as `raw_values` gives them.

This file needs only NumPy: copy it. An NPZ export contains it as its member `readme`.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import combinations, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

BLOCK_ROWS = 512
BLOCK_VALUES = 8_000_000
BOOLEANS = {"false": 0.0, "true": 1.0}
MISSING = {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "\\N", "?", "."}


def load(path: str | Path) -> dict[str, Any]:
    """The parts of a model by name: arrays, numbers, texts."""
    with Path(path).open("rb") as start:
        is_json = start.read(1) == b"{"  # else an archive
    if is_json:
        model = dict(json.loads(Path(path).read_text(encoding="utf-8"))["model"])
        for name, part in model.items():
            if isinstance(part, dict) and "dtype" in part:
                model[name] = np.array(part["values"], part["dtype"]).reshape(part["shape"])
        if "conformal_residuals" in model:
            errors = model["conformal_residuals"]
            errors[np.isnan(errors)] = math.inf  # null in JSON
    else:
        with np.load(path, allow_pickle=False) as archive:
            parts = {name: archive[name] for name in archive.files}
        model = {name: part if part.ndim else part.item() for name, part in parts.items()}
        for name in {"features", "kernel", "encoding", "columns", "target", "texts"} & set(model):
            model[name] = json.loads(model[name])
    if "texts" in model:
        _number_tokens(model)
    return model


def predict(model: dict[str, Any], X: Any, texts: Any = ()) -> Any:
    """(n_samples,) labels, or numbers in the unit of the target."""
    if "target" in model:
        return _of_target(model, scores(model, X, texts)[:, 0])
    values = decision(model, scores(model, X, texts))
    codes = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    return model["classes"][codes]


def labels_or_none(model: dict[str, Any], scores: Any, withheld: float) -> list[Any]:
    """The label of each row, or None where it is less certain than a share of those of known
    classes. Raises ValueError for a share that needs more rows than the model was measured on."""
    n, known = len(model["classes"]), model["rejection_decisions"]
    k = math.floor(Fraction(repr(float(withheld))) * (len(known) + 1))
    if k == 0:
        raise ValueError(f"to withhold a share of {withheld} needs more rows")
    values = decision(model, scores)
    codes = (values > 0).astype(int) if n == 2 else values.argmax(axis=1)
    certain = np.abs(values) if n == 2 else values.max(axis=1)
    if n > 2 and model["multiclass"] == "one-vs-one":  # the smallest of the scores that won
        certain = np.full(len(scores), np.inf)
        for p, (i, j) in enumerate(combinations(range(n), 2)):
            won = np.where(codes == j, scores[:, p], np.where(codes == i, -scores[:, p], np.inf))
            certain = np.minimum(certain, won)
    labels = model["classes"][codes].tolist()
    answered = (certain >= known[k - 1]).tolist()
    return [label if yes else None for label, yes in zip(labels, answered, strict=True)]


def intervals(model: dict[str, Any], scores: Any, coverage: float) -> Any:
    """(n_samples, 2) the ends of prediction intervals. Raises ValueError for a coverage that needs
    more rows than the model was calibrated on."""
    errors = model["conformal_residuals"]
    k = math.ceil(Fraction(repr(float(coverage))) * (len(errors) + 1))
    if k > np.isfinite(errors).sum():
        raise ValueError(f"a coverage of {coverage} needs the errors of more rows")
    half = np.nextafter(errors[k - 1], math.inf)
    return _of_target(model, scores + np.array([-half, half]))


def _of_target(model: dict[str, Any], scores: Any) -> Any:
    return np.exp(np.clip(scores, -700.0, 700.0)) if model["target"]["logarithm"] else scores


def decision(model: dict[str, Any], scores: Any) -> Any:
    """Two classes: (n_samples,), positive for the second. More: (n_samples, n_classes)."""
    n_classes = len(model["classes"])
    if n_classes == 2:
        return scores[:, 0]
    if model["multiclass"] == "one-vs-rest":
        return scores
    votes, sums = np.zeros((2, len(scores), n_classes))
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        positive = scores[:, k] > 0
        votes[:, j] += positive
        votes[:, i] += ~positive
        sums[:, j] += scores[:, k]
        sums[:, i] -= scores[:, k]
    # Equal votes are decided by the summed scores, which never beat a vote.
    return votes + sums / np.maximum(np.abs(sums).max(axis=1, keepdims=True), 1.0) / 3.0


def scores(model: dict[str, Any], X: Any, texts: Any = ()) -> Any:
    """(n_samples, n_problems) of the binary classifiers: of pairs i < j, or one a class. `texts`:
    what the raw values of texts are the positions of."""
    if "columns" in model and not (isinstance(X, np.ndarray) and X.dtype.kind == "f"):
        X = raw_values(model, X, texts := [])
    X = np.asarray(X, dtype=np.float64)
    step = max(1, min(BLOCK_ROWS, BLOCK_VALUES // model["n_features"]))
    parts = [_scores(model, X[k : k + step], texts) for k in range(0, len(X), step)]
    return np.concatenate([np.empty((0, len(model["intercepts"]))), *parts])


def probabilities(model: dict[str, Any], scores: Any) -> Any:
    """(n_samples, n_classes), each row summing to 1."""
    knots, n_classes = model["calibration_knots"], len(model["classes"])
    if model["calibration"] == "sigmoid":
        with np.errstate(over="ignore"):
            positive = 1.0 / (1.0 + np.exp(scores * knots[:, 0] + knots[:, 1]))
    else:
        values, starts = model["calibration_values"], model["calibration_starts"]
        positive = np.empty_like(scores)
        for k in range(scores.shape[1]):
            part = slice(starts[k], starts[k + 1])
            positive[:, k] = np.interp(scores[:, k], knots[part], values[part])
    if n_classes == 2:
        return np.concatenate([1.0 - positive, positive], axis=1)
    if model["multiclass"] == "one-vs-one":
        positive = _coupled(positive, n_classes)
    positive = np.maximum(positive, 0.0)
    sums = positive.sum(axis=1, keepdims=True)
    return np.where(sums > 0, positive / np.where(sums > 0, sums, 1.0), 1.0 / n_classes)


def raw_values(model: dict[str, Any], rows: Any, texts: list[str] | None = None) -> Any:
    """(n_samples, n_columns) of a table: numbers, booleans as 1 and 0, dates as days since
    1970-01-01, categories as the position of their level, -1 for an unknown one, texts as their
    position in the list `texts`, to which they are added; NaN is missing."""
    columns = model["columns"]
    names = [column["name"] for column in columns]
    readers = [_reader(column, [] if texts is None else texts) for column in columns]
    table = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        cells = [row[name] for name in names] if isinstance(row, dict) else row
        table[i] = [read(cell) for read, cell in zip(readers, cells, strict=True)]
    return table


def _reader(column: dict[str, Any], texts: list[str]) -> Any:
    levels = {level: code for code, level in enumerate(column["levels"])}
    try:
        values = [float(level) for level in levels]
    except ValueError:
        values = []
    counts = Counter(values)
    numbers = {value: i for i, value in enumerate(values) if counts[value] == 1}

    def code(cell: Any) -> float:
        if isinstance(cell, bool):
            cell = "true" if cell else "false"
        text = str(cell).strip()
        if text in levels:
            return levels[text]
        if cell is None or text in MISSING:
            return math.nan
        try:
            return numbers.get(float(text), -1)
        except ValueError:
            return -1

    def days(cell: Any) -> float:
        if cell is None or (text := cell.strip()) in MISSING:
            return math.nan
        time = datetime.fromisoformat(text)
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        return (time - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)

    def number(cell: Any) -> float:
        if isinstance(cell, str):
            text = cell.strip()
            cell = None if text in MISSING else BOOLEANS.get(text.lower(), text)
        return math.nan if cell is None else float(cell)

    def place(cell: Any) -> float:
        text = str(cell).lower() if isinstance(cell, bool) else str(cell)
        if cell is None or not text.strip():
            return math.nan
        texts.append(text)
        return len(texts) - 1

    return {"category": code, "date": days, "text": place}.get(column["kind"], number)


def _encoded(model: dict[str, Any], X: Any) -> Any:
    """Raw values to numbers, parts of dates, indicators of gaps, and one output for each level."""
    columns, missing = model["columns"], model["encoder_missing"]
    numbers, levels = [], []
    start = 0
    for j, column in enumerate(columns):
        cells = X[:, j]
        if column["kind"] == "category":
            counts = model["encoder_counts"][start : start + len(column["levels"])]
            start += len(counts)
            levels += _levels(cells, counts, model["encoding"]["min_count"], missing[j] > 0)
        elif column["kind"] == "date":
            numbers += _date_parts(cells)
        elif column["kind"] != "text":
            numbers.append(cells)
    fills = model["encoder_fills"]
    numbers = [np.where(np.isnan(v), fill, v) for v, fill in zip(numbers, fills, strict=True)]
    gaps = [
        np.isnan(X[:, j])
        for j, column in enumerate(columns)
        if column["kind"] != "category" and missing[j] > 0
    ]
    outputs = [np.empty((0, len(X))), *numbers, *gaps, *levels]
    return np.vstack(outputs).T.astype(np.float64)


def _levels(cells: Any, counts: Any, min_count: int, has_gaps: bool) -> list[Any]:
    own = [code for code, count in enumerate(counts) if count >= min_count]
    outputs = [cells == code for code in own]
    if ((counts > 0) & (counts < min_count)).any():
        outputs.append(~np.isnan(cells) & ~np.isin(cells, own))
    return [*outputs, np.isnan(cells)] if has_gaps else outputs


def _date_parts(days: Any) -> list[Any]:
    """Year, month, weekday (Monday is 1) and days; NaN stays NaN."""
    gaps = np.isnan(days)
    whole = np.floor(np.where(gaps, 0.0, days)).astype(np.int64)
    dates = whole.astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64)
    years = months // 12 + 1970
    return [np.where(gaps, np.nan, v) for v in (years, months % 12 + 1, (whole + 3) % 7 + 1, days)]


def _number_tokens(model: dict[str, Any]) -> None:
    """Make the parts of texts dictionaries: a token's number among the outputs of all texts, and
    the factor of its count."""
    tokens = iter(bytes(model["texts_tokens"]).decode("utf-8", "surrogatepass").split("\n"))
    numbered = enumerate(model["texts_counts"].tolist())
    for column in model["texts"]:
        n = column["n_texts"]
        column["parts"] = {
            name: {
                token: (k, math.log((1 + n) / (1 + count)) + 1)
                for token, (k, count) in zip(islice(tokens, size), numbered, strict=False)
            }
            for name, size in column["parts"]
        }


def _tokens(part: str, text: str) -> Counter[str]:
    """Words and pairs of words, or runs of 2 to 4 characters inside words."""
    text = " ".join(unicodedata.normalize("NFKC", text).lower().split())
    if part == "words":
        words = [word for word in re.findall(r"\w+", text) if len(word) > 1]
        return Counter([*words, *map(" ".join, pairwise(words))])
    words = [f" {word} " for word in text.split()]
    return Counter(w[i : i + n] for w in words for n in (2, 3, 4) for i in range(len(w) - n + 1))


def _texts(model: dict[str, Any], X: Any, texts: Any) -> Iterator[tuple[int, Any, Any]]:
    """For each part of each text of raw rows the number of its row, the outputs and their values,
    which have the weight of the column as their norm."""
    encoding = model["encoding"]
    places = [j for j, column in enumerate(model["columns"]) if column["kind"] == "text"]
    for j, column in zip(places, model["texts"], strict=True):
        weight = encoding["text_weights"].get(model["columns"][j]["name"], 1.0)
        for i in np.flatnonzero(~np.isnan(X[:, j])).tolist():
            for part, known in column["parts"].items():
                counts = _tokens(part, texts[int(X[i, j])])
                found = [
                    (*known[token], count) for token, count in counts.items() if token in known
                ]
                if found:
                    outputs, factors, counted = np.array(found).T
                    values = factors * (1 + np.log(counted) if encoding["sublinear"] else counted)
                    values *= weight / math.sqrt(values @ values)
                    yield i, outputs.astype(np.int64), values


def _scores(model: dict[str, Any], X: Any, texts: Any) -> Any:
    found = list(_texts(model, X, texts)) if "texts" in model else []
    if "columns" in model:
        X = _encoded(model, X)
    n, first = X.shape  # outputs of texts come last, and are not scaled
    X = X - model.get("scaling_offset", np.zeros(first))[:first]
    X = X / model.get("scaling_scale", np.ones(first))[:first]
    W, b = model["coefficients"], model["intercepts"]
    if "kernel" not in model and "texts" in model:
        scores = X @ W[:, :first].T + b
        for i, outputs, values in found:
            scores[i] += W[:, first + outputs] @ values
        return scores
    if "texts" in model:
        X = np.concatenate([X, np.zeros((n, model["n_features"] - first))], axis=1)
        for i, outputs, values in found:
            X[i, first + outputs] = values
    X = _features(model, X)
    if "kernel" in model:
        X = _kernel(model["kernel"], X, *_products(model, X))
    return X @ W.T + b


def _features(model: dict[str, Any], X: Any) -> Any:
    features, d = model["features"], X.shape[1]
    W: Any = model.get("features_directions")
    b: Any = model.get("features_weights")
    if features["name"] == "square":
        return X * X
    if features["name"] == "terms":
        terms = [math.prod(X[:, int(j)] for j in row if j >= 0) for row in b]
        return np.stack(terms, axis=1)
    if features["name"] == "splines":
        return np.concatenate([_curves(X[:, j], np.unique(t)) for j, t in enumerate(b)], axis=1)
    if features["name"] == "random-fourier":
        return np.cos(X @ W.T + b) * math.sqrt(2.0 / len(b))
    if features["name"] == "nystroem":
        return _kernel(features["kernel"], X, X @ W.T, (W * W).sum(axis=1)) @ b.T
    if features["name"] in ("polynomial", "interactions"):
        step = 1 if features["name"] == "interactions" else 0
        columns = [X[:, j] for j in range(d)]
        last = list(enumerate(columns))
        for _ in range(features.get("degree", 2) - 1):
            last = [(j, made * X[:, j]) for i, made in last for j in range(i + step, d)]
            columns += [made for _, made in last]
        return np.stack(columns, axis=1)
    return X


def _curves(x: Any, t: Any) -> Any:
    """Quadratic B-splines of one feature with these knots; with less than three the feature."""
    if len(t) < 3:
        return x[:, None]
    x, clamped = np.clip(x, t[0], t[-1]), np.concatenate([t[:1], t, t[-1:]])
    i = np.searchsorted(t[1:-1], x)
    low, high = t[i], t[i + 1]
    first = (high - x) ** 2 / ((high - clamped[i]) * (high - low))
    third = (x - low) ** 2 / ((clamped[i + 3] - low) * (high - low))
    out, rows = np.zeros((len(x), len(t) + 1)), np.arange(len(x))
    out[rows, i], out[rows, i + 1], out[rows, i + 2] = first, 1.0 - first - third, third
    return out


def _kernel(kernel: dict[str, Any], X: Any, products: Any, norms: Any) -> Any:
    if kernel["name"] == "gaussian":
        distances = (X * X).sum(axis=1)[:, None] - 2.0 * products + norms
        with np.errstate(under="ignore"):
            return np.exp(-kernel["gamma"] * np.maximum(distances, 0.0))
    if kernel["name"] == "polynomial":
        return (kernel["gamma"] * products + kernel["coef0"]) ** kernel["degree"]
    return products


def _products(model: dict[str, Any], X: Any) -> Any:
    """Inner products with the support vectors, and their squared norms."""
    if "vectors" in model:
        return X @ model["vectors"].T, (model["vectors"] ** 2).sum(axis=1)
    data, indices, ends = (model[f"vectors_{part}"] for part in ("data", "indices", "indptr"))
    products, norms = np.zeros((len(X), len(ends) - 1)), np.zeros(len(ends) - 1)
    for k in range(len(ends) - 1):  # compressed rows: of each the columns that are not 0
        row = slice(ends[k], ends[k + 1])
        products[:, k] = X[:, indices[row]] @ data[row]
        norms[k] = data[row] @ data[row]
    return products, norms


def _coupled(positive: Any, n_classes: int) -> Any:
    """Class probabilities from those of pairs (Wu, Lin and Weng, 2004, second method)."""
    n = len(positive)
    r = np.zeros((n, n_classes, n_classes))
    for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
        likely = np.clip(positive[:, k], 1e-7, 1.0 - 1e-7)
        r[:, j, i], r[:, i, j] = likely, 1.0 - likely
    system = np.ones((n, n_classes + 1, n_classes + 1))
    every = np.arange(n_classes)
    system[:, :n_classes, :n_classes] = -r * r.transpose(0, 2, 1)
    system[:, every, every] = np.square(r).sum(axis=1)
    system[:, n_classes, n_classes] = 0.0
    right = np.zeros((n, n_classes + 1, 1))
    right[:, n_classes] = 1.0
    return np.linalg.solve(system, right)[:, :n_classes, 0]
