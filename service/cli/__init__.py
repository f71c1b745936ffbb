"""The command line: `svm-service serve`, what goes with it, and commands that call a service.

What a command needs is imported by the command, so that one that only calls a service is there at
once.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from service.cli.output import Json, Url

cli = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

PROCESSES, CALLS, DATA = "Run the service", "Call a service", "Look after the data"
InputFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Anything else of the job, such as solver.C=10 or stopping.duality_gap=1e-4.",
    ),
]
key_commands = typer.Typer(no_args_is_help=True)
cli.add_typer(key_commands, name="keys", rich_help_panel=PROCESSES)


def main() -> None:
    cli()


@cli.callback()
def about() -> None:
    """Train, keep and serve support vector machines over HTTP.

    The service is set up by environment variables, SVM_DATA_DIR for one; commands that call it
    find it by --url or SVM_URL, and send the key in SVM_API_KEY.

    Exit codes: 0 done, 1 it could not be done, 2 wrong usage or settings, 3 the service refused,
    4 a job failed or was canceled, 130 Ctrl+C.
    """


@cli.command(rich_help_panel=PROCESSES)
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 8000,
) -> None:
    """Run the API and its training workers until SIGTERM or Ctrl+C."""
    from service.cli import serving

    serving.serve(host, port)


@cli.command(rich_help_panel=PROCESSES)
def worker() -> None:
    """Train for a service on other machines, until SIGTERM or Ctrl+C.

    SVM_DASK_ADDRESS tells the scheduler. Everything else a worker needs to know stands in its own
    environment too, as for the service: the database, the files, and limits.
    """
    from service.cli import cluster

    cluster.worker()


@cli.command(rich_help_panel=PROCESSES)
def scheduler(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port.", min=1, max=65535)] = 8786,
) -> None:
    """Bring services and workers on several machines together, until SIGTERM or Ctrl+C.

    Whoever reaches the port can run programs as its user: keep it on a private network.
    """
    from service.cli import cluster

    cluster.scheduler(host, port)


@cli.command(rich_help_panel=CALLS)
def upload(
    file: InputFile,
    name: Annotated[str | None, typer.Option(help="A name for people.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of the labels, or `none`. Default: the last one.")
    ] = None,
    header: Annotated[
        str | None, typer.Option(help="CSV and TSV: present, absent, or auto.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="CSV and TSV: between cells.")] = None,
    media_type: Annotated[
        str | None, typer.Option(help="Format. Default: what the file's ending says.")
    ] = None,
    validate_only: Annotated[bool, typer.Option(help="Check the file, keep nothing.")] = False,
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
        "media_type": media_type,
        "validate_only": validate_only or None,
    }
    calling.upload(url, file, as_json, options)


@cli.command(rich_help_panel=CALLS)
def train(
    model: Annotated[str, typer.Argument(help="The model that gets a new version.")],
    dataset: Annotated[
        str | None, typer.Option(help="Id of a dataset. Default: the one uploaded last.")
    ] = None,
    solver: Annotated[str | None, typer.Option(help="Default: auto, by the data.")] = None,
    scaling: Annotated[str | None, typer.Option(help="Such as standardize or max-abs.")] = None,
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


@cli.command(rich_help_panel=CALLS)
def watch(
    job: Annotated[str, typer.Argument(help="Id of a job.")], url: Url = None, as_json: Json = False
) -> None:
    """Follow a job to its end."""
    from service.cli import calling

    calling.watch(url, job, as_json)


@cli.command(rich_help_panel=CALLS)
def predict(
    model: Annotated[str, typer.Argument(help="Such as iris, iris/3 or iris/champion.")],
    file: InputFile,
    output: Annotated[
        list[str], typer.Option(help="label, decision or probability; may be given several times.")
    ] = ["label"],  # noqa: B006  (never changed)
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a file; prints CSV."""
    from service.cli import calling

    calling.predict(url, model, file, output, as_json)


@cli.command(rich_help_panel=CALLS)
def compare(
    solver: Annotated[list[str], typer.Option(help="Name of a solver; give several.")],
    c: Annotated[list[float] | None, typer.Option("--c", help="C of each; give several.")] = None,
    dataset: Annotated[str, typer.Option(help="Id, or `latest`.")] = "latest",
    scaling: Annotated[str | None, typer.Option(help="Such as standardize or max-abs.")] = None,
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


@cli.command(rich_help_panel=CALLS)
def export(
    model: Annotated[str, typer.Argument(help="Such as iris, iris/3 or iris/champion.")],
    file: Annotated[Path, typer.Argument(dir_okay=False, help=".onnx, .npz, .json or .joblib.")],
    url: Url = None,
) -> None:
    """Save a version of a model for other programs."""
    from service.cli import calling

    calling.export(url, model, file)


@cli.command("import", rich_help_panel=CALLS)
def import_model(
    model: Annotated[str, typer.Argument(help="The model that gets a new version.")],
    file: InputFile,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Keep a model that was exported as JSON or NPZ."""
    from service.cli import calling

    calling.import_model(url, model, file, as_json)


@cli.command(rich_help_panel=CALLS)
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
    from service.cli import calling

    if alias is not None:
        calling.set_alias(url, name, alias)
    calling.models(url, name, as_json)


@cli.command(rich_help_panel=DATA)
def migrate() -> None:
    """Bring the database to this version's schema."""
    from service.cli import operating

    operating.migrate()


@cli.command(rich_help_panel=DATA)
def backup(
    file: Annotated[Path, typer.Argument(help="A new tar archive.", dir_okay=False)],
    as_json: Json = False,
) -> None:
    """Save all data in one file, while the service runs."""
    from service.cli import operating

    operating.backup(file, as_json)


@cli.command(rich_help_panel=DATA)
def restore(file: InputFile, as_json: Json = False) -> None:
    """Fill an empty data directory, or database and file store, from a backup."""
    from service.cli import operating

    operating.restore_backup(file, as_json)


@cli.command(rich_help_panel=DATA)
def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Read every file; takes a while.")] = False,
    port: Annotated[int, typer.Option(help="Port that `serve` shall listen on.")] = 8000,
    as_json: Json = False,
) -> None:
    """Look at everything that the service needs, and say what to mend."""
    from service.cli import examining

    examining.doctor(deep, port, as_json)


class KeyScope(StrEnum):
    """`web.keys.Scope`, for the command line."""

    READ = "read"
    PREDICT = "predict"
    TRAIN = "train"
    ADMIN = "admin"


@key_commands.callback()
def about_keys() -> None:
    """Make, list and revoke API keys, while the service runs or not."""


@key_commands.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="Of the caller; rates and queue are its own.")],
    scope: Annotated[
        list[KeyScope], typer.Option(help="What it may do; can be given again. admin is all.")
    ],
    requests_per_s: Annotated[
        float | None, typer.Option(help="Most requests a second.", min=0.001)
    ] = None,
) -> None:
    """Make a key and print it. It is stored hashed: it cannot be shown again."""
    from service.cli import keys

    keys.create(name, [each.value for each in scope], requests_per_s)


@key_commands.command("list")
def list_keys() -> None:
    """List all keys, revoked ones too; never the keys themselves."""
    from service.cli import keys

    keys.show()


@key_commands.command("revoke")
def revoke_key(key: Annotated[str, typer.Argument(help="Its name or its id.")]) -> None:
    """Let a key count no more. A running service notices within a second or two."""
    from service.cli import keys

    keys.revoke(key)
