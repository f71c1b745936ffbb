"""A model's card: what a version is, what is known about it and what is not, in plain sentences.

It is generated from records and claims only what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.errors import NotFound
from service.models.versions import ModelVersion
from svm.model.metrics import explain_unpredicted
from svm.problem.certificate import ROUGH_EXCESS
from svm.stopping import StopReason

FEW_ROWS = 30
"""Metrics of a class with fewer rows are uncertain."""
IMBALANCE = 0.8
"""If the largest class has a larger share, accuracy alone is misleading."""
SHOWN_CLASSES = 20

_SCHEMES = {
    "one-vs-one": "one binary classifier for each pair of classes, by votes",
    "one-vs-rest": "one binary classifier for each class against the others",
}


@dataclass(frozen=True, slots=True)
class Card:
    """Sections with sentences about a version."""

    summary: str
    data: list[str]
    columns: list[str]
    certificate: list[str]
    quality: list[str]
    intended_use: list[str]
    limits: list[str]


def training_data(datasets: DatasetStore, version: ModelVersion) -> Dataset | None:
    """The dataset of the version's training, None if it was deleted."""
    try:
        return None if version.dataset_id is None else datasets.get(version.dataset_id)
    except NotFound:
        return None


def card_of(version: ModelVersion, dataset: Dataset | None) -> Card:
    """`dataset` is the result of `training_data`."""
    return Card(
        summary=_summary(version),
        data=_data(version, dataset),
        columns=(version.result.get("table") or {}).get("notes", []),
        certificate=_certificate(version),
        quality=_quality(version),
        intended_use=_intended_use(version),
        limits=_limits(version, dataset),
    )


def _summary(version: ModelVersion) -> str:
    spec = version.spec
    n = len(version.classes)
    shown = ", ".join(str(label) for label in version.classes[:SHOWN_CLASSES])
    shown += ", …" if n > SHOWN_CLASSES else ""
    solver = spec.get("solver", {})
    kernel = (solver.get("kernel") or {}).get("name")
    kind = "support vector machine" if version.imported is not None else "linear classifier"
    kind = f"support vector machine with a {kernel} kernel" if kernel else kind
    parts = [
        f"A {kind} for {n} classes ({shown}) and {version.n_features:,} "
        f"feature{'' if version.n_features == 1 else 's'}"
    ]
    if n > 2 and spec.get("multiclass") in _SCHEMES:
        parts.append(_SCHEMES[spec["multiclass"]])
    features = spec.get("features", {}).get("name", "identity")
    if features != "identity":
        parts.append(f"on {features} features")
    if spec.get("scaling", "none") != "none":
        parts.append(f"scaled by {spec['scaling']}")
    if solver.get("name"):
        parts.append(f"trained by {solver['name']}")
    if version.imported is not None:
        return f"{parts[0]}; imported from {version.imported['format']}."
    gives = "labels, decision values and probabilities"
    if version.calibration is None:
        gives = "labels and decision values"
    return f"{'; '.join(parts)}. It gives {gives}."


def _data(version: ModelVersion, dataset: Dataset | None) -> list[str]:
    if version.imported is not None:
        return [
            "It was imported, and trained on data that this service does not have. The claims of "
            "its file, in `imported`, were not checked."
        ]
    if dataset is None:
        return [
            f"It was trained on the dataset {version.dataset_id}, which was deleted. Its digest "
            f"was {version.dataset_digest}."
        ]
    name = f" ({dataset.name})" if dataset.name else ""
    layout = "sparse" if dataset.sparse else "dense"
    sentences = [
        f"It was trained on the dataset {dataset.id}{name}: {dataset.n_samples:,} rows of "
        f"{dataset.n_features:,} features, {layout}."
    ]
    if dataset.classes is not None and dataset.class_counts is not None:
        counts = zip(dataset.classes[:SHOWN_CLASSES], dataset.class_counts, strict=False)
        shown = ", ".join(f"{label}: {count:,}" for label, count in counts)
        more = ", …" if len(dataset.classes) > SHOWN_CLASSES else ""
        sentences.append(f"Rows of each class: {shown}{more}.")
    validation = version.spec.get("validation") or {}
    if "fraction" in validation:
        stratified = ", the same share of every class" if validation.get("stratify") else ""
        share = f"{validation['fraction']:.0%} of the rows"
        sentences.append(f"{share} were the validation set{stratified}.")
    elif "dataset_id" in validation:
        sentences.append(f"Dataset {validation['dataset_id']} was the validation set.")
    elif "folds" in validation:
        sentences.append(
            f"It was trained on all rows, and measured by cross-validation with "
            f"{validation['folds']} folds."
        )
    sentences.extend(f"About the data: {warning['message']}." for warning in dataset.warnings)
    return sentences


def _certificate(version: ModelVersion) -> list[str]:
    certificate = version.result.get("certificate", {})
    if "summary" not in certificate:
        return ["There is no certificate: the distance from the optimum is not known."]
    sentences = [certificate["summary"]]
    if {"primal", "dual"} <= certificate.keys():
        of = " there" if len(certificate.get("pairs", ())) > 1 else ""
        sentences.append(
            f"The cost{of} is {certificate['primal']:.6g}, and no model with the same data and "
            f"settings has a lower one than {certificate['dual']:.6g}."
        )
    if certificate.get("kernel") == "approximated":
        sentences.extend(_with_kernel(certificate.get("exact"), version.spec))
    for reason in StopReason:
        if reason == version.result.get("stop_reason") and not reason.converged:
            sentences.append(f"The training did not converge. {reason.advice}")
    sentences.append(
        "The certificate is about the cost that was minimized, not about accuracy on new rows."
    )
    return sentences


def _with_kernel(exact: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> list[str]:
    """About the kernel that features approximate."""
    excess = None if exact is None else exact["excess"]
    if excess is not None and excess <= ROUGH_EXCESS:
        return []
    text = "The cost with the kernel itself was not bounded"
    if exact is not None:
        text = "With the kernel itself a much lower cost may be possible"
    elif (spec.get("features") or {}).get("name") == "random-fourier":
        text = (
            "Random Fourier features are not functions of the kernel's space, so that the model "
            "cannot be certified with the kernel itself"
        )
    return [f"{text}: smo, which takes the kernel itself, may find a better model."]


def _quality(version: ModelVersion) -> list[str]:
    metrics: Mapping[str, Any] = version.result.get("metrics", {})
    sentences = []
    for subset, rows in (("validation", "validation"), ("train", "training")):
        measured = metrics.get(subset, {})
        counts = measured.get("confusion_matrix")
        if not counts:
            continue
        total, right = sum(map(sum, counts)), sum(row[k] for k, row in enumerate(counts))
        if total == 0:
            continue
        low, high = _interval(right, total)
        most = max(map(sum, counts)) / total
        sentences.append(
            f"{right / total:.1%} of {total:,} {rows} rows are predicted correctly (95 % interval "
            f"{low:.1%} to {high:.1%}); always predicting the largest class would give {most:.1%}."
        )
        if seen := measured.get("trained_rows"):
            count = f"All {total:,}" if seen == total else f"{seen:,} of {total:,}"
            sentences.append(
                f"{count} {rows} rows are equal to training rows, labels included: on new rows the "
                "accuracy is probably lower."
            )
        if measured.get("accuracy_mean") is not None and measured.get("accuracy_std") is not None:
            sentences.append(
                f"Over the folds: {measured['accuracy_mean']:.1%} on average, with a standard "
                f"deviation of {measured['accuracy_std']:.1%}."
            )
        error = (measured.get("calibration") or {}).get("expected_calibration_error")
        if error is not None:
            sentences.append(
                f"The error of its probabilities is {percent(error)} on average (expected "
                "calibration error), each row measured with a calibration that was fitted on "
                "others."
            )
    return sentences or ["Nothing was measured."]


def _intended_use(version: ModelVersion) -> list[str]:
    named = "with the same names" if version.columns else "in the same order"
    missing = "Every value is required: missing values are not imputed."
    if version.result.get("table"):
        missing = (
            "Missing cells are filled, and levels that the training data did not have are read, as "
            "the settings of `encoding` say."
        )
    return [
        "For rows of the same kind and source as the training data, with the same features "
        f"{named} and the same units.",
        missing,
    ]


def _limits(version: ModelVersion, dataset: Dataset | None) -> list[str]:
    spec, metrics = version.spec, version.result.get("metrics", {})
    sentences = []
    if version.quarantined_at is not None:
        sentences.append("Its file is damaged: this version cannot predict.")
    if version.imported is not None:
        sentences.append(
            "Nothing was measured here: evaluate it on labeled rows before you rely on it."
        )
    elif not metrics.get("validation", {}).get("confusion_matrix"):
        sentences.append(
            "It was measured on its training rows: its accuracy on new rows is not known, and "
            "probably lower."
        )
    sentences.extend(explain_unpredicted(metrics, version.classes, spec.get("class_weight")))
    if dataset is not None and dataset.class_counts and dataset.classes:
        few = [
            str(label)
            for label, count in zip(dataset.classes, dataset.class_counts, strict=True)
            if count < FEW_ROWS
        ]
        if few:
            shown = ", ".join(few[:SHOWN_CLASSES]) + (", …" if len(few) > SHOWN_CLASSES else "")
            sentences.append(
                f"Classes of fewer than {FEW_ROWS} rows ({shown}) have unreliable metrics."
            )
        share = max(dataset.class_counts) / max(1, sum(dataset.class_counts))
        if share > IMBALANCE:
            sentences.append(
                f"{share:.0%} of the rows are of one class: check recall, not only accuracy."
            )
    if version.calibration is not None and version.imported is None:
        folds = "folds" in (spec.get("validation") or {})
        rows = "the scores of the folds" if folds else "the validation set"
        sentences.append(
            f"Probabilities were calibrated on {rows}. "
            "The label follows the decision value, and can differ from the largest probability."
        )
    elif version.calibration is None:
        sentences.append("Decision values are not probabilities.")
    kernel = (spec.get("solver", {}).get("kernel") or {}).get("name")
    if kernel == "gaussian":
        sentences.append("Far from all support vectors every row gets the same label.")
    sentences.append("It predicts one of its classes for every row, however unusual the row is.")
    sentences.append(
        "This card was generated from records. No one has checked whether the data are fair, or "
        "whether the model is suitable for decisions about people."
    )
    return sentences


def percent(share: float) -> str:
    """With two significant digits: 0.083 %."""
    digits = 1 if share <= 0 else max(0, 1 - math.floor(math.log10(100 * share)))
    return f"{100 * share:.{min(digits, 12)}f} %"


def _interval(right: int, total: int) -> tuple[float, float]:
    """Wilson's interval, 95 %."""
    z = 1.96
    share = right / total
    middle = share + z * z / (2 * total)
    reach = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return (middle - reach) / (1 + z * z / total), (middle + reach) / (1 + z * z / total)
