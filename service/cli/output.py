"""How commands call a service and print results and errors, and their exit codes.

Exit codes: 0 success · 1 failure · 2 wrong usage or settings · 3 the service refused ·
4 a job failed or was canceled · 130 Ctrl+C · 141 the reader of a pipe, such as `head`, ended.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from service.common.figures import first_of

if TYPE_CHECKING:
    from service.client import Client

FAILED, USAGE, REFUSED, JOB_FAILED, INTERRUPTED, CUT = 1, 2, 3, 4, 130, 141

_LOCATION = re.compile(r"^row [\d,]+(, column ('.*?'|\d+))?: ")
"""The beginning of a message that repeats the row and column of the table."""

InputFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
Url = Annotated[
    str | None,
    typer.Option(help="Address of the service.", envvar="SVM_URL", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
CALLS = "Call a service"
LISTED = 10
"""Datasets of the same name, of which an error names the newest."""
service_commands = typer.Typer()
"""The commands that call a service, in the order of the help."""
Columns: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""A table: the titles of its columns, and the cell that each has for an item."""
Function = TypeVar("Function", bound=Callable[..., None])


def say(text: str) -> None:
    """Print a message for people, on standard error."""
    print(text, file=sys.stderr)


def fail(message: str, code: int = FAILED) -> typer.Exit:
    """Print the message; the result is to be raised."""
    say(message)
    return typer.Exit(code)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_fields(title: str, fields: Mapping[str, Any]) -> None:
    """A title, and below it the fields that have a value."""
    print(title)
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        if value is not None:
            print(f"  {name:<{width}}  {value}")


def print_table(columns: Columns, items: Iterable[Any]) -> None:
    print_rows(columns, [[cell(item) for cell in columns.values()] for item in items])


def print_rows(titles: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """As wide as the terminal; if there is none, lines of any length, for `grep` and `cut`."""
    lines = [["" if value is None else str(value) for value in row] for row in (titles, *rows)]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            print("  ".join(map(str.ljust, line, widths)).rstrip())
        return
    _print_rich(lines, to_errors=False)


def _print_rich(lines: list[list[str]], *, to_errors: bool) -> None:
    """The first line has the titles."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*lines[0], box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = not to_errors  # other commands take these ids
    for line in lines[1:]:
        table.add_row(*line)
    Console(stderr=to_errors).print(table)


def end_quietly_if_cut(end: SystemExit) -> None:
    """At the end of a command: raise the exit code of a command whose output has no reader.

    Typer and Rich end such a command with code 1.
    """
    cut = isinstance(end.__context__, BrokenPipeError)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        cut = True
    if cut:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is buffered
        raise SystemExit(CUT) from None


@dataclass(frozen=True, slots=True)
class Call:
    """A command that calls a service."""

    client: Client
    as_json: bool

    def dataset_id(self, given: str) -> str:
        """Of a dataset by its id, `latest` or its name. Raises ValueError for a name that none or
        several have."""
        if given == "latest" or re.fullmatch("ds_[0-9a-f]{32}", given):
            return given
        ids = [one.id for one in self.client.datasets() if one.name == given]
        if len(ids) == 1:
            return ids[0]
        if ids:
            some = first_of(ids, LISTED)
            raise ValueError(f"{len(ids)} datasets have the name {given!r}; give the id: {some}")
        raise ValueError(
            f"no dataset has the id or name {given!r}; `svm-service datasets` lists them"
        )

    def show(self, result: Any, print_text: Callable[[Any], None]) -> None:
        """A resource or the JSON of a reply, as JSON or as text."""
        print_json(getattr(result, "data", result)) if self.as_json else print_text(result)

    def show_list(self, name: str, listed: Iterable[Any], columns: Columns) -> None:
        """As JSON under this name, or as a table."""
        if self.as_json:
            print_json({name: [getattr(each, "data", each) for each in listed]})
        else:
            print_table(columns, listed)


def calls_service(
    name: str | None = None,
    *,
    prints_json: bool = True,
    sent: Mapping[str, tuple[Any, Any]] = MappingProxyType({}),
) -> Callable[[Function], Function]:
    """Makes a function the command of its name. It gets a `Call`, which `--url` and `--json` make,
    and further options, with the type and the declaration of each in `sent`, as keywords."""

    def register(function: Function) -> Function:
        @wraps(function)
        def command(url: str | None, as_json: bool = False, **values: Any) -> None:
            with connected(url, as_json) as client:
                function(Call(client, as_json), **values)

        added: dict[str, tuple[Any, Any]] = {**sent, "url": (Url, None)}
        if prints_json:
            added["as_json"] = (Json, False)
        command.__signature__ = with_options(function, added, 1)  # type: ignore[attr-defined]
        service_commands.command(name, rich_help_panel=CALLS)(command)
        return function

    return register


def with_options(
    function: Callable[..., None], added: Mapping[str, tuple[Any, Any]], without: int = 0
) -> inspect.Signature:
    """The signature without its first parameters, with these options for its keywords."""
    signature = inspect.signature(function, eval_str=True)
    given = (each for each in signature.parameters.values() if each.kind != each.VAR_KEYWORD)
    parameters = [*given][without:]
    for option, (kind, usual) in added.items():
        parameters.append(
            inspect.Parameter(
                option, inspect.Parameter.KEYWORD_ONLY, default=usual, annotation=kind
            )
        )
    return signature.replace(parameters=parameters)


@contextmanager
def connected(url: str | None, as_json: bool) -> Iterator[Client]:
    """A client with few retries, so that a busy service is reported soon.

    Errors are printed, with what to do, and end the command with an exit code.
    """
    from service.client import Client, ClientError, ConnectionFailed, JobFailed, Problem, Retries

    try:
        with Client(url, retries=Retries(times=2)) as client:
            yield client
    except Problem as problem:
        if as_json:
            print_json(problem.members)
        print_problem(problem)
        if problem.code == "unauthorized":
            say("set SVM_API_KEY; `svm-service keys create` on the service's machine makes a key")
        raise typer.Exit(REFUSED) from None
    except JobFailed as error:
        if as_json:
            print_json(error.job.data)
        raise fail(str(error), JOB_FAILED) from None
    except BrokenPipeError:
        raise  # the end of every command handles it
    except OSError as error:
        raise fail(
            f"{error.filename}: {error.strerror}" if error.strerror else str(error)
        ) from None
    except ConnectionFailed as error:
        raise fail(f"{error}; give the service's address with --url or SVM_URL") from None
    except ClientError as error:
        raise fail(str(error)) from None
    except ValueError as error:
        raise fail(str(error), USAGE) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def print_problem(problem: Any) -> None:
    """The message, and a table if there are several errors."""
    if len(problem.errors) < 2:
        say(str(problem))
        return
    say(f"{problem.detail} ({problem.code})")
    lines = [["row", "location", "value", "error"]]
    for error in problem.errors:
        location = error.column if error.column is not None else error.pointer
        text = _LOCATION.sub("", str(error)).removeprefix(f"{error.pointer}: ")
        cells = (error.row, location, error.value, text)
        lines.append(["" if cell is None else str(cell) for cell in cells])
    has_rows = any(error.row for error in problem.errors)
    _print_rich([line if has_rows else line[1:] for line in lines], to_errors=True)
    if problem.errors_total > len(problem.errors):
        say(f"… and {problem.errors_total - len(problem.errors):,} more")
