"""Commands that call a service: upload, train, predict and more."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from service.cli.output import caller, errors_reported, print_json, print_table, say
from service.cli.showing import (
    ENTRY_COLUMNS,
    entry_cells,
    print_dataset,
    print_evaluation,
    print_job,
)
from service.client import Job

DEFAULT_SOLVER = "auto"


def upload(
    url: str | None, file: Path, labels: Path | None, as_json: bool, options: Mapping[str, Any]
) -> None:
    name = options["name"] or file.name
    with errors_reported(as_json), caller(url) as client:
        progress_bar = False if as_json else None
        dataset = client.upload(
            file, labels, progress_bar=progress_bar, **{**options, "name": name}
        )
        if as_json:
            print_json(dataset.data)
            return
        print_dataset(dataset)
        if dataset.name != name:
            named = f"named {dataset.name}" if dataset.name else "without a name"
            print(f"  note: the same data exist already, {named}")


def train(
    url: str | None,
    spec: Path | None,
    settings: Sequence[str],
    given: Mapping[str, Any],
    watch: bool,
    as_json: bool,
) -> None:
    with errors_reported(as_json), caller(url) as client:
        job = spec_of(spec, settings, given)
        dataset = job.pop("dataset_id", "latest")
        solver = job.pop("solver", {})
        if isinstance(solver, Mapping):
            solver = {"name": DEFAULT_SOLVER, **solver}
        _follow(client.train(dataset, job.pop("model_name"), solver, **job), watch, as_json)


def watch(url: str | None, job_id: str, as_json: bool) -> None:
    with errors_reported(as_json), caller(url) as client:
        _follow(client.job(job_id), True, as_json)


def cancel(url: str | None, job_id: str, keep_model: bool, as_json: bool) -> None:
    with errors_reported(as_json), caller(url) as client:
        job = client.job(job_id).cancel(keep_model=keep_model)
        print_json(job.data) if as_json else print_job(job)


def predict(url: str | None, model: str, rows: Path, outputs: Sequence[str], as_json: bool) -> None:
    with errors_reported(as_json), caller(url) as client:
        if "explanation" in outputs and not as_json:
            raise ValueError("an explanation is not a table: add --json")
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


def evaluate(url: str | None, model: str, dataset: str, as_json: bool) -> None:
    with errors_reported(as_json), caller(url) as client:
        job = client.evaluate(dataset, model)
        _wait(job, as_json)
        results = job.results()
    print_json(results) if as_json else print_evaluation(results)


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
    with errors_reported(as_json), caller(url) as client:
        options = spec_of(None, settings, {"scaling": scaling, "model_name": model})
        grid = {"solver": list(solvers), "C": list(costs)} if costs else {"solver": list(solvers)}
        job = client.compare(dataset, grid=grid, **options)
        _wait(job, as_json)
        results = job.results()
    if as_json:
        print_json(results)
        return
    print_table(ENTRY_COLUMNS, map(entry_cells, results["entries"]))
    if results["model"]:
        print(f"the best is {results['model']['name']}/{results['model']['version']}")


def export(url: str | None, model: str, file: Path) -> None:
    with errors_reported(False), caller(url) as client:
        name, _, reference = model.partition("/")
        if not reference.isdecimal():
            aliases = client.model(name)
            known = {"latest": aliases.latest_version, **aliases.aliases}
            version = known.get(reference or ("default" if "default" in known else "latest"))
            if version is None:
                raise ValueError(f"{model}: {name} has no such alias")
            reference = str(version)
        client.model_version(name, int(reference)).export(file)
        say(f"{name}/{reference} saved as {file}")


def import_model(url: str | None, model: str, file: Path, as_json: bool) -> None:
    with errors_reported(as_json), caller(url) as client:
        version = client.import_model(model, file)
    print_json(version.data) if as_json else print(f"{version.name}/{version.version}")


def _follow(job: Job, watch: bool, as_json: bool) -> None:
    if watch:
        _wait(job, as_json)
    if as_json:
        print_json(job.data)
        return
    print_job(job)
    if not job.ended:
        say(f"follow it with: svm-service watch {job.id}")


def _wait(job: Job, as_json: bool) -> None:
    try:
        job.wait(progress_bar=False if as_json else None)
    except KeyboardInterrupt:
        say(f"the job continues; watch it with: svm-service watch {job.id}")
        raise


def spec_of(file: Path | None, settings: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """A job from a file, then options, then `name.part=value` settings; later ones win.

    Raises ValueError for a file without a JSON object, and a setting without `=`.
    """
    spec: dict[str, Any] = {}
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        try:
            spec = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{file}: not JSON: {error}") from None
        if not isinstance(spec, dict):
            raise ValueError(f"{file}: not a JSON object")
    for name, value in given.items():
        if value is not None:
            _put(spec, name.split("."), value)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting}: write name=value, such as solver.C=10")
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
