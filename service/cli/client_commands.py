"""Arguments and options of the commands that call a service.

Commands import what they need when they run, so that they start fast.
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
        help="Any other field of the request, such as solver.C=10 or stopping.duality_gap=1e-4.",
    ),
]
ModelReference = Annotated[str, typer.Argument(help="Such as iris, iris/3 or iris/champion.")]
NewVersionOf = Annotated[str, typer.Argument(help="Name of the model that gets a new version.")]
JobId = Annotated[str, typer.Argument(help="Id of a job.")]
DatasetId = Annotated[str, typer.Option(help="Id of a dataset, or `latest`.")]
Scaling = Annotated[str | None, typer.Option(help="Such as standardize or max-abs.")]
Limit = Annotated[int, typer.Option(min=1, help="Number of entries, the newest first.")]
client_commands = typer.Typer()


@client_commands.command(rich_help_panel=CALLS)
def upload(
    file: InputFile,
    labels: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Labels, if they are not in FILE: one per line.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="A name for people. Default: the file's name.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Label column, or `none`. Default: the last one.")
    ] = None,
    header: Annotated[
        str | None, typer.Option(help="CSV and TSV: present, absent, or auto.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="CSV and TSV: the delimiter.")] = None,
    index_base: Annotated[
        int | None, typer.Option(help="LIBSVM: index of the first feature, 1 (default) or 0.")
    ] = None,
    n_features: Annotated[
        int | None,
        typer.Option(help="Number of features; of LIBSVM the last can be empty."),
    ] = None,
    media_type: Annotated[
        str | None,
        typer.Option(help="Format, such as text/csv. Default: by the file's suffix."),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check the file without storing it.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Upload a dataset: CSV, TSV, JSON, NDJSON, LIBSVM, NPY, NPZ or Parquet."""
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
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Train a model; with --watch, show the progress."""
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
    """Show the progress of a job until it ends."""
    from service.cli import calling

    calling.watch(url, job, as_json)


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
    from service.cli import calling

    calling.cancel(url, job, keep_model, as_json)


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
    from service.cli import calling

    calling.predict(url, model, file, output, as_json)


@client_commands.command(rich_help_panel=CALLS)
def evaluate(
    model: ModelReference,
    dataset: DatasetId = "latest",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Measure a model on labeled data: accuracy, recall, ROC."""
    from service.cli import calling

    calling.evaluate(url, model, dataset, as_json)


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
    from service.cli import calling

    calling.compare(url, dataset, solver, c or [], scaling, model, settings or [], as_json)


@client_commands.command(rich_help_panel=CALLS)
def export(
    model: ModelReference,
    file: Annotated[Path, typer.Argument(dir_okay=False, help=".onnx, .npz, .json or .joblib.")],
    url: Url = None,
) -> None:
    """Export a model version for other programs."""
    from service.cli import calling

    calling.export(url, model, file)


@client_commands.command("import", rich_help_panel=CALLS)
def import_model(
    model: NewVersionOf,
    file: InputFile,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Import a model that was exported as JSON or NPZ."""
    from service.cli import calling

    calling.import_model(url, model, file, as_json)


@client_commands.command(rich_help_panel=CALLS)
def datasets(limit: Limit = 20, url: Url = None, as_json: Json = False) -> None:
    """List the datasets, the newest first."""
    from service.cli import listing

    listing.datasets(url, limit, as_json)


@client_commands.command(rich_help_panel=CALLS)
def jobs(
    state: Annotated[str | None, typer.Option(help="A state such as running.")] = None,
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
        typer.Option(metavar="ALIAS=VERSION", help="Point an alias of the model to this version."),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the models, or the versions of one."""
    from service.cli import listing

    if alias is not None:
        listing.set_alias(url, name, alias)
    listing.models(url, name, as_json)
