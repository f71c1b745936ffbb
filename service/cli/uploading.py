"""The command that uploads a dataset, with every parameter of an upload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.client_commands import CALLS
from service.cli.output import InputFile, Json, Url, connected, print_json
from service.cli.showing import print_dataset, print_proposal

upload_command = typer.Typer()

_TEXT = "CSV and TSV"


@upload_command.command(rich_help_panel=CALLS)
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
    weight: Annotated[str | None, typer.Option(help="Column with the weights of the rows.")] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            help='What columns are: {"age": {"kind": "category"}}, or @FILE with such JSON. Kinds: '
            "number, category, boolean, date; roles: feature, label, weight, ignored."
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(help="A further word for missing cells; can be repeated."),
    ] = None,
    missing_labels: Annotated[
        str | None,
        typer.Option(
            help="Rows without a label: drop, refuse, or auto: leave them out if they are few."
        ),
    ] = None,
    header: Annotated[
        str | None, typer.Option(help=f"{_TEXT}, XLSX: present, absent, or auto.")
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help=f"{_TEXT}: the character between cells, or comma, semicolon, tab, bar, space."
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help=f"{_TEXT}: such as windows-1251, shift_jis or mac-roman.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help=f"{_TEXT}: the decimal mark, a point or a comma.")
    ] = None,
    thousands: Annotated[
        str | None, typer.Option(help=f"{_TEXT}: none, if thousands are not separated.")
    ] = None,
    odd_cells: Annotated[
        str | None,
        typer.Option(
            help="Tables: missing or refuse, a few words in a column of numbers or dates."
        ),
    ] = None,
    dayfirst: Annotated[
        bool | None,
        typer.Option(
            "--dayfirst/--monthfirst", help=f"{_TEXT}: what comes first in dates as 01/02/2024."
        ),
    ] = None,
    sheet: Annotated[
        str | None,
        typer.Option(help="XLSX, XLS, ODS: the sheet. Default: the first one with a table."),
    ] = None,
    dense: Annotated[
        str | None,
        typer.Option(help="LIBSVM: always, never, or auto: if half of the values are not 0."),
    ] = None,
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
        bool,
        typer.Option("--validate-only", help="Show how the file would be read, store nothing."),
    ] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Upload a dataset: CSV, TSV, JSON, NDJSON, LIBSVM, NPY, NPZ, Parquet, XLSX, XLS or ODS.

    The file may also be in a zip file of its own, or compressed by gzip, bzip2, xz or zstd. If its
    name does not say the format, as that of `a9a`, its contents do.
    """
    named = name or file.name
    options: dict[str, Any] = {
        "name": named,
        "target": target,
        "schema": _schema(schema, weight),
        "missing": ",".join(missing) if missing else None,
        "missing_labels": missing_labels,
        "header": header,
        "delimiter": delimiter,
        "encoding": encoding,
        "decimal": decimal,
        "thousands": thousands,
        "odd_cells": odd_cells,
        "dayfirst": dayfirst,
        "sheet": sheet,
        "dense": dense,
        "index_base": index_base,
        "n_features": n_features,
        "validate_only": validate_only or None,
    }
    with connected(url, as_json) as client:
        dataset = client.upload(
            file, labels, media_type=media_type, progress_bar=False if as_json else None, **options
        )
    if as_json:
        print_json(dataset.data)
    elif validate_only:
        print_proposal(dataset)
    else:
        print_dataset(dataset)
        if dataset.name != named:
            other = f"named {dataset.name}" if dataset.name else "without a name"
            print(f"  note: the same data exist already, {other}")


def _schema(text: str | None, weight: str | None) -> str | None:
    """The JSON of both options. Raises BadParameter."""
    if text is not None and text.startswith("@"):
        try:
            text = Path(text[1:]).read_text()
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"{text[1:]}: {error}", param_hint="--schema") from None
    if weight is None:
        return text
    try:
        roles: Any = json.loads(text or "{}")
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--schema") from None
    if not isinstance(roles, dict):
        raise typer.BadParameter("not an object of columns", param_hint="--schema")
    if weight in roles:
        message = f"--weight names {weight!r}, which --schema has too"
        raise typer.BadParameter(message, param_hint="--schema")
    return json.dumps({**roles, weight: {"role": "weight"}})
