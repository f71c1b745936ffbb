"""Commands that train, predict and compare by calling a service."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.output import InputFile, Json, Url, connected, print_json, say
from service.cli.showing import (
    print_comparison,
    print_evaluation,
    print_event,
    print_job,
    print_plan,
    print_predictions,
)

if TYPE_CHECKING:
    from service.client import Job

CALLS = "Call a service"
DEFAULT_SOLVER = "auto"
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other field of the request, such as solver.C=10 or stopping.duality_gap=1e-4.",
    ),
]
ModelReference = Annotated[str, typer.Argument(help="Such as iris, iris/3 or iris/champion.")]
NewVersionOf = Annotated[str, typer.Argument(help="Name of the model that gets a new version.")]
DatasetId = Annotated[str, typer.Option(help="Id of a dataset, or `latest`.")]
Scaling = Annotated[str | None, typer.Option(help="Such as standardize or max-abs.")]
client_commands = typer.Typer()


def _job_id(text: str) -> str:
    if not re.fullmatch("job_[0-9a-f]{32}", text):
        raise typer.BadParameter(
            f"{text!r} is not the id of a job: job_ and 32 hexadecimal digits; "
            "`svm-service jobs` lists them"
        )
    return text


JobId = Annotated[str, typer.Argument(help="Id of a job.", callback=_job_id)]


@client_commands.command(rich_help_panel=CALLS)
def train(
    model: NewVersionOf,
    dataset: Annotated[
        str | None, typer.Option(help="Id of a dataset. Default: the last upload.")
    ] = None,
    solver: Annotated[str | None, typer.Option(help="Default: auto, chosen by the data.")] = None,
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
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Train a model; with --watch, show the progress."""
    given = {
        "dataset_id": dataset,
        "model_name": model,
        "solver.name": solver,
        "scaling": scaling,
        "validation.fraction": validation,
        "seed": seed,
    }
    with connected(url, as_json) as client:
        job = spec_of(spec, settings or [], given)
        on = job.pop("dataset_id", "latest")
        by = job.pop("solver", {})
        if isinstance(by, Mapping):
            by = {"name": DEFAULT_SOLVER, **by}
        named = job.pop("model_name")
        if not validate_only:
            _follow(client.train(on, named, by, **job), watch, as_json)
            return
        plan = client.plan(on, named, by, **job)
    print_json(plan) if as_json else print_plan(plan)


@client_commands.command(rich_help_panel=CALLS)
def watch(job: JobId, url: Url = None, as_json: Json = False) -> None:
    """Show the progress of a job until it ends."""
    with connected(url, as_json) as client:
        _follow(client.job(job), True, as_json)


@client_commands.command(rich_help_panel=CALLS)
def cancel(
    job: JobId,
    keep_model: Annotated[
        bool, typer.Option("--keep-model", help="Keep the model trained so far as a version.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Cancel a job that is queued, running or paused."""
    with connected(url, as_json) as client:
        canceled = client.job(job).cancel(keep_model=keep_model)
    print_json(canceled.data) if as_json else print_job(canceled)


@client_commands.command(rich_help_panel=CALLS)
def pause(job: JobId, url: Url = None, as_json: Json = False) -> None:
    """Checkpoint a job and free its worker."""
    with connected(url, as_json) as client:
        paused = client.job(job).pause()
    print_json(paused.data) if as_json else print_job(paused)


@client_commands.command(rich_help_panel=CALLS)
def resume(job: JobId, url: Url = None, as_json: Json = False) -> None:
    """Continue a paused job from its checkpoint."""
    with connected(url, as_json) as client:
        resumed = client.job(job).resume()
    print_json(resumed.data) if as_json else print_job(resumed)


@client_commands.command(rich_help_panel=CALLS)
def logs(
    job: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for further events until the job ends.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print the events of a job, the oldest first; with --json one object per line."""
    with connected(url, as_json) as client:
        of = client.job(job)
        for event in of.events() if follow else of.past_events():
            print_event(event, as_json)


@client_commands.command(rich_help_panel=CALLS)
def predict(
    model: ModelReference,
    file: InputFile,
    output: Annotated[
        list[str], typer.Option(help="label, decision or probability; can be repeated.")
    ] = ["label"],  # noqa: B006  (never changed)
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a file and print CSV."""
    with connected(url, as_json) as client:
        if "explanation" in output and not as_json:
            raise ValueError("an explanation is not a table: add --json")
        answer = client.predict(model, file, output)
        print_json(answer) if as_json else print_predictions(answer, output)


@client_commands.command(rich_help_panel=CALLS)
def evaluate(
    model: ModelReference,
    dataset: DatasetId = "latest",
    importance: Annotated[
        bool,
        typer.Option("--importance", help="Also how much the accuracy depends on each column."),
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Measure a model on labeled data: accuracy, recall, ROC."""
    with connected(url, as_json) as client:
        job = client.evaluate(dataset, model, importance=importance)
        _wait(job, as_json)
        results = job.results()
    print_json(results) if as_json else print_evaluation(results)


@client_commands.command(rich_help_panel=CALLS)
def compare(
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
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Train with several solvers and values of C, and rank them on a validation set."""
    with connected(url, as_json) as client:
        options = spec_of(None, settings or [], {"scaling": scaling, "model_name": model})
        job = client.compare(dataset, grid={"solver": solver} | ({"C": c} if c else {}), **options)
        _wait(job, as_json)
        results = job.results()
    print_json(results) if as_json else print_comparison(results)


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
