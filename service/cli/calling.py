"""Commands that call a service: upload, train, watch, predict, and a look at the models."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from service.cli.output import print_fields, print_json, print_table, problems_told, say
from service.client import Client, Dataset, Job, ModelVersion, Retries

DEFAULT_SOLVER = "auto"


def upload(url: str | None, file: Path, as_json: bool, options: Mapping[str, Any]) -> None:
    with problems_told(as_json), _client(url) as client:
        dataset = client.upload(file, progress_bar=False if as_json else None, **options)
        print_json(dataset.data) if as_json else _print_dataset(dataset)


def train(
    url: str | None,
    spec: Path | None,
    settings: Sequence[str],
    given: Mapping[str, Any],
    watch: bool,
    as_json: bool,
) -> None:
    with problems_told(as_json), _client(url) as client:
        job = spec_of(spec, settings, given)
        dataset = job.pop("dataset_id", "latest")
        solver = {"name": DEFAULT_SOLVER, **job.pop("solver", {})}
        _follow(client.train(dataset, job.pop("model_name"), solver, **job), watch, as_json)


def watch(url: str | None, job_id: str, as_json: bool) -> None:
    with problems_told(as_json), _client(url) as client:
        _follow(client.job(job_id), True, as_json)


def predict(url: str | None, model: str, rows: Path, outputs: Sequence[str], as_json: bool) -> None:
    with problems_told(as_json), _client(url) as client:
        answer = client.predict(model, rows, outputs)
    if as_json:
        print_json(answer)
        return
    names: list[str] = []
    columns: list[Sequence[Any]] = []
    for name in outputs:
        values = answer[name]
        if isinstance(values[0], list):
            names += [f"{name}:{label}" for label in answer["classes"]]
            columns += list(zip(*values, strict=True))
        else:
            names.append(name)
            columns.append(values)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))


def compare(
    url: str | None,
    dataset: str,
    solvers: Sequence[str],
    costs: Sequence[float],
    scaling: str | None,
    model: str | None,
    settings: Sequence[str],
    as_json: bool,
) -> None:
    with problems_told(as_json), _client(url) as client:
        options = spec_of(None, settings, {"scaling": scaling, "model_name": model})
        grid = {"solver": list(solvers), "C": list(costs)} if costs else {"solver": list(solvers)}
        job = client.compare(dataset, grid=grid, **options)
        _wait(job, as_json)
        found = job.results()
    if as_json:
        print_json(found)
        return
    print_table(_ENTRY_COLUMNS, map(_entry_cells, found["entries"]))
    if found["model"]:
        print(f"the best is {found['model']['name']}/{found['model']['version']}")


def export(url: str | None, model: str, file: Path) -> None:
    with problems_told(False), _client(url) as client:
        name, _, which = model.partition("/")
        if not which.isdecimal():
            found = client.model(name)
            known = {"latest": found.latest_version, **found.aliases}
            version = known.get(which or ("default" if "default" in known else "latest"))
            if version is None:
                raise ValueError(f"{model}: {name} has no such alias")
            which = str(version)
        client.model_version(name, int(which)).export(file)
        say(f"{name}/{which} saved as {file}")


def import_model(url: str | None, model: str, file: Path, as_json: bool) -> None:
    with problems_told(as_json), _client(url) as client:
        version = client.import_model(model, file)
    print_json(version.data) if as_json else print(f"{version.name}/{version.version}")


def models(url: str | None, name: str | None, as_json: bool) -> None:
    with problems_told(as_json), _client(url) as client:
        if name is not None:
            versions = list(client.model(name).versions())
            if as_json:
                print_json({"versions": [version.data for version in versions]})
            else:
                print_table(_VERSION_COLUMNS, map(_version_cells, versions))
            return
        found = list(client.models())
        if as_json:
            print_json({"models": [model.data for model in found]})
        else:
            cells = ((m.name, m.latest_version, _pairs(m.aliases), m.created_at) for m in found)
            print_table(("model", "latest", "aliases", "created"), cells)


def set_alias(url: str | None, name: str | None, alias: str) -> None:
    with problems_told(False), _client(url) as client:
        if name is None:
            raise ValueError("say which model the alias is of")
        which, _, version = alias.partition("=")
        if not version.isdecimal():
            raise ValueError(f"{alias}: say ALIAS=VERSION, such as champion=3")
        client.model(name).set_alias(which, int(version))


def _client(url: str | None) -> Client:
    """A person waits: a service that is not there is told soon."""
    return Client(url, retries=Retries(times=2))


def _follow(job: Job, watch: bool, as_json: bool) -> None:
    if watch:
        _wait(job, as_json)
    if as_json:
        print_json(job.data)
    else:
        _print_job(job)


def _wait(job: Job, as_json: bool) -> None:
    try:
        job.wait(progress_bar=False if as_json else None)
    except KeyboardInterrupt:
        say(f"the job goes on; see it again with: svm-service watch {job.id}")
        raise


def _print_dataset(dataset: Dataset) -> None:
    counts = zip(dataset.classes or (), dataset.class_counts or (), strict=False)
    print_fields(
        f"{dataset.id}  {dataset.name or ''}".rstrip(),
        {
            "rows": f"{dataset.n_samples:,}",
            "features": f"{dataset.n_features:,}" + (", sparse" if dataset.sparse else ""),
            "classes": ", ".join(f"{label} ({count:,})" for label, count in counts) or None,
        },
    )
    for warning in dataset.warnings:
        print(f"  note: {warning['message']}")


def _print_job(job: Job) -> None:
    model = job.model and f"{job.model['name']}/{job.model['version']}"
    print_fields(
        f"{job.id}  {job.state}",
        {
            "model": model,
            "ended": job.stop_reason and f"{job.stop_reason} after {job.elapsed_s:.3g} s",
            "certificate": _certificate(job.certificate),
            **{f"{part} accuracy": acc for part, acc in _accuracies(job.metrics).items()},
        },
    )
    for warning in job.warnings:
        print(f"  note: {warning}")


def _certificate(certificate: Mapping[str, Any] | None) -> str | None:
    gap = (certificate or {}).get("relative_gap")
    return None if gap is None else f"within {100 * gap:.2g} % of the best possible"


def _accuracies(metrics: Mapping[str, Any] | None) -> dict[str, str]:
    return {
        part: f"{100 * values['accuracy']:.2f} %"
        for part, values in (metrics or {}).items()
        if "accuracy" in values
    }


_ENTRY_COLUMNS = ("rank", "solver", "λ or C", "score", "gap", "epochs", "seconds", "")


def _entry_cells(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    solver, gap = entry["spec"]["solver"], (entry["certificate"] or {}).get("relative_gap")
    weight = [f"{name} = {solver[name]:g}" for name in ("lambda", "C") if solver.get(name)]
    return (
        entry["rank"],
        solver["name"],
        ", ".join(weight),
        None if entry["score"] is None else f"{100 * entry['score']:.2f} %",
        None if gap is None else f"{100 * gap:.2g} %",
        entry["epochs"],
        None if entry["elapsed_s"] is None else f"{entry['elapsed_s']:.3g}",
        (entry["error"] or {}).get("detail"),
    )


_VERSION_COLUMNS = ("version", "solver", "accuracy", "gap", "size", "created")


def _version_cells(version: ModelVersion) -> tuple[Any, ...]:
    accuracies = _accuracies(version.metrics)
    gap = version.certificate.get("relative_gap")
    return (
        version.version,
        version.spec.get("solver", {}).get("name"),
        accuracies.get("validation") or accuracies.get("train"),
        None if gap is None else f"{100 * gap:.2g} %",
        f"{version.size_bytes:,}",
        version.created_at,
    )


def _pairs(aliases: Mapping[str, int]) -> str:
    return ", ".join(f"{alias} = {version}" for alias, version in sorted(aliases.items()))


def spec_of(file: Path | None, settings: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """A job: what a file says, then what options say, then `name.part=value` settings.

    Raises ValueError for a file that holds no JSON object, and a setting without `=`.
    """
    spec: dict[str, Any] = {}
    if file is not None:
        spec = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text())
        if not isinstance(spec, dict):
            raise ValueError(f"{file}: not a JSON object")
    for name, value in given.items():
        if value is not None:
            _put(spec, name.split("."), value)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting}: say name=value, such as solver.C=10")
        _put(spec, name.split("."), _value(text))
    return spec


def _put(spec: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        inner = spec.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{'.'.join(path)}: {name} is {inner!r} already")
        spec = inner
    spec[path[-1]] = value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
