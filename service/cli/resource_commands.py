"""Commands that list what a service has and who changed it, and export and import models."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import completion, showing
from service.cli.client_commands import ModelReference, NewVersionOf
from service.cli.output import Call, InputFile, calls_service, print_json, print_table, say

if TYPE_CHECKING:
    from service.client import Client

DATASET, JOB = "ds_", "job_"
"""Beginnings of ids; no name of a model has an underscore."""
DatasetReference = Annotated[
    str,
    typer.Argument(
        help="Id or name of a dataset, or `latest`.", autocompletion=completion.datasets
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="Number of entries, the newest first.")]


def _time(text: str | None) -> str | None:
    try:
        datetime.fromisoformat(text or "2026-01-31")
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time; write it as 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from None
    return text


@calls_service()
def split(
    call: Call,
    dataset: DatasetReference,
    fraction: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the rows for the second dataset.")
    ] = 0.25,
    stratify: Annotated[
        bool | None,
        typer.Option(help="Keep the shares of the classes in both datasets: the default for them."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the choice of the rows.")] = 0,
    gap: Annotated[
        float, typer.Option(min=0, help="Least time between both, of dates in days.")
    ] = 0.0,
) -> None:
    """Split a dataset in two, for training and test."""
    train, test = call.client.dataset(call.dataset_id(dataset)).split(
        fraction, stratify=stratify, seed=seed, gap=gap
    )
    both = {"train": train.data, "test": test.data}
    call.show(both, lambda _: print_table(showing.DATASETS, (train, test)))


@calls_service(prints_json=False)
def download(
    call: Call,
    source: Annotated[
        str,
        typer.Argument(
            help="Id or name of a dataset, `latest`, or id of a batch prediction's job.",
            autocompletion=completion.datasets,
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(dir_okay=False, help="Its suffix is the format, such as .csv or .npz."),
    ],
) -> None:
    """Save a dataset, or the results of a batch prediction, as a file."""
    if source.startswith(JOB):
        call.client.job(source).download_results(file)
    else:
        call.client.dataset(call.dataset_id(source)).download(file)
    say(f"{source} saved as {file}")


@calls_service()
def delete(
    call: Call,
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
) -> None:
    """Delete datasets, ended jobs, models, versions or aliases; nothing that is in use."""
    for each in what:
        _delete(call.client, each, force)
        say(f"{each} deleted")
    if call.as_json:
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


@calls_service(prints_json=False)
def export(
    call: Call,
    model: ModelReference,
    file: Annotated[Path, typer.Argument(dir_okay=False, help=".onnx, .npz, .json or .joblib.")],
) -> None:
    """Export a model version for other programs."""
    name, _, reference = model.partition("/")
    if not reference.isdecimal():
        aliases = call.client.model(name)
        known = {"latest": aliases.latest_version, **aliases.aliases}
        version = known.get(reference or ("default" if "default" in known else "latest"))
        if version is None:
            raise ValueError(f"{model}: {name} has no such alias")
        reference = str(version)
    call.client.model_version(name, int(reference)).export(file)
    say(f"{name}/{reference} saved as {file}")


@calls_service("import")
def import_model(
    call: Call,
    model: NewVersionOf,
    file: InputFile,
) -> None:
    """Import a model that was exported as JSON or NPZ."""
    version = call.client.import_model(model, file)
    call.show(version, lambda _: print(f"{version.name}/{version.version}"))


@calls_service()
def datasets(call: Call, limit: Limit = 20) -> None:
    """List the datasets, the newest first."""
    call.show_list("datasets", islice(call.client.datasets(), limit), showing.DATASETS)


@calls_service()
def jobs(
    call: Call,
    state: Annotated[str | None, typer.Option(help="A state such as running.")] = None,
    limit: Limit = 20,
) -> None:
    """List the jobs, the newest first."""
    call.show_list("jobs", islice(call.client.jobs(state=state), limit), showing.JOBS)


@calls_service()
def audit(
    call: Call,
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
) -> None:
    """List who changed what, the newest first; needs a key with the scope admin."""
    filters = {"key": key, "action": action, "resource": resource, "since": since, "until": until}
    call.show_list("changes", islice(call.client.audit(**filters), limit), showing.CHANGES)


@calls_service()
def models(
    call: Call,
    name: Annotated[
        str | None,
        typer.Argument(help="Show the versions of this model.", autocompletion=completion.models),
    ] = None,
    alias: Annotated[
        str | None,
        typer.Option(metavar="ALIAS=VERSION", help="Point an alias of the model to this version."),
    ] = None,
) -> None:
    """List the models, or the versions of one."""
    if alias is not None:
        _set_alias(call.client, name, alias)
    if name is None:
        call.show_list("models", call.client.models(), showing.MODELS)
    else:
        call.show_list("versions", call.client.model(name).versions(), showing.VERSIONS)


def _set_alias(client: Client, name: str | None, alias: str) -> None:
    if name is None:
        raise ValueError("name the model that the alias belongs to")
    which, _, version = alias.partition("=")
    if not version.isdecimal():
        raise ValueError(f"{alias}: write ALIAS=VERSION, such as champion=3")
    client.model(name).set_alias(which, int(version))
