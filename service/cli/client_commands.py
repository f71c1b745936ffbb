"""The commands that call a service: what they take.

What a command needs is imported by the command, so that it is there at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.output import InputFile, Json, Url

CALLS = "Call a service"
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Anything else of the job, such as solver.C=10 or stopping.duality_gap=1e-4.",
    ),
]
ModelReference = Annotated[str, typer.Argument(help="Such as iris, iris/3 or iris/champion.")]
NewVersionOf = Annotated[str, typer.Argument(help="The model that gets a new version.")]
JobId = Annotated[str, typer.Argument(help="Id of a job.")]
DatasetId = Annotated[str, typer.Option(help="Id, or `latest`.")]
Scaling = Annotated[str | None, typer.Option(help="Such as standardize or max-abs.")]
Limit = Annotated[int, typer.Option(min=1, help="At most so many, the newest ones.")]
client_commands = typer.Typer()


@client_commands.command(rich_help_panel=CALLS)
def upload(
    file: InputFile,
    labels: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="File of the labels, if not in FILE: one a line."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="A name for people. Default: that of the file.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of the labels, or `none`. Default: the last one.")
    ] = None,
    header: Annotated[
        str | None, typer.Option(help="CSV and TSV: present, absent, or auto.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="CSV and TSV: between cells.")] = None,
    index_base: Annotated[
        int | None, typer.Option(help="LIBSVM: index of the first feature, 1 (default) or 0.")
    ] = None,
    n_features: Annotated[
        int | None, typer.Option(help="Columns there shall be; of LIBSVM the last may be empty.")
    ] = None,
    media_type: Annotated[
        str | None,
        typer.Option(help="Format, such as text/csv. Default: what the file's ending says."),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the file, keep nothing.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Upload a file of data: CSV, TSV, JSON, NDJSON, LIBSVM, NPY, NPZ or Parquet."""
    from service.cli import calling

    options = {
        "name": name,
        "target": target,
        "header": header,
        "delimiter": delimiter,
        "index_base": index_base,
        "n_features": n_features,
        "media_type": media_type,
        "validate_only": validate_only or None,
    }
    calling.upload(url, file, labels, as_json, options)


@client_commands.command(rich_help_panel=CALLS)
def train(
    model: NewVersionOf,
    dataset: Annotated[
        str | None, typer.Option(help="Id of a dataset. Default: the one uploaded last.")
    ] = None,
    solver: Annotated[str | None, typer.Option(help="Default: auto, by the data.")] = None,
    scaling: Scaling = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the rows to measure the model on.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides every random choice.")] = None,
    settings: Settings = None,
    spec: Annotated[
        Path | None, typer.Option(help="JSON of a job; `-` reads it from standard input.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow it to its end.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Train a model; with --watch, see it converge."""
    from service.cli import calling

    given = {
        "dataset_id": dataset,
        "model_name": model,
        "solver.name": solver,
        "scaling": scaling,
        "validation.fraction": validation,
        "seed": seed,
    }
    calling.train(url, spec, settings or [], given, watch, as_json)


@client_commands.command(rich_help_panel=CALLS)
def watch(job: JobId, url: Url = None, as_json: Json = False) -> None:
    """Follow a job to its end."""
    from service.cli import calling

    calling.watch(url, job, as_json)


@client_commands.command(rich_help_panel=CALLS)
def cancel(
    job: JobId,
    keep_model: Annotated[
        bool, typer.Option("--keep-model", help="Keep what was learnt so far as a version.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """End a job that waits or runs."""
    from service.cli import calling

    calling.cancel(url, job, keep_model, as_json)


@client_commands.command(rich_help_panel=CALLS)
def predict(
    model: ModelReference,
    file: InputFile,
    output: Annotated[
        list[str], typer.Option(help="label, decision or probability; give several.")
    ] = ["label"],  # noqa: B006  (never changed)
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a file; prints CSV."""
    from service.cli import calling

    calling.predict(url, model, file, output, as_json)


@client_commands.command(rich_help_panel=CALLS)
def evaluate(
    model: ModelReference,
    dataset: DatasetId = "latest",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Hold a model against labelled data: accuracy, recall, ROC."""
    from service.cli import calling

    calling.evaluate(url, model, dataset, as_json)


@client_commands.command(rich_help_panel=CALLS)
def compare(
    solver: Annotated[list[str], typer.Option(help="Name of a solver; give several.")],
    c: Annotated[list[float] | None, typer.Option("--c", help="C of each; give several.")] = None,
    dataset: DatasetId = "latest",
    scaling: Scaling = None,
    model: Annotated[
        str | None, typer.Option(help="Keep the best one as a version of this model.")
    ] = None,
    settings: Settings = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Train with several solvers and costs, and rank them on rows held back."""
    from service.cli import calling

    calling.compare(url, dataset, solver, c or [], scaling, model, settings or [], as_json)


@client_commands.command(rich_help_panel=CALLS)
def export(
    model: ModelReference,
    file: Annotated[Path, typer.Argument(dir_okay=False, help=".onnx, .npz, .json or .joblib.")],
    url: Url = None,
) -> None:
    """Save a version of a model for other programs."""
    from service.cli import calling

    calling.export(url, model, file)


@client_commands.command("import", rich_help_panel=CALLS)
def import_model(
    model: NewVersionOf,
    file: InputFile,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Keep a model that was exported as JSON or NPZ."""
    from service.cli import calling

    calling.import_model(url, model, file, as_json)


@client_commands.command(rich_help_panel=CALLS)
def datasets(limit: Limit = 20, url: Url = None, as_json: Json = False) -> None:
    """List the datasets, the newest first."""
    from service.cli import listing

    listing.datasets(url, limit, as_json)


@client_commands.command(rich_help_panel=CALLS)
def jobs(
    state: Annotated[str | None, typer.Option(help="Only those that are so: running, …")] = None,
    limit: Limit = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the jobs, the newest first."""
    from service.cli import listing

    listing.jobs(url, state, limit, as_json)


@client_commands.command(rich_help_panel=CALLS)
def models(
    name: Annotated[str | None, typer.Argument(help="Show the versions of this model.")] = None,
    alias: Annotated[
        str | None,
        typer.Option(metavar="ALIAS=VERSION", help="Let an alias of the model be this version."),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the models, or the versions of one."""
    from service.cli import listing

    if alias is not None:
        listing.set_alias(url, name, alias)
    listing.models(url, name, as_json)
