"""A model's card: what a version is, what is known about it and what is not, in plain sentences.

It is generated from records and claims only what was measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.common.figures import counted, figure, percent
from service.common.schemas import rfc3339
from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.errors import NotFound
from service.models.errors_in_words import (
    errors_in_words,
    intervals_in_words,
    loss_in_words,
)
from service.models.measured import between, effective, expected_beside, in_groups, less_sure
from service.models.outputs import USUAL
from service.models.schemas import ModelCardRead, ModelVersionRead
from service.storage.database.tables import ModelVersion
from svm.audit.findings import told
from svm.model.rejection import least_rows
from svm.problem.certificate import ROUGH_EXCESS
from svm.stopping import StopReason
from svm.training.preparation import SKEWED_TARGET

FEW_ROWS = 30
"""Metrics of a class with fewer rows are uncertain."""
IMBALANCE = 0.8
"""If the largest class has a larger share, accuracy alone is misleading."""
SHOWN_CLASSES = 20
SHOWN_COLUMNS = 200
SECTIONS = {
    "intended_use": "Intended use",
    "limits": "Limits",
    "data": "Data",
    "columns": "Columns",
    "certificate": "Certificate",
    "quality": "Quality",
}
"""Sections for people, in this order: members of a card, and their titles."""

_SCHEMES = {
    "one-vs-one": "one binary classifier for each pair of classes, by votes",
    "one-vs-rest": "one binary classifier for each class against the others",
}

_TOO_GOOD = "These metrics of the folds are a little too good: their rows chose the setting."
_UNCHECKED = (
    "This card was generated from records. No one has checked whether the data are fair, or "
    "whether the model is suitable for decisions about people."
)


def training_data(datasets: DatasetStore, version: ModelVersion) -> Dataset | None:
    """The dataset of the version's training, None if it was deleted."""
    try:
        return None if version.dataset_id is None else datasets.get(version.dataset_id)
    except NotFound:
        return None


def card_of(version: ModelVersion, dataset: Dataset | None) -> ModelCardRead:
    """`dataset` is the result of `training_data`."""
    return ModelCardRead(
        summary=_summary(version),
        data=_data(version, dataset),
        columns=_encoding(version),
        certificate=_certificate(version),
        quality=_quality(version),
        intended_use=_intended_use(version),
        limits=_limits(version, dataset),
        version=ModelVersionRead.of(version),
    )


def _summary(version: ModelVersion) -> str:
    spec = version.spec
    n = len(version.classes)
    solver = spec.get("solver", {})
    kernel = (solver.get("kernel") or {}).get("name")
    kind = "support vector machine" if version.imported is not None else "linear classifier"
    kind = f"support vector machine with a {kernel} kernel" if kernel else kind
    what = f"for {n} classes ({_first(version.classes)}) and"
    if version.predicts == "numbers":
        kind, what = kind.replace("classifier", "model"), "that predicts a number from"
    parts = [f"A {kind} {what} {_features(version.n_features, version.kinds)}"]
    if n > 2 and spec.get("multiclass") in _SCHEMES:
        parts.append(_SCHEMES[spec["multiclass"]])
    features = spec.get("features", {}).get("name", "identity")
    if features != "identity":
        parts.append(f"on {features} features")
    if spec.get("scaling", "none") != "none" and version.kinds != {"text"}:
        parts.append(f"scaled by {spec['scaling']}")
    if solver.get("name"):
        parts.append(f"trained by {solver['name']}")
    if version.imported is not None:
        return f"{parts[0]}; imported from {version.imported['format']}."
    gives = "labels, decision values and probabilities"
    if version.predicts == "numbers":
        intervals = version.result.get("metrics", {}).get("validation", {}).get("conformal")
        gives = "values and prediction intervals" if intervals else "values"
    elif version.calibration is None:
        gives = "labels and decision values"
    return f"{'; '.join(parts)}. It gives {gives}."


def _features(n: int, kinds: set[str]) -> str:
    """How many, in words."""
    if kinds == {"text"}:
        return f"{n:,} columns of texts" if n > 1 else "a column of texts"
    return counted(n, "feature")


def _first(classes: Sequence[object]) -> str:
    """The first ones of a list."""
    more = ["…"] if len(classes) > SHOWN_CLASSES else []
    return ", ".join([*map(str, classes[:SHOWN_CLASSES]), *more])


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
    layout = "" if version.kinds == {"text"} else ", sparse" if dataset.sparse else ", dense"
    sentences = [
        f"It was trained on the dataset {dataset.id}{name}: {dataset.n_samples:,} rows of "
        f"{_features(dataset.n_features, version.kinds)}{layout}."
    ]
    if (of := dataset.target_statistics) is not None and None not in of.values():
        sentences.append(
            f"Its target is between {figure(of['min'])} and {figure(of['max'])}: its median is "
            f"{figure(of['median'])}, its mean {figure(of['mean'])}, with a standard deviation of "
            f"{figure(of['std'])}."
        )
    if dataset.classes is not None and dataset.class_counts is not None:
        counts = zip(dataset.classes, dataset.class_counts, strict=True)
        shown = _first([f"{label}: {count:,}" for label, count in counts])
        sentences.append(f"Rows of each class: {shown}.")
    validation = version.spec.get("validation") or {}
    if "fraction" in validation:
        stratified = ", the same share of every class" if validation.get("stratify") else ""
        share = f"{percent(validation['fraction'], 0)} of the rows"
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


def _encoding(version: ModelVersion) -> list[str]:
    table = version.result.get("table") or {"columns": (), "notes": ()}
    sentences = list(table["notes"])
    for column in table["columns"]:
        strongest = column.get("strongest", {})
        for name, weights in strongest.items():
            of = name if version.classes else f"a {name} number"
            words = ", ".join(f"“{token}”" for token in weights)
            sentences.append(f"{column['name']}: strongest for {of}: {words or 'none'}")
        if strongest and (left_out := len(version.classes) - len(strongest)) > 0:
            sentences.append(f"{column['name']}: and {left_out:,} more classes")
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
    if version.predicts == "numbers":
        sentences.extend(loss_in_words(version))
    measure = "accuracy" if version.predicts == "classes" else "errors"
    sentences.append(
        f"The certificate is about the cost that was minimized, not about {measure} on new rows."
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
    search: Mapping[str, Any] = version.result.get("search") or {}
    expected = expected_beside(search, metrics.get("validation") or {})
    cross_fitted = (
        "That is cross-fitted: the rows of each fold count with the setting that the other folds "
        "would choose, trained without them."
    )
    sentences = [] if expected is None else [f"{_expected(expected, search)} {cross_fitted}"]
    for subset, rows in (("validation", "validation"), ("train", "training")):
        measured = metrics.get(subset, {})
        too_good = search and measured.get("folds")
        if "mae" in measured:
            sentences.extend(errors_in_words(measured, rows))
            sentences += [_TOO_GOOD] if too_good else []
        counts = measured.get("confusion_matrix")
        if not counts:
            continue
        total, right = sum(map(sum, counts)), sum(row[k] for k, row in enumerate(counts))
        if total == 0:
            continue
        ends = between(right / total, effective(measured, total))
        most = max(map(sum, counts)) / total
        sentences.append(
            f"{percent(right / total)} of {total:,} {rows} rows{in_groups(measured)} are predicted "
            f"correctly (95 % interval {ends}); always predicting the largest class would give "
            f"{percent(most)}."
        )
        sentences += [_TOO_GOOD] if too_good else []
        sentences.extend(measured.get("split", {}).get("said", ()))
        if (seen := measured.get("trained_rows")) and 2 * seen < total:
            count = f"All {total:,}" if seen == total else f"{seen:,} of {total:,}"
            sentences.append(
                f"{count} {rows} rows are equal to training rows, labels included: on new rows the "
                "accuracy is probably lower."
            )
        if left_out := measured.get("left_out_rows"):
            sentences.append(f"{left_out:,} rows equal to training rows were left out of it.")
        if measured.get("accuracy_mean") is not None and measured.get("accuracy_std") is not None:
            sentences.append(
                f"Over the folds: {percent(measured['accuracy_mean'])} on average, with a standard "
                f"deviation of {percent(measured['accuracy_std'])}."
            )
        error = (measured.get("calibration") or {}).get("expected_calibration_error")
        if error is not None:
            sentences.append(
                f"The error of its probabilities is {percent(error)} on average (expected "
                "calibration error), each row measured with a calibration that was fitted on "
                "others."
            )
    if search:
        more = f" {cross_fitted}" if expected is None else ""
        sentences.append(f"{search['summary']}.{more}")
    sentences.extend(
        intervals_in_words(version) if version.predicts == "numbers" else _none(version)
    )
    return sentences or ["Nothing was measured."]


def _expected(expected: float, search: Mapping[str, Any]) -> str:
    if search.get("score_name") == "mae":
        return f"A mean absolute error of {figure(expected)} is expected on new rows."
    n = search["n_samples"]
    return (
        f"{percent(expected)} of new rows are expected to be predicted correctly (95 % interval "
        f"{between(expected, effective(search, n))}, from {n:,} rows{in_groups(search)})."
    )


def _none(version: ModelVersion) -> Iterator[str]:
    """What `label_or_none` costs and finds, at the usual share, if it was trained here."""
    validation = version.result.get("metrics", {}).get("validation", {})
    known = validation.get("none_of_these")
    if known is None:
        return
    n, withheld = known["n_samples"], USUAL.withheld
    usual = [one for one in known["prices"] if one["withheld"] == withheld]
    if not usual:
        yield (
            f"It withholds labels by how certain those of {n:,} validation rows are; a share of "
            f"{percent(withheld, 0)} needs {least_rows(withheld)}."
        )
        return
    one = usual[0]
    low, high = one["interval"]
    yield (
        f"Asked for `label_or_none` with a share of {percent(withheld, 0)}, it withholds labels "
        f"that are less certain than {figure(one['threshold'])}, from n = {n:,} validation rows. "
        f"On average over such draws of rows this costs {percent(one['mean_share'], 2)} of the "
        f"answers to known classes, k/(n + 1); 19 models of 20 withhold {percent(low)} to "
        f"{percent(high)} of them."
    )
    yield from less_sure(validation)
    if one["recall"] is not None:
        total = sum(group["n_samples"] for group in known["left_out"])
        yield (
            f"When its classes were left out of a training in turn, in {len(known['left_out'])} "
            f"groups, {percent(one['recall'])} of the {total:,} validation rows of these classes "
            "were withheld at this price."
        )


def _intended_use(version: ModelVersion) -> list[str]:
    named = "with the same names" if version.columns else "in the same order"
    missing = "Every value is required: missing values are not imputed."
    if version.kinds == {"text"}:
        return [
            "For texts of the same kind, language and source as the training data, in "
            "columns with the same names.",
            "Words that no training text had add nothing to a score: `unknown_words` of a reply "
            "counts them. A missing text is one without words.",
        ]
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
    elif not metrics.get("validation") and not version.result.get("search"):
        measure, worse = "accuracy on new rows is", "lower"
        if version.predicts == "numbers":
            measure, worse = "errors on new rows are", "larger"
        sentences.append(
            f"It was measured on its training rows: its {measure} not known, and probably {worse}."
        )
    for one in told(version.result.get("audit")):
        sentences.append(f"{one['found']} {one['why']} {one['to_do']}")
    if muted := spec.get("mute"):
        sentences.append(f"Findings of the audit that were muted: {', '.join(muted)}.")
    kernel = (spec.get("solver", {}).get("kernel") or {}).get("name")
    if kernel == "gaussian":
        same = "label" if version.predicts == "classes" else "number"
        sentences.append(f"Far from all support vectors every row gets the same {same}.")
    if version.predicts == "numbers":
        sentences.append("It predicts a number for every row, however unusual the row is.")
        if SKEWED_TARGET in version.result.get("warnings", ()):
            sentences.append(f"{SKEWED_TARGET[0].upper()}{SKEWED_TARGET[1:]}.")
        return [*sentences, _UNCHECKED]
    if dataset is not None and dataset.class_counts and dataset.classes:
        counts = zip(dataset.classes, dataset.class_counts, strict=True)
        few = [label for label, count in counts if count < FEW_ROWS]
        if few:
            sentences.append(
                f"Classes of fewer than {FEW_ROWS} rows ({_first(few)}) have unreliable metrics."
            )
        share = max(dataset.class_counts) / max(1, sum(dataset.class_counts))
        if share > IMBALANCE:
            sentences.append(
                f"{percent(share, 0)} of the rows are of one class: check recall, not only "
                "accuracy."
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
    sentences.append("It predicts one of its classes for every row, however unusual the row is.")
    if "rejection_rows" not in version.result:
        sentences.append("It withholds no label: it was not measured on rows that it did not see.")
    sentences.append(_UNCHECKED)
    return sentences


def as_markdown(card: ModelCardRead, version: ModelVersion) -> str:
    """The card (CommonMark with tables). Names from callers are escaped, so that they are not
    markup."""
    parts = [f"# {version.model_name} version {version.version}", text(card.summary)]
    for name, title in SECTIONS.items():
        sentences = getattr(card, name)
        parts += _columns(version, sentences) if name == "columns" else _section(title, sentences)
    parts += [*_classes(version), *_settings(version), "## Lineage", _lineage(version)]
    return "\n\n".join(parts) + "\n"


def _columns(version: ModelVersion, notes: list[str]) -> list[str]:
    table = version.result.get("table")
    if table is None:
        return []
    rows = [
        (text(column["name"]), column["kind"], text(_levels(column)), f"{column['missing']:,}")
        for column in table["columns"][:SHOWN_COLUMNS]
    ]
    listed = _table(("column", "kind", "levels", "missing"), rows)
    return ["## Columns", listed, *_section("Encoding", notes)[1:]]


def _levels(column: dict[str, Any]) -> str:
    levels = column.get("levels", [])
    more = column.get("n_levels", 0) - len(levels)
    return ", ".join(levels) + (f" and {more:,} more" if more else "")


def _settings(version: ModelVersion) -> list[str]:
    if not version.spec:
        return []
    return ["## Settings", _fence(json.dumps(version.spec, indent=2, ensure_ascii=False))]


def _lineage(version: ModelVersion) -> str:
    rows = [("model digest", f"`{version.digest}`")]
    if version.imported is not None:
        origin = version.imported["origin"]
        rows.append(("imported from", version.imported["format"]))
        for name in ("name", "version", "created_at", "digest"):
            rows.append((f"{name} (claimed)", text(str(origin.get(name))[:100])))
    else:
        rows += [
            ("data digest", f"`{version.dataset_digest}`"),
            ("dataset", f"`{version.dataset_id}`"),
            ("job", f"`{version.job_id}`"),
            ("warm start from", text(str(version.spec.get("warm_start_from") or "nothing"))),
            ("seed", str(version.seed)),
        ]
    return _table(("what", "value"), [*rows, ("created", rfc3339(version.created_at))])


def text(content: str) -> str:
    """Text from callers, escaped for Markdown."""
    plain = "".join(c if c.isprintable() else " " for c in content)
    return re.sub(r"([\\`*_{}\[\]()#+!|>~<&$])", r"\\\1", plain)


def _section(title: str, sentences: list[str]) -> list[str]:
    return [f"## {title}", "\n".join(f"- {text(sentence)}" for sentence in sentences)]


def _classes(version: ModelVersion) -> list[str]:
    """Precision and recall of each class, of the validation set if there is one."""
    metrics = version.result.get("metrics", {})
    subset = next((name for name in ("validation", "train") if metrics.get(name)), None)
    measured = metrics[subset].get("per_class") if subset else None
    if not measured:
        return []
    rows = [
        (
            text(str(label)),
            *(f"{one[name]:.4f}" for name in ("precision", "recall", "f1")),
            f"{one['support']:,}",
        )
        for label, one in zip(version.classes, measured, strict=True)
    ]
    which = {"validation": "validation rows", "train": "training rows"}[str(subset)]
    return [f"By class, {which}:", _table(("class", "precision", "recall", "F1", "rows"), rows)]


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _fence(code: str) -> str:
    """With a fence longer than any in the code."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}json\n{code}\n{fence}"
