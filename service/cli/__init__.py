"""The command line: `svm-service serve`, what goes with it, and commands that call a service.

What a command needs is imported by the command, so that one that only calls a service is there at
once.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from service import __version__
from service.cli.client_commands import client_commands
from service.cli.output import InputFile, Json

cli = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

PROCESSES, DATA = "Run the service", "Look after the data"
key_commands = typer.Typer(no_args_is_help=True)
cli.add_typer(key_commands, name="keys", rich_help_panel=PROCESSES)


def main() -> None:
    cli()


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


cli.registered_commands += client_commands.registered_commands  # `add_typer` puts them last


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
