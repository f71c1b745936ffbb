"""Datasets, jobs and models as text and as rows of tables."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from service.cli.output import Columns, print_fields, print_rows, print_table
from service.common import phases
from service.common.figures import at_most, figure

if TYPE_CHECKING:
    from service.client import Dataset, Event, Job, ModelVersion

MANY = 20
"""Most classes that are listed."""


def print_dataset(dataset: Dataset) -> None:
    counts = list(zip(dataset.classes or (), dataset.class_counts or (), strict=False))
    classes = [f"{label} ({count:,})" for label, count in counts[:MANY]]
    if len(counts) > MANY:
        classes.append(f"and {len(counts) - MANY:,} more")
    print_fields(
        f"{dataset.id}  {dataset.name or ''}".rstrip(),
        {
            "rows": f"{dataset.n_samples:,}",
            "features": _features(dataset),
            "classes": ", ".join(classes) or None,
            "target": _target(dataset),
        },
    )
    for warning in dataset.warnings:
        print(f"  note: {warning['message']}")
    print_audit(dataset.audit)


def print_audit(findings: Iterable[Mapping[str, Any]]) -> None:
    """What was found, why it matters and what to do."""
    for one in findings:
        print(f"  {one['grade']}: {one['found']} {one['why']} {one['to_do']} ({one['name']})")


def print_proposal(dataset: Dataset) -> None:
    """What an upload would be: every column with its kind and role."""
    title = "nothing is stored; the columns would be"
    described = {"label": dataset.target, "target": _target(dataset)}
    print_fields(title, {"rows": f"{dataset.n_samples:,}", **described})
    rows = [_column_cells(number, column) for number, column in enumerate(dataset.columns or ())]
    beside = {"weight": dataset.weight, "group": dataset.group, "time": dataset.time}
    rows += [(name, role, None, None, None) for role, name in beside.items() if name is not None]
    rows += [(one["name"], "ignored", None, None, one["reason"]) for one in dataset.ignored_columns]
    print_rows(("column", "role", "kind", "missing", "values"), rows)
    reading = dataset.reading or {}
    print_fields("reading", {name: reading[name] for name in reading if name != "columns"})
    for warning in dataset.warnings:
        if warning["code"] != "ignored-column":
            print(f"  note: {warning['message']}")
    print_audit(dataset.audit)


def _column_cells(number: int, column: Mapping[str, Any]) -> tuple[Any, ...]:
    if column["levels"] is None:
        values = f"{column['min']} to {column['max']}" if column["min"] is not None else None
    else:
        values = f"{column['n_levels']:,}: {', '.join(column['levels'][:MANY])}"
        values += ", …" if column["n_levels"] > MANY else ""
    name = str(number) if column["name"] is None else column["name"]
    return name, column["role"], column["kind"], column["missing"] or None, values


def print_job(job: Job) -> None:
    print_fields(
        f"{job.id}  {job.state}",
        {
            "dataset": job.dataset_id,
            "model": _model(job),
            "cancel": "requested" if job.cancel_requested and not job.ended else None,
            "now": phases.now(job.progress) or None,
            "ended": job.stop_reason and f"{job.stop_reason} after {job.elapsed_s:.3g} s",
            "phases": phases.told(job.progress) or None,
            "certificate": _certificate(job.certificate),
            **{
                f"{part} {'error' if 'mae' in measured else 'accuracy'}": _quality(measured)
                for part, measured in (job.metrics or {}).items()
                if part in ("train", "validation")
            },
        },
    )
    for warning in job.warnings:
        print(f"  warning: {warning}")
    print_audit(job.audit)
    for note in job.notes:
        print(f"  note: {note}")


def print_plan(plan: Mapping[str, Any]) -> None:
    """What a training would cost, also if several machines share its passes."""
    print_fields(
        f"nothing is queued; a training on {plan['dataset_id']} would have",
        {
            "rows": f"{plan['n_samples']:,}" + (", read from files" * plan["rows_in_files"]),
            "features": f"{plan['n_features']:,}",
            "trainings": f"{plan['trainings']:,}"
            + f", and up to {plan['compared']} on samples, to compare settings"
            * bool(plan["compared"]),
            "binary problems": f"{plan['binary_problems']:,} in each training",
            "an epoch": plan["cost_per_epoch"],
            "memory": f"{plan['memory_bytes']:,} bytes at most",
            "compiling": "for this machine, once: first trainings take longer"
            if plan["compiling"]
            else None,
        },
    )
    if spread := plan["spread"]:
        print_fields(
            "and, if several machines share the passes of a training",
            {
                "shards": f"{spread['shards']:,}",
                "passes": f"{spread['passes']:,}",
                "sent once": f"{spread['bytes_once']:,} bytes",
                "sent per epoch": f"{spread['bytes_per_epoch']:,} bytes to and from each machine",
                "memory": f"{spread['memory_bytes']:,} bytes in all of them beside the rows",
            },
        )


def print_event(event: Event, as_json: bool) -> None:
    """One line, as it happens."""
    if as_json:
        line = {"id": event.id, "event": event.kind, "data": event.data}
        print(json.dumps(line, ensure_ascii=False), flush=True)
        return
    moment = event.data["at"][:23].replace("T", " ")
    print(f"{moment:23}  {event.kind:10}  {', '.join(_happened(event.data))}".rstrip(), flush=True)


def _happened(data: Mapping[str, Any]) -> list[str]:
    """The parts of an event's line; those of `progress` are in the event of the end, too."""
    reached = {**data.get("progress", {}), **data}
    texts = [text for text in (reached.get("state"), reached.get("message")) if text]
    texts += [name.replace("_", " ") for name in _REQUESTS if data.get(name)]
    if reached.get("stop_reason"):
        texts.append(reached["stop_reason"])
    if reached.get("epoch"):
        texts.append(f"epoch {reached['epoch']:,}")
    if gap := _gap(reached):
        texts.append(f"gap {gap}")
    if reached.get("elapsed_s") is not None:
        texts.append(f"{reached['elapsed_s']:.3g} s")
    if reached.get("model"):
        texts.append(f"model {reached['model']['name']}/{reached['model']['version']}")
    if reached.get("error"):
        texts.append(reached["error"]["detail"])
    return texts


_REQUESTS = ("cancel_requested", "pause_requested")


def print_evaluation(results: Mapping[str, Any]) -> None:
    metrics = results["metrics"]
    of_numbers = "mae" in metrics
    print_fields(
        f"{results['model']['name']}/{results['model']['version']} on {results['dataset_id']}",
        {
            "rows": f"{metrics['n_samples']:,}",
            "rows trained on": _trained_rows(metrics),
            **({} if of_numbers else _shares(metrics)),
            **_unknown_cells(results.get("unknown_cells") or {}),
        },
    )
    if of_numbers:
        _print_errors(metrics)
    else:
        print_table(_CLASSES, metrics["per_class"])
    if importance := metrics.get("importance"):
        print_table(_INCREASES if of_numbers else _IMPORTANCE, importance["columns"])


def _shares(metrics: Mapping[str, Any]) -> dict[str, str | None]:
    auc = metrics["roc_auc"]
    return {
        "accuracy": _percent(metrics["accuracy"]),
        "balanced accuracy": _percent(metrics["balanced_accuracy"]),
        "area under ROC": None if auc is None else f"{auc:.4f}",
    }


_ERRORS = {
    "median_absolute_error": "median of errors",
    "mae": "mean absolute error",
    "rmse": "root of the mean squared error",
    "r2": "R²",
}


def _print_errors(metrics: Mapping[str, Any]) -> None:
    """Each with its interval, beside that of the best constant."""
    baseline = metrics.get("baseline") or {}
    rows = []
    for name, title in _ERRORS.items():
        ends = metrics["intervals"][name]
        between = ends and f"{figure(ends[0])} to {figure(ends[1])}"
        rows.append((title, _figure(metrics[name]), between, _figure(baseline.get(name))))
    print_rows(("errors", "value", "95 % interval", "of a constant"), rows)


def _trained_rows(metrics: Mapping[str, Any]) -> str:
    """How many of the rows the model was trained on, which makes its accuracy too good."""
    count = metrics.get("trained_rows")
    return "unknown" if count is None else f"{count:,}"


def _unknown_cells(cells: Mapping[str, Any]) -> dict[str, str]:
    """Levels and missing cells that training did not have, by column; and how many words."""
    titles = {"unseen": "unseen levels", "missing": "newly missing cells"}
    shown = {
        title: ", ".join(f"{name} {count:,}" for name, count in cells[reason].items())
        for reason, title in titles.items()
        if cells.get(reason)
    }
    words = cells.get("words")
    return {**shown, "unknown words": f"{words:,}"} if words else shown


PREDICTIONS = {
    "label": "label",
    "label_or_none": "label_or_none",
    "values": "value",
    "intervals": "interval",
    "decision": "decision",
    "probability": "probability",
}
"""Members of a reply, and their names in a table."""


def print_predictions(answer: Mapping[str, Any]) -> None:
    """As CSV: a column for each output, for each class of an output, or for each end of an
    interval."""
    names: list[str] = []
    columns: list[Sequence[Any]] = []
    for member, values in answer.items():
        name = PREDICTIONS.get(member)
        if name is None:
            continue
        if isinstance(values[0], list):
            each = (f"{name}:{label}" for label in answer["classes"])
            names += ("interval_low", "interval_high") if name == "interval" else each
            columns += list(zip(*values, strict=True))
        else:
            names.append(name)
            columns.append(values)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _features(dataset: Dataset) -> str:
    return f"{dataset.n_features:,}" + (", sparse" if dataset.sparse else "")


def _model(job: Job) -> str | None:
    """The model version that the job created."""
    return None if job.model is None else f"{job.model['name']}/{job.model['version']}"


def _certificate(certificate: Mapping[str, Any] | None) -> str | None:
    return (certificate or {}).get("summary")


def _gap(values: Mapping[str, Any] | None) -> str | None:
    """From a certificate or from progress, as a percentage that is rounded up."""
    gap = (values or {}).get("relative_gap")
    return None if gap is None else at_most(gap)


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.2f} %"


def _minute(moment: str) -> str:
    """A time of the API, to the minute."""
    return moment[:16].replace("T", " ")


def _figure(value: float | None) -> str | None:
    return None if value is None else figure(value)


def _target(dataset: Dataset) -> str | None:
    """Where the labels lie, if they are numbers."""
    if (known := dataset.target_statistics) is None:
        return None
    low, high, middle, mean = (
        _figure(known[name]) or "beyond float64" for name in ("min", "max", "median", "mean")
    )
    return f"numbers from {low} to {high}, median {middle}, mean {mean}"


def _quality(measured: Mapping[str, Any]) -> str | None:
    """The accuracy; of numbers the mean absolute error, its interval, and that of a constant."""
    if "mae" not in measured:
        return _percent(measured.get("accuracy"))
    constant = (measured.get("baseline") or {}).get("mae")
    beside = "" if constant is None else f"; always the median: {figure(constant)}"
    ends = (measured.get("intervals") or {}).get("mae")
    between = f" ({figure(ends[0])} to {figure(ends[1])} with 95 % confidence)" if ends else ""
    return f"{figure(measured['mae'])} on average{between}{beside}"


def print_comparison(results: Mapping[str, Any]) -> None:
    print_table(_ENTRIES, results["entries"])
    if results["model"]:
        print(f"the best is {results['model']['name']}/{results['model']['version']}")


def _pairs(aliases: Mapping[str, int]) -> str:
    return ", ".join(f"{alias} = {version}" for alias, version in sorted(aliases.items()))


def _outcome(change: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_word(value)}" for name, value in change["result"].items())


def _strength(entry: Mapping[str, Any]) -> str:
    solver = entry["spec"]["solver"]
    return ", ".join(f"{name} = {solver[name]:g}" for name in ("lambda", "C") if solver.get(name))


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"


def _accuracy(version: ModelVersion) -> str | None:
    measured = version.metrics.get("validation") or version.metrics.get("train") or {}
    return _figure(measured["mae"]) if "mae" in measured else _percent(measured.get("accuracy"))


def _score(entry: Mapping[str, Any]) -> str | None:
    of_numbers = "mae" in (entry["train"] or {})
    return _figure(entry["score"]) if of_numbers else _percent(entry["score"])


_CREATED: Columns = {"created (UTC)": lambda resource: _minute(resource.created_at)}
DATASETS: Columns = {
    "dataset": attrgetter("id"),
    "name": attrgetter("name"),
    "rows": lambda dataset: f"{dataset.n_samples:,}",
    "features": lambda dataset: _features(dataset),
    "classes": lambda dataset: (
        len(dataset.classes) if dataset.classes is not None else dataset.target_kind
    ),
    **_CREATED,
}
JOBS: Columns = {
    "job": attrgetter("id"),
    "kind": attrgetter("kind"),
    "model": lambda job: _model(job) or job.spec.get("model_name"),
    "state": attrgetter("state"),
    "gap": lambda job: _gap(job.progress),
    **_CREATED,
}
MODELS: Columns = {
    "model": attrgetter("name"),
    "latest": attrgetter("latest_version"),
    "aliases": lambda model: _pairs(model.aliases),
    **_CREATED,
}
VERSIONS: Columns = {
    "version": attrgetter("version"),
    "solver": lambda version: version.spec.get("solver", {}).get("name"),
    "accuracy or error": _accuracy,
    "gap": lambda version: _gap(version.certificate),
    "bytes": lambda version: f"{version.size_bytes:,}",
    **_CREATED,
}
CHANGES: Columns = {
    "time (UTC)": lambda change: change["at"][:19].replace("T", " "),
    "by": itemgetter("actor"),
    "from": itemgetter("address"),
    "action": itemgetter("action"),
    "resource": itemgetter("resource"),
    "result": _outcome,
}
_ENTRIES: Columns = {
    "rank": itemgetter("rank"),
    "solver": lambda entry: entry["spec"]["solver"]["name"],
    "λ or C": _strength,
    "score": _score,
    "gap": lambda entry: _gap(entry["certificate"]),
    "epochs": itemgetter("epochs"),
    "seconds": lambda entry: _number(entry["elapsed_s"]),
    "": lambda entry: (entry["error"] or {}).get("detail"),
}
_CLASSES: Columns = {
    "class": itemgetter("label"),
    "precision": lambda measured: _percent(measured["precision"]),
    "recall": lambda measured: _percent(measured["recall"]),
    "f1": lambda measured: _percent(measured["f1"]),
    "rows": lambda measured: f"{measured['support']:,}",
}
_INCREASES: Columns = {
    "column": itemgetter("name"),
    "increase of the error": lambda column: figure(column["decrease"]),
    "± standard error": lambda column: figure(column["standard_error"]),
}
_IMPORTANCE: Columns = {
    "column": itemgetter("name"),
    "points of accuracy": lambda column: f"{100 * column['decrease']:.2f}",
    "± standard error": lambda column: f"{100 * column['standard_error']:.2f}",
}
