"""`svm-service check`: reads a file as an upload would, without a service, and prints the audit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from service.cli import showing
from service.cli.environment import read_settings
from service.cli.output import FAILED, print_json, print_problem
from service.client.errors import problem_of
from service.client.synchronous.client import Dataset
from service.datasets.dataset import SENT
from service.datasets.schemas import DatasetRead, UploadOptions
from service.datasets.upload_routes import of_form
from service.errors import ServiceError
from service.rows.parsing_process import read
from service.web.bodies.uploads import FormPart
from service.web.problems import problem_bytes, status_of


def check(file: Path, labels: Path | None, options: Mapping[str, Any], as_json: bool) -> None:
    """Print the columns, warnings and findings. Exit status 1 if the file is refused, or a finding
    is an error."""
    limits = read_settings().limits
    with TemporaryDirectory() as name:
        folder = Path(name)
        parts = {"file": _part(folder, "file", file)}
        if labels is not None:
            parts["labels"] = _part(folder, "labels", labels)
        for option, value in options.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if value is not None:
                parts[option] = FormPart(option, size=len(text), content=bytearray(text.encode()))
        try:
            upload = of_form(parts, UploadOptions(), folder, limits)
            parsed = read(upload.spec)
        except ServiceError as error:
            members = json.loads(problem_bytes(error, str(file), "")[0])
            if as_json:
                print_json(members)
            print_problem(problem_of(status_of(error.code), members))
            raise typer.Exit(FAILED) from None
    shown = DatasetRead.of_parsed(parsed, file.name, parsed.media_type, file.stat().st_size, SENT)
    found = shown.model_dump(mode="json")
    if as_json:
        print_json(found)
    else:
        showing.print_proposal(Dataset(None, found))
    if any(one["grade"] == "error" for one in found["audit"]):
        raise typer.Exit(FAILED)


def _part(folder: Path, name: str, file: Path) -> FormPart:
    """A link: what is in an archive is written beside it."""
    link = folder / name
    link.symlink_to(file.resolve())
    return FormPart(name, file.name, "application/octet-stream", link, file.stat().st_size)
