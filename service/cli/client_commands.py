"""Commands that upload, train, predict and compare by calling a service."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli import completion, showing
from service.cli.output import (
    Call,
    InputFile,
    Json,
    calls_service,
    say,
    service_commands,
    with_options,
)

if TYPE_CHECKING:
    from service.client import Job

DEFAULT_SOLVER = "auto"
CHECKS = "Without a service"
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other field of the request, such as solver.C=10 or stopping.duality_gap=1e-4.",
    ),
]
ModelReference = Annotated[
    str,
    typer.Argument(help="Such as iris, iris/3 or iris/champion.", autocompletion=completion.models),
]
NewVersionOf = Annotated[
    str,
    typer.Argument(
        help="Name of the model that gets a new version.", autocompletion=completion.models
    ),
]
DatasetId = Annotated[
    str,
    typer.Option(help="Id or name of a dataset, or `latest`.", autocompletion=completion.datasets),
]
Scaling = Annotated[
    str | None, typer.Option(help="Default: standardize, of sparse data none or max-abs.")
]
LabelFile = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="Labels, if they are not in FILE: one per line."
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="Label column, or `none`. Default: by its name, such as label, else the last one."
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        help='What columns are: {"age": {"kind": "category"}}, or @FILE with such JSON. Kinds: '
        "number, category, boolean, date, text; roles: feature, label, weight, "
        "group, time, ignored."
    ),
]
Missing = Annotated[
    list[str] | None, typer.Option(help="A further word for missing cells; can be repeated.")
]
_TEXT = "CSV and TSV"


def _option(help: str, kind: type = str, *names: str) -> tuple[Any, Any]:
    return kind | None, typer.Option(None, *names, help=help)


_READING = {
    "weight": _option("Column with the weights of the rows."),
    "group": _option("Column with their groups: patients, users, sessions."),
    "time": _option("Column with their times: dates or numbers."),
    "missing_labels": _option(
        "Rows without a label: drop, refuse, or auto: leave them out if they are few."
    ),
    "header": _option(f"{_TEXT}, XLSX: present, absent, or auto."),
    "delimiter": _option(
        f"{_TEXT}: the character between cells, or comma, semicolon, tab, bar, space."
    ),
    "encoding": _option(f"{_TEXT}: such as windows-1251, shift_jis or mac-roman."),
    "decimal": _option(f"{_TEXT}: the decimal mark, a point or a comma."),
    "thousands": _option(f"{_TEXT}: none, if thousands are not separated."),
    "odd_cells": _option("Tables: missing or refuse, a few words in a column of numbers or dates."),
    "dayfirst": _option(
        f"{_TEXT}: what comes first in dates as 01/02/2024.", bool, "--dayfirst/--monthfirst"
    ),
    "sheet": _option("XLSX, XLS, ODS: the sheet. Default: the first one with a table."),
    "dense": _option("LIBSVM: always, never, or auto: if half of the values are not 0."),
    "index_base": _option("LIBSVM: index of the first feature, 1 (default) or 0.", int),
    "n_features": _option("Number of features; of LIBSVM the last can be empty.", int),
}
"""Options of an upload that are sent as they are."""


def _job_id(text: str) -> str:
    if not re.fullmatch("job_[0-9a-f]{32}", text):
        raise typer.BadParameter(
            f"{text!r} is not the id of a job: job_ and 32 hexadecimal digits; "
            "`svm-service jobs` lists them"
        )
    return text


JobId = Annotated[
    str, typer.Argument(help="Id of a job.", callback=_job_id, autocompletion=completion.jobs)
]


@calls_service(sent=_READING)
def upload(
    call: Call,
    file: InputFile,
    labels: LabelFile = None,
    name: Annotated[
        str | None, typer.Option(help="A name for people. Default: the file's name.")
    ] = None,
    target: Target = None,
    schema: Schema = None,
    missing: Missing = None,
    media_type: Annotated[
        str | None,
        typer.Option(help="Format, such as text/csv. Default: by the file's suffix."),
    ] = None,
    validate_only: Annotated[
        bool,
        typer.Option("--validate-only", help="Show how the file would be read, store nothing."),
    ] = False,
    **reading: Any,
) -> None:
    """Upload a dataset: CSV, TSV, JSON, NDJSON, LIBSVM, NPY, NPZ, Parquet, Arrow, XLSX, XLS or ODS.

    The file may also be in a zip file of its own, or compressed by gzip, bzip2, xz or zstd. If its
    name does not say the format, as that of `a9a`, its contents do.
    """
    named = name or file.name
    dataset = call.client.upload(
        file,
        labels,
        media_type=media_type,
        progress_bar=False if call.as_json else None,
        name=named,
        target=target,
        schema=_schema(schema),
        missing=missing or None,
        validate_only=validate_only or None,
        **reading,
    )
    call.show(dataset, showing.print_proposal if validate_only else showing.print_dataset)
    if not (call.as_json or validate_only or dataset.name == named):
        other = f"named {dataset.name}" if dataset.name else "without a name"
        print(f"  note: the same data exist already, {other}")


def check(
    file: InputFile,
    labels: LabelFile = None,
    target: Target = None,
    schema: Schema = None,
    missing: Missing = None,
    as_json: Json = False,
    **reading: Any,
) -> None:
    """Look for leaks in a file, without a service: what says the label, and rows that repeat.

    Prints how the file would be read, warnings and findings. Exit code 1 if the file would be
    refused, or a finding is an error.
    """
    from service.cli import checking

    words = ",".join(missing or ()) or None
    schema = _schema(schema)
    options = {"target": target, "schema": schema, "missing": words, **reading}
    checking.check(file, labels, options, as_json)


check.__signature__ = with_options(check, _READING)  # type: ignore[attr-defined]
service_commands.command(rich_help_panel=CHECKS)(check)


@calls_service()
def train(
    call: Call,
    model: NewVersionOf,
    dataset: Annotated[
        str | None, typer.Option(help="Id or name of a dataset. Default: the last upload.")
    ] = None,
    solver: Annotated[
        str | None, typer.Option(help="Default: auto, which finds what suits the data.")
    ] = None,
    scaling: Scaling = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the rows for the validation set.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices.")] = None,
    settings: Settings = None,
    spec: Annotated[
        Path | None, typer.Option(help="File with the JSON of a job; `-` is standard input.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show progress until its end.")
    ] = False,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Show what it would cost, queue nothing.")
    ] = False,
) -> None:
    """Train a model; with --watch, show the progress."""
    _refuse_file(model)
    given = {
        "dataset_id": dataset,
        "model_name": model,
        "solver.name": solver,
        "scaling": scaling,
        "validation.fraction": validation,
        "seed": seed,
    }
    job = spec_of(spec, settings or [], given)
    on = job.pop("dataset_id", None)
    on = (
        call.dataset_id(on)
        if isinstance(on, str)
        else on or _last_upload(call, model, job.get("classes"))
    )
    by = job.pop("solver", {})
    if isinstance(by, Mapping):
        by = {"name": DEFAULT_SOLVER, **by}
    named = job.pop("model_name")
    if validate_only:
        call.show(call.client.plan(on, named, by, **job), showing.print_plan)
    else:
        _follow(call, call.client.train(on, named, by, **job), watch)


@calls_service()
def watch(call: Call, job: JobId) -> None:
    """Show the progress of a job until it ends."""
    _follow(call, call.client.job(job), True)


@calls_service()
def cancel(
    call: Call,
    job: JobId,
    keep_model: Annotated[
        bool, typer.Option("--keep-model", help="Keep the model trained so far as a version.")
    ] = False,
) -> None:
    """Cancel a job that is queued, running or paused."""
    call.show(call.client.job(job).cancel(keep_model=keep_model), showing.print_job)


@calls_service()
def pause(call: Call, job: JobId) -> None:
    """Checkpoint a job and free its worker."""
    call.show(call.client.job(job).pause(), showing.print_job)


@calls_service()
def resume(call: Call, job: JobId) -> None:
    """Continue a paused job from its checkpoint."""
    call.show(call.client.job(job).resume(), showing.print_job)


@calls_service()
def logs(
    call: Call,
    job: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for further events until the job ends.")
    ] = False,
) -> None:
    """Print the events of a job, the oldest first; with --json one object per line."""
    of = call.client.job(job)
    for event in of.events() if follow else of.past_events():
        showing.print_event(event, call.as_json)


@calls_service()
def predict(
    call: Call,
    model: ModelReference,
    file: InputFile,
    output: Annotated[
        list[str] | None,
        typer.Option(
            help="label (the default), decision, probability or label_or_none; of a model of "
            "numbers value (the default) or interval; can be repeated."
        ),
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Of intervals: the share of new rows inside, such as 0.9.")
    ] = None,
    withheld: Annotated[
        float | None,
        typer.Option(help="Of label_or_none: the share of rows of known classes without a label."),
    ] = None,
) -> None:
    """Predict the rows of a file and print CSV."""
    if "explanation" in (output or ()) and not call.as_json:
        raise ValueError("an explanation is not a table: add --json")
    outputs = call.client.predict(model, file, output or [], coverage=coverage, withheld=withheld)
    answer = {
        name: one.tolist() if hasattr(one, "tolist") else one for name, one in outputs.items()
    }
    call.show(answer, showing.print_predictions)


@calls_service()
def evaluate(
    call: Call,
    model: ModelReference,
    dataset: DatasetId = "latest",
    importance: Annotated[
        bool,
        typer.Option("--importance", help="Also how much the accuracy depends on each column."),
    ] = False,
    leave_out_trained: Annotated[
        bool,
        typer.Option("--leave-out-trained", help="Without rows that are equal to training rows."),
    ] = False,
    validation_only: Annotated[
        bool,
        typer.Option("--validation-only", help="Only the rows that the training held out."),
    ] = False,
) -> None:
    """Measure a model on labeled data: accuracy, recall, ROC, or errors of numbers."""
    on = call.dataset_id(dataset)
    job = call.client.evaluate(
        model,
        on,
        importance=importance,
        leave_out_trained=leave_out_trained,
        validation_only=validation_only,
    )
    job = _wait(call, job)
    call.show(job.results(), showing.print_evaluation)


@calls_service()
def compare(
    call: Call,
    solver: Annotated[list[str], typer.Option(help="Name of a solver; can be repeated.")],
    c: Annotated[
        list[float] | None, typer.Option("--c", help="C of each; can be repeated.")
    ] = None,
    dataset: DatasetId = "latest",
    scaling: Scaling = None,
    model: Annotated[
        str | None, typer.Option(help="Keep the best model as a version of this one.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Train with several solvers and values of C, and rank them on a validation set."""
    options = spec_of(None, settings or [], {"scaling": scaling, "model_name": model})
    grid = {"solver": solver} | ({"C": c} if c else {})
    job = _wait(call, call.client.compare(call.dataset_id(dataset), grid=grid, **options))
    call.show(job.results(), showing.print_comparison)


def _last_upload(call: Call, model: str, classes: Sequence[Any] | None) -> str:
    """The id of the latest dataset, which is named on standard error, with a warning if its
    columns or classes, or those chosen of them, are not those of the model's latest version."""
    from service.client import NotFound

    dataset = call.client.dataset("latest")
    title = f"{dataset.name} ({dataset.id})" if dataset.name else dataset.id
    version = None
    with suppress(NotFound):
        version = next(call.client.model(model).versions(), None)
    if version is not None:
        names: list[str] = [one["name"] for one in dataset.columns or ()]
        differs = ""
        other_names = any(names) and version.columns not in (None, names)
        if other_names or version.n_features != dataset.n_features:
            differs = "columns"
        elif set(map(str, classes or dataset.classes or ())) != set(map(str, version.classes)):
            differs = "classes"
        if differs:
            say(
                f"warning: the last upload, {title}, has other {differs} than version "
                f"{version.version} of {model}; for another dataset, give --dataset"
            )
    say(f"trains on the last upload, {title}")
    return dataset.id


def _refuse_file(model: str) -> None:
    """Raises ValueError for a file in place of the name of a model; a valid name is never one."""
    from service.client.rows import MEDIA_TYPES

    path = Path(model)
    if path.suffix.lower() in MEDIA_TYPES or (path.is_file() and re.search("[^a-z0-9-]", model)):
        raise ValueError(
            f"{model} is the name of a file, not of a model; upload it first: "
            f"`svm-service upload {shlex.quote(model)}`, then `svm-service train NAME`"
        )


def _follow(call: Call, job: Job, watch: bool) -> None:
    if watch:
        _wait(call, job)
    call.show(job, showing.print_job)
    if not (call.as_json or job.ended):
        say(f"follow it with: svm-service watch {job.id}")


def _wait(call: Call, job: Job) -> Job:
    try:
        return job.wait(progress_bar=False if call.as_json else None)
    except KeyboardInterrupt:
        say(f"the job continues; watch it with: svm-service watch {job.id}")
        raise


def _schema(text: str | None) -> str | None:
    """The JSON of the option. Raises BadParameter."""
    if text is None or not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text()
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{text[1:]}: {error}", param_hint="--schema") from None


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
