"""What a card says about a model of numbers, in the unit of its target."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from service.common.figures import figure, percent
from service.models.measured import in_groups, less_sure
from service.storage.database.tables import ModelVersion
from svm.model.conformal import least_rows

COVERAGE = 0.9
"""Of prediction intervals, if the caller does not say."""
_FIGURES = {
    "mae": ("mean absolute error", "the median"),
    "rmse": ("root of the mean squared error", "the mean"),
    "r2": ("R²", "the mean"),
}
"""Metrics in words, and what their baseline always predicts."""


def errors_in_words(measured: Mapping[str, Any], rows: str) -> Iterator[str]:
    """Sentences about the errors on rows of a name such as "validation"."""
    ends, baseline = measured["intervals"], measured.get("baseline") or {}

    def with_ends(name: str) -> str:
        if measured[name] is None:
            return "not known, since all targets are equal"
        interval = ends.get(name)
        between = interval and f" (95 % interval {figure(interval[0])} to {figure(interval[1])})"
        return f"{figure(measured[name])}{between or ''}"

    yield (
        f"On {measured['n_samples']:,} {rows} rows{in_groups(measured)}, half of its errors are "
        f"below {with_ends('median_absolute_error')}"
        + _beside(baseline, "median_absolute_error", "the median")
    )
    for name, (words, constant) in _FIGURES.items():
        yield f"Its {words} is {with_ends(name)}" + _beside(baseline, name, constant)
    yield f"{percent(measured['share_inside_epsilon'])} of its errors are at most ε."
    yield from measured.get("split", {}).get("said", ())
    if (seen := measured.get("trained_rows")) and 2 * seen < measured["n_samples"]:
        yield (
            f"{seen:,} of {measured['n_samples']:,} {rows} rows are equal to training rows, labels "
            "included: on new rows the errors are probably larger."
        )
    if measured.get("mae_mean") is not None and measured.get("mae_std") is not None:
        yield (
            f"Over the folds, its mean absolute error is {figure(measured['mae_mean'])} on "
            f"average, with a standard deviation of {figure(measured['mae_std'])}."
        )


def _beside(baseline: Mapping[str, Any], name: str, constant: str) -> str:
    if baseline.get(name) is None:
        return "."
    return f"; always predicting {constant} of the training rows gives {figure(baseline[name])}."


def intervals_in_words(version: ModelVersion) -> Iterator[str]:
    """What its prediction intervals are worth, if it was trained here."""
    metrics: Mapping[str, Any] = version.result.get("metrics", {})
    conformal = metrics.get("validation", {}).get("conformal")
    if version.imported is not None or not metrics:
        return
    if conformal is None:
        yield "It has no prediction intervals, which need rows that it was not trained on."
        return
    n = conformal["n_samples"]
    usual = [one for one in conformal["coverages"] if one["coverage"] == COVERAGE]
    if not usual:
        yield (
            f"Its prediction intervals are from the errors of {n:,} rows that it was not trained "
            f"on; a coverage of {percent(COVERAGE, 0)} needs {least_rows(COVERAGE)}."
        )
        return
    one = usual[0]
    ends = f"± {figure(one['half_width'])}"
    if _of_logarithms(version):
        factor = figure(math.exp(one["half_width"]))
        ends = f"from 1/{factor} to {factor} times the prediction"
    yield (
        f"Its intervals with a coverage of {percent(COVERAGE, 0)} are {ends}, from the errors of "
        f"n = {n:,} rows that it was not trained on. On average over such draws of rows they "
        f"contain {percent(one['mean_share'], 2)} of new targets, k/(n + 1); 19 models of 20 "
        f"reach {percent(one['least_share'])}, the 5 % point of the Beta distribution."
    )
    yield from less_sure(metrics["validation"])


def loss_in_words(version: ModelVersion) -> Iterator[str]:
    """Where ε comes from, and the scale of the target, if it was trained here."""
    solver, metrics = version.spec.get("solver", {}), version.result.get("metrics", {})
    epsilon = solver.get("epsilon")
    if epsilon is None:
        epsilon = metrics.get("train", {}).get("epsilon")
        if epsilon is None:
            return
        source = "half the robust spread (1.48 MAD) of the errors of a first fit"
    else:
        source = "as the settings say"
    seen, unit = ("logarithm", " of the logarithm") if _of_logarithms(version) else ("target", "")
    yield (
        f"Errors up to ε = {figure(epsilon)}{unit} cost nothing: {source}. The problem is stated "
        f"in the standardized {seen}: its errors are in standard deviations."
    )


def _of_logarithms(version: ModelVersion) -> bool:
    return version.spec.get("target_scale") == "logarithmic"
