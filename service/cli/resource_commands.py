"""Commands that list what a service has and who changed it, and export and import models."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.client_commands import CALLS, ModelReference, NewVersionOf
from service.cli.output import InputFile, Json, Url, connected, print_json, print_table, say
from service.cli.showing import (
    CHANGE_COLUMNS,
    DATASET_COLUMNS,
    JOB_COLUMNS,
    MODEL_COLUMNS,
    VERSION_COLUMNS,
    change_cells,
    dataset_cells,
    job_cells,
    model_cells,
    print_list,
    version_cells,
)

if TYPE_CHECKING:
    from service.client import Client

DATASET, JOB = "ds_", "job_"
"""Beginnings of ids; no name of a model has an underscore."""
DatasetReference = Annotated[str, typer.Argument(help="Id of a dataset, or `latest`.")]
Limit = Annotated[int, typer.Option(min=1, help="Number of entries, the newest first.")]
resource_commands = typer.Typer()


def _time(text: str | None) -> str | None:
    try:
        datetime.fromisoformat(text or "2026-01-31")
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time; write it as 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None
    return text


@resource_commands.command(rich_help_panel=CALLS)
def split(
    dataset: DatasetReference,
    fraction: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the rows for the second dataset.")
    ] = 0.25,
    stratify: Annotated[
        bool, typer.Option(help="Keep the shares of the classes in both datasets.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice of the rows.")] = 0,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Split a dataset in two, for training and test."""
    with connected(url, as_json) as client:
        train, test = client.dataset(dataset).split(fraction, stratify=stratify, seed=seed)
    if as_json:
        print_json({"train": train.data, "test": test.data})
    else:
        print_table(DATASET_COLUMNS, map(dataset_cells, (train, test)))


@resource_commands.command(rich_help_panel=CALLS)
def download(
    source: Annotated[
        str, typer.Argument(help="Id of a dataset, `latest`, or id of a batch prediction's job.")
    ],
    file: Annotated[
        Path,
        typer.Argument(dir_okay=False, help="Its suffix is the format, such as .csv or .npz."),
    ],
    url: Url = None,
) -> None:
    """Save a dataset, or the results of a batch prediction, as a file."""
    with connected(url) as client:
        if source.startswith(JOB):
            client.job(source).download_results(file)
        else:
            client.dataset(source).download(file)
        say(f"{source} saved as {file}")


@resource_commands.command(rich_help_panel=CALLS)
def delete(
    what: Annotated[
        list[str],
        typer.Argument(
            help="Ids of datasets and jobs, models such as iris, versions such as iris/3, and "
            "aliases such as iris/champion."
        ),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Delete a model even if it has aliases.")
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Delete datasets, ended jobs, models, versions or aliases; nothing that is in use."""
    with connected(url, as_json) as client:
        for each in what:
            _delete(client, each, force)
            say(f"{each} deleted")
    if as_json:
        print_json({"deleted": what})


def _delete(client: Client, what: str, force: bool) -> None:
    name, _, reference = what.partition("/")
    if what.startswith(DATASET):
        client.dataset(what).delete()
    elif what.startswith(JOB):
        client.job(what).delete()
    elif not reference:
        client.model(name).delete(force=force)
    elif reference.isdecimal():
        client.model_version(name, int(reference)).delete()
    else:
        client.model(name).remove_alias(reference)


@resource_commands.command(rich_help_panel=CALLS)
def export(
    model: ModelReference,
    file: Annotated[Path, typer.Argument(dir_okay=False, help=".onnx, .npz, .json or .joblib.")],
    url: Url = None,
) -> None:
    """Export a model version for other programs."""
    with connected(url) as client:
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


@resource_commands.command("import", rich_help_panel=CALLS)
def import_model(
    model: NewVersionOf,
    file: InputFile,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Import a model that was exported as JSON or NPZ."""
    with connected(url, as_json) as client:
        version = client.import_model(model, file)
    print_json(version.data) if as_json else print(f"{version.name}/{version.version}")


@resource_commands.command(rich_help_panel=CALLS)
def datasets(limit: Limit = 20, url: Url = None, as_json: Json = False) -> None:
    """List the datasets, the newest first."""
    with connected(url, as_json) as client:
        listed = list(islice(client.datasets(), limit))
    print_list("datasets", listed, DATASET_COLUMNS, dataset_cells, as_json)


@resource_commands.command(rich_help_panel=CALLS)
def jobs(
    state: Annotated[str | None, typer.Option(help="A state such as running.")] = None,
    limit: Limit = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the jobs, the newest first."""
    with connected(url, as_json) as client:
        listed = list(islice(client.jobs(state=state), limit))
    print_list("jobs", listed, JOB_COLUMNS, job_cells, as_json)


@resource_commands.command(rich_help_panel=CALLS)
def audit(
    key: Annotated[
        str | None, typer.Option(help="Id or name of a key, or `local` for commands.")
    ] = None,
    action: Annotated[str | None, typer.Option(help="An action such as alias.set.")] = None,
    resource: Annotated[
        str | None, typer.Option(help="Such as models/iris, with its versions and aliases.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Time, such as 2026-01-31T12:00:00Z.", callback=_time)
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Time; only changes before it.", callback=_time)
    ] = None,
    limit: Limit = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List who changed what, the newest first; needs a key with the scope admin."""
    filters = {"key": key, "action": action, "resource": resource, "since": since, "until": until}
    with connected(url, as_json) as client:
        listed = list(islice(client.audit(**filters), limit))
    if as_json:
        print_json({"changes": listed})
    else:
        print_table(CHANGE_COLUMNS, map(change_cells, listed))


@resource_commands.command(rich_help_panel=CALLS)
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
    if alias is not None:
        _set_alias(url, name, alias)
    with connected(url, as_json) as client:
        if name is None:
            print_list("models", list(client.models()), MODEL_COLUMNS, model_cells, as_json)
        else:
            versions = list(client.model(name).versions())
            print_list("versions", versions, VERSION_COLUMNS, version_cells, as_json)


def _set_alias(url: str | None, name: str | None, alias: str) -> None:
    with connected(url) as client:
        if name is None:
            raise ValueError("name the model that the alias belongs to")
        which, _, version = alias.partition("=")
        if not version.isdecimal():
            raise ValueError(f"{alias}: write ALIAS=VERSION, such as champion=3")
        client.model(name).set_alias(which, int(version))
