"""The command line: `svm-service serve`, commands for operators, and commands that call a service.

Commands import the service when they run, so that those that call a service start fast.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from service import __version__
from service.cli import client_commands, resource_commands  # noqa: F401  (they add commands)
from service.cli.output import InputFile, Json, end_quietly_if_cut, service_commands

cli = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

PROCESSES, DATA = "Run the service", "Manage the data"
key_commands = typer.Typer(no_args_is_help=True)
cli.add_typer(key_commands, name="keys", rich_help_panel=PROCESSES)


def main() -> None:
    try:
        cli()
    except SystemExit as end:
        end_quietly_if_cut(end)
        raise


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"svm-service {__version__}")
        raise typer.Exit


@cli.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Train, keep and serve support vector machines over HTTP.

    Environment variables such as SVM_DATA_DIR configure the service. Commands that call it take
    its address from --url or SVM_URL and the API key from SVM_API_KEY.

    Exit codes: 0 success, 1 failure, 2 wrong usage or settings, 3 the service refused the request,
    4 a job failed or was canceled, 130 Ctrl+C, 141 the reader of a pipe ended.
    """


@cli.command(rich_help_panel=PROCESSES)
def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; else SVM_HOST.", show_default="127.0.0.1"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port, 0 for a free one; else SVM_PORT.", min=0, max=65535, show_default="8000"
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            help="Processes that answer requests; else SVM_PROCESSES.",
            min=1,
            max=64,
            show_default="1",
        ),
    ] = None,
) -> None:
    """Run the API and its training workers until SIGTERM or Ctrl+C."""
    from service.cli import serving

    serving.serve(host, port, processes)


@cli.command(rich_help_panel=PROCESSES)
def worker() -> None:
    """Run training workers for a service on another machine, until SIGTERM or Ctrl+C.

    Set database, file store and limits in its environment as in the service's.
    """
    from service.cli import operating as cluster

    cluster.worker()


cli.registered_commands += service_commands.registered_commands  # `add_typer` puts them last


@cli.command(rich_help_panel=DATA)
def migrate() -> None:
    """Upgrade the database to this version's schema."""
    from service.cli import operating

    operating.migrate()


@cli.command(rich_help_panel=DATA)
def backup(
    file: Annotated[Path, typer.Argument(help="A new tar archive.", dir_okay=False)],
    as_json: Json = False,
) -> None:
    """Save all data in one file; the service can run meanwhile."""
    from service.cli import operating

    operating.backup(file, as_json)


@cli.command(rich_help_panel=DATA)
def restore(file: InputFile, as_json: Json = False) -> None:
    """Fill an empty data directory, or database and file store, from a backup."""
    from service.cli import operating

    operating.restore_backup(file, as_json)


@cli.command(rich_help_panel=DATA)
def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Compare the digests of all files.")] = False,
    port: Annotated[
        int | None,
        typer.Option(help="Port for `serve`; else SVM_PORT.", show_default="8000"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check everything that the service needs, and print what to fix."""
    from service.cli import examining

    examining.doctor(deep, port, as_json)


class KeyScope(StrEnum):
    """`keys.Scope`, for the command line."""

    READ = "read"
    PREDICT = "predict"
    TRAIN = "train"
    ADMIN = "admin"


@key_commands.callback()
def about_keys() -> None:
    """Create, list and revoke API keys; the service can run meanwhile."""


@key_commands.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="Of the caller; rate and queue limits are per name.")],
    scope: Annotated[
        list[KeyScope],
        typer.Option(help="What the key allows; can be repeated. admin allows all."),
    ],
    requests_per_s: Annotated[
        float | None, typer.Option(help="Rate limit: requests per second.", min=0.001)
    ] = None,
) -> None:
    """Create a key and print it. Only its hash is stored: it cannot be shown again."""
    from service.cli import operating

    operating.create_key(name, [each.value for each in scope], requests_per_s)


@key_commands.command("list")
def list_keys() -> None:
    """List names, scopes and times of all keys, revoked ones too."""
    from service.cli import operating

    operating.show_keys()


@key_commands.command("revoke")
def revoke_key(key: Annotated[str, typer.Argument(help="Name or id of the key.")]) -> None:
    """Revoke a key. A running service refuses it within two seconds."""
    from service.cli import operating

    operating.revoke_key(key)
