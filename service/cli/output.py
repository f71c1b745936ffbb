"""What commands print, and how they end.

Exit codes: 0 done · 1 it could not be done · 2 wrong usage or settings · 3 the service refused ·
4 a job failed or was canceled · 130 Ctrl+C.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from service.client import Client

_WIDE = 100_000
"""Characters: more than any table has."""
FAILED, USAGE, REFUSED, JOB_FAILED, INTERRUPTED = 1, 2, 3, 4, 130

_PLACE = re.compile(r"^row [\d,]+(, column ('.*?'|\d+))?: ")
"""How the sentences of the service begin, where the table says so already."""

InputFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
Url = Annotated[
    str | None,
    typer.Option(help="Address of the service.", envvar="SVM_URL", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def say(text: str) -> None:
    """For people, beside what the command prints."""
    print(text, file=sys.stderr)


def fail(message: str, code: int = FAILED) -> typer.Exit:
    """To be raised."""
    say(message)
    return typer.Exit(code)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_fields(title: str, fields: Mapping[str, Any]) -> None:
    """A title, and below it what is known."""
    print(title)
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        if value is not None:
            print(f"  {name:<{width}}  {value}")


def print_table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """In a terminal as wide as it is; else every line whole, for `grep` and `cut`."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True  # what other commands take must be whole
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)


def caller(url: str | None) -> Client:
    """Of the service there. A person waits: one that is not there is told soon."""
    from service.client import Client, Retries

    return Client(url, retries=Retries(times=2))


@contextmanager
def problems_told(as_json: bool) -> Iterator[None]:
    """Ends the command with what the client raises, said so that it can be mended."""
    from service.client import ClientError, ConnectionFailed, JobFailed, Problem

    try:
        yield
    except Problem as problem:
        if as_json:
            print_json(problem.members)
        _say_problem(problem)
        if problem.code == "unauthorized":
            say("SVM_API_KEY holds the key; `svm-service keys create`, where it runs, makes one")
        raise typer.Exit(REFUSED) from None
    except JobFailed as error:
        if as_json:
            print_json(error.job.data)
        raise fail(str(error), JOB_FAILED) from None
    except OSError as error:
        raise fail(
            f"{error.filename}: {error.strerror}" if error.strerror else str(error)
        ) from None
    except ConnectionFailed as error:
        raise fail(f"{error}; --url or SVM_URL says where the service is") from None
    except ClientError as error:
        raise fail(str(error)) from None
    except ValueError as error:
        raise fail(str(error), USAGE) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _say_problem(problem: Any) -> None:
    """The sentence, and a table of the places where there are several."""
    if len(problem.errors) < 2:
        say(str(problem))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    say(f"{problem.detail} ({problem.code})")
    table = Table("row", "where", "value", "what is wrong", box=box.SIMPLE_HEAD)
    for place in problem.errors:
        where = place.column if place.column is not None else place.pointer
        told = _PLACE.sub("", str(place)).removeprefix(f"{place.pointer}: ")
        cells = (place.row, where, place.value, told)
        table.add_row(*("" if cell is None else str(cell) for cell in cells))
    if not any(place.row for place in problem.errors):
        del table.columns[0]
    Console(stderr=True).print(table)
    if problem.errors_total > len(problem.errors):
        say(f"… and {problem.errors_total - len(problem.errors):,} more")
