"""The command that uploads: every parameter of the API, and the proposal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer.main

from service.cli import cli
from service.client import Client
from service.datasets.schemas import UploadOptions
from tests.journeys.server import Server
from tests.service.cli.test_commands import Run, files, run

__all__ = ["files", "run"]

GERMAN = "Alter;Preis;Klasse;w\n1;1,5;a;1\n2;weg;b;2\n1;2,5;a;1\n"


def test_every_parameter_of_an_upload_is_an_option() -> None:
    command = typer.main.get_command(cli).commands["upload"]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    fields = {field.alias or name for name, field in UploadOptions.model_fields.items()}
    assert {f"--{name.replace('_', '-')}" for name in fields} <= options


def test_options_say_how_to_read(run: Run, tmp_path: Path) -> None:
    """Of a file that cannot be read without them."""
    Path("german.csv").write_bytes(GERMAN.encode("utf-16"))
    Path("schema.json").write_text('{"Alter": {"kind": "category"}}')
    told: tuple[str, ...] = (
        "--encoding",
        "utf-16",
        "--delimiter",
        ";",
        "--decimal",
        ",",
        "--thousands",
        "none",
    )
    told += ("--header", "present", "--target", "Klasse", "--weight", "w", "--missing", "weg")
    done = run("upload", "german.csv", *told, "--schema", "@schema.json", "--json")
    assert done.returncode == 0, done.stderr
    dataset = json.loads(done.stdout)
    assert [column["kind"] for column in dataset["columns"]] == ["category", "number"]
    assert (dataset["columns"][1]["missing"], dataset["weight"]) == (1, "w")
    assert dataset["reading"]["missing"] == ["weg"]


@pytest.mark.parametrize(
    ("name", "character"),
    [("tab", "\t"), ("semicolon", ";"), ("comma", ","), ("bar", "|"), ("space", " ")],
)
def test_delimiters_have_names(run: Run, name: str, character: str) -> None:
    """A tab is hard to type in a shell."""
    rows = (("a", "b", "k"), ("1", "2", "u"), ("3", "4", "v"))
    Path("table.txt").write_text("".join(f"{character.join(row)}\n" for row in rows))
    done = run("upload", "table.txt", "--delimiter", name, "--validate-only", "--json")
    assert done.returncode == 0, done.stderr
    dataset = json.loads(done.stdout)
    assert (dataset["n_features"], dataset["reading"]["delimiter"]) == (2, character)


def test_roles_of_columns(run: Run) -> None:
    """Each by an option of its own, shown among the columns."""
    rows = "".join(f"{i},p{i % 3},{i // 2},{i % 2}\n" for i in range(20))
    Path("visits.csv").write_text("n,patient,visit,k\n" + rows)
    told = ("--group", "patient", "--time", "visit")
    done = run("upload", "visits.csv", *told, "--validate-only")
    for line in ("patient *group", "visit *time"):
        assert re.search(line, done.stdout), done.stdout + done.stderr
    dataset = json.loads(run("upload", "visits.csv", *told, "--json").stdout)
    assert (dataset["group"], dataset["time"]) == ("patient", "visit")


def test_proposal(run: Run) -> None:
    """A table of all columns; nothing is stored."""
    rows = "".join(f"name {i},{i % 3},{'uv'[i % 2]},{i % 2}\n" for i in range(20))
    Path("people.csv").write_text("name,age,sex,died\n" + rows)
    done = run("upload", "people.csv", "--validate-only", "--schema", '{"age":{"kind":"category"}}')
    assert done.returncode == 0, done.stderr
    for part in ("nothing is stored", "died", "3: 0, 1, 2", "2: u, v", "every text is different"):
        assert part in done.stdout
    assert "people.csv" not in run("datasets").stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--schema", "@none.json"), 2, "none.json"),
        (("--schema", "{", "--weight", "a"), 3, "not JSON"),
        (("--schema", '{"a": {"role": "label"}}', "--weight", "a"), 3, "another role or kind"),
    ],
)
def test_options_that_contradict(
    run: Run, options: tuple[str, ...], code: int, message: str
) -> None:
    done = run("upload", "iris.csv", *options)
    assert done.returncode == code
    assert message in done.stderr


def test_client_takes_python_values(server: Server, tmp_path: Path) -> None:
    """A mapping for `schema`, a list for `missing`."""
    path = tmp_path / "table.csv"
    path.write_text("a,b,k\n1,x,u\n2,gone,v\n")
    with Client(server.url) as client:
        dataset = client.upload(path, schema={"a": {"kind": "category"}}, missing=["gone", "left"])
    found = [(column["kind"], column["missing"]) for column in dataset.columns or ()]
    assert found == [("category", 0), ("category", 1)]
