"""Commands that call a service: output and exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service import __version__
from service.cli import cli
from service.client import Client
from service.common.figures import figure
from tests import started
from tests.journeys.server import Server
from tests.journeys.uploads.test_upload_to_predictions import iris_csv
from tests.waiting import until

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def files(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a folder with iris.csv; SVM_URL is the address of the service."""
    (tmp_path / "iris.csv").write_bytes(iris_csv())
    lines = iris_csv().decode().splitlines()
    (tmp_path / "rows.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SVM_URL", server.url)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def spawned() -> Run:
    """Runs `svm-service` in its own process."""

    def run(*arguments: str, stdin: str = "") -> Any:
        return started.run([*arguments], stdin)

    return run


@pytest.fixture
def run() -> Run:
    """Runs a command of `svm-service` in this process: ten times faster."""

    def run(*arguments: str, stdin: str = "") -> Any:
        done = CliRunner().invoke(cli, arguments, input=stdin)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    return run


def test_upload_train_predict(spawned: Run) -> None:
    """Output for people by default, for programs with --json."""
    done = spawned("upload", "iris.csv", "--name", "iris")
    assert done.returncode == 0, done.stderr
    assert "setosa (50), versicolor (50), virginica (50)" in done.stdout
    dataset = json.loads(spawned("upload", "iris.csv", "--json").stdout)
    assert dataset["name"] == "iris"

    options = ("--set", "solver.C=10", "--validation", "0.4", "--watch")
    done = spawned("train", "iris", "--dataset", dataset["id"], *options)
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout
    assert re.search(r"phases +queued [\d.]+ s, reading .* training .* saving", done.stdout)
    assert "above the lowest possible" in done.stdout
    spec = {"solver": {"name": "pegasos", "lambda": 0.1}, "scaling": "standardize"}
    done = spawned("train", "iris", "--spec", "-", "--watch", "--json", stdin=json.dumps(spec))
    job = json.loads(done.stdout)
    assert (job["spec"]["solver"]["name"], job["model"]["version"]) == ("pegasos", 2)

    done = spawned("predict", "iris/1", "rows.csv", "--output", "label", "--output", "decision")
    header, first, *rest = done.stdout.splitlines()
    assert header == "label,decision:setosa,decision:versicolor,decision:virginica"
    assert first.startswith("setosa,")
    assert len(rest) == 149
    withheld = ("--output", "label", "--output", "label_or_none", "--withheld", "0.3")
    header, *rest = spawned("predict", "iris/1", "rows.csv", *withheld).stdout.splitlines()
    assert header == "label,label_or_none"
    assert 20 < sum(line.endswith(",") for line in rest) < 80

    assert (
        "champion"
        in spawned("models", "iris", "--alias", "champion=1").stdout + spawned("models").stdout
    )
    versions = json.loads(spawned("models", "iris", "--json").stdout)["versions"]
    assert [version["version"] for version in versions] == [2, 1]


def test_training_names_the_last_upload_and_warns_of_other_columns(run: Run) -> None:
    """A model does not silently get a version of other data; a given dataset is taken."""
    Path("boxes.csv").write_text("w,h,label\n" + "1,2,a\n2,1,b\n" * 20)
    Path("sizes.csv").write_text("w,h,label\n" + "1,2,a\n2,1,c\n" * 20)
    Path("tall.csv").write_text("w,tall,label\n" + "1,2,a\n2,1,b\n" * 20)
    boxes = json.loads(run("upload", "boxes.csv", "--json").stdout)["id"]
    newton = ("--solver", "newton", "--watch")
    done = run("train", "boxes", *newton)
    assert f"trains on the last upload, boxes.csv ({boxes})" in done.stderr, done.stderr
    assert "warning" not in run("train", "boxes", *newton).stderr
    for file, what, latest in (("sizes.csv", "classes", 2), ("tall.csv", "columns", 3)):
        other = json.loads(run("upload", file, "--json").stdout)["id"]
        done = run("train", "boxes", *newton)
        assert done.returncode == 0
        said = f"the last upload, {file} ({other}), has other {what} than version {latest} of boxes"
        assert f"warning: {said}" in done.stderr
    assert "warning" not in run("train", "boxes", *newton, "--dataset", boxes).stderr
    Path("three.csv").write_text("w,h,label\n" + "1,2,a\n2,1,c\n3,3,d\n" * 20)
    assert run("upload", "three.csv").returncode == 0
    done = run("train", "boxes", *newton, "--set", 'classes=["a","c"]')
    assert "other classes" in done.stderr


def test_plan_of_a_training_is_printed(run: Run) -> None:
    """Also what its passes take on several machines, if its solver has such passes."""
    run("upload", "iris.csv")
    two = ("--set", 'classes=["setosa", "virginica"]', "--validate-only")
    done = run("train", "planned", "--solver", "newton", *two)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["rows", "100"] in lines
    assert ["sent", "once", "119", "bytes"] in lines  # which rows, by a bit of each
    plan = json.loads(run("train", "planned", "--solver", "newton", *two, "--json").stdout)
    assert plan["spread"]["shards"] == 1
    done = run("train", "planned", "--solver", "pegasos", *two)
    assert "memory" in done.stdout
    assert "machines" not in done.stdout
    assert run("models", "planned").returncode != 0


def test_data_and_labels_in_two_files(run: Run, tmp_path: Path) -> None:
    """As two files with a value per line; without a name the dataset gets that of the file."""
    rows = [line.rpartition(",") for line in iris_csv().decode().splitlines()[1:]]
    (tmp_path / "features.txt").write_text("".join(f"{x}\n" for x, _, _ in rows))
    (tmp_path / "target.txt").write_text("".join(f"{y}\n" for _, _, y in rows))
    done = run("upload", "features.txt", "--labels", "target.txt")
    assert done.returncode == 0, done.stderr
    assert "features.txt" in done.stdout
    assert "setosa (50)" in done.stdout
    assert "exist already, named features.txt" in (
        run("upload", "features.txt", "--labels", "target.txt", "--name", "x").stdout
    )
    one = json.loads(run("upload", "iris.csv", "--json").stdout)
    two = json.loads(run("upload", "features.txt", "--labels", "target.txt", "--json").stdout)
    assert one["matrix_digest"] == two["matrix_digest"]
    assert two["id"] in run("datasets", "--limit", "100").stdout


def test_audit_lists_who_changed_what(run: Run) -> None:
    """As a table and as JSON, with filters."""
    run("upload", "iris.csv", "--name", "audited")
    options = ("--action", "dataset.create", "--limit", "1")
    listed = run("audit", *options).stdout
    assert all(word in listed for word in ("127.0.0.1", "dataset.create", "datasets/ds_"))
    [change] = json.loads(run("audit", *options, "--json").stdout)["changes"]
    header, line = listed.splitlines()
    assert header.startswith("time (UTC)  ")
    assert line == line.rstrip()
    assert json.loads(run("audit", "--resource", change["resource"], "--json").stdout)["changes"]
    assert run("audit", "--action", "nothing").returncode == 3


def test_jobs_are_listed_evaluated_and_canceled(run: Run) -> None:
    """All of it on the command line."""
    run("upload", "iris.csv")
    done = run("train", "listed", "--set", "solver=newton")
    job_id = done.stdout.partition(" ")[0]
    assert f"svm-service watch {job_id}" in done.stderr
    assert run("watch", job_id).returncode == 0
    listed = run("jobs", "--state", "succeeded", "--limit", "1").stdout
    assert job_id in listed
    assert "listed/1" in listed
    results = json.loads(run("evaluate", "listed", "--json").stdout)
    assert results["metrics"]["accuracy"] > 0.9
    assert "versicolor" in run("evaluate", "listed/1").stdout
    assert run("cancel", job_id).returncode == 3  # it has ended
    endless = ("--solver", "pegasos", "--set", "stopping.max_epochs=10000000")
    long = run("train", "long", *endless, "--set", "stopping.duality_gap=1e-12", "--json")
    canceled = run("cancel", json.loads(long.stdout)["id"], "--json")
    assert json.loads(canceled.stdout)["cancel_requested"]
    assert run("watch", json.loads(long.stdout)["id"]).returncode == 4


def test_job_is_paused_resumed_and_its_events_are_printed(run: Run) -> None:
    """The events are complete with --follow; with --json there is one object per line."""
    run("upload", "iris.csv")
    endless = ("--solver", "pegasos", "--set", "stopping.max_epochs=10000000")
    done = run("train", "held", *endless, "--set", "stopping.duality_gap=1e-12", "--json")
    job_id = json.loads(done.stdout)["id"]
    assert json.loads(run("pause", job_id, "--json").stdout)["id"] == job_id
    with Client() as client:
        until(lambda: client.job(job_id).state == "paused")
    assert "paused" in run("logs", job_id).stdout
    assert run("resume", job_id).stdout.startswith(job_id)
    with Client() as client:  # a job that waits has no model to keep
        until(lambda: client.job(job_id).state == "running")
    run("cancel", job_id, "--keep-model")
    lines = run("logs", job_id, "--follow").stdout.splitlines()
    assert lines[0].split()[2:] == ["state", "queued"]
    assert "end" in lines[-1]
    assert "model held/1" in lines[-1]
    events = [json.loads(line) for line in run("logs", job_id, "--json").stdout.splitlines()]
    assert len(events) == len(lines)
    assert events[-1]["event"] == "end"


def test_dataset_is_split_and_downloaded(run: Run) -> None:
    """Two datasets; the suffix of the file is the format, also of a batch prediction's results."""
    upload = json.loads(run("upload", "iris.csv", "--json").stdout)
    options = ("--fraction", "0.2", "--seed", "3")
    both = json.loads(run("split", upload["id"], *options, "--json").stdout)
    assert (both["train"]["n_samples"], both["test"]["n_samples"]) == (120, 30)
    assert both["test"]["id"] in run("split", upload["id"], *options).stdout
    assert run("split", "latest", "--fraction", "1").returncode == 3
    assert run("download", upload["id"], "copy.tsv").returncode == 0
    copied = Path("copy.tsv").read_text().replace("\t", ",").splitlines()
    assert len(copied) == 151
    run("train", "downloaded", "--dataset", upload["id"], "--watch")
    with Client() as client:
        job = client.predict_dataset("downloaded", upload["id"]).wait(60)
    assert run("download", job.id, "predictions.csv").returncode == 0
    assert Path("predictions.csv").read_text().count("setosa") >= 40
    assert run("download", upload["id"], "notes.md").returncode == 2


def test_datasets_have_names(run: Run) -> None:
    """In place of ids, if no other dataset has the name."""
    ids = []
    for number, name in enumerate(("named", "twice", "twice")):
        rows = "".join(f"{i},{number},{'uv'[i % 2]}\n" for i in range(20))
        Path("some.csv").write_text(f"a,b,k\n{rows}")
        ids.append(json.loads(run("upload", "some.csv", "--name", name, "--json").stdout)["id"])
    job = json.loads(run("train", "by-name", "--dataset", "named", "--watch", "--json").stdout)
    assert job["dataset_id"] == ids[0]
    assert ids[0] in run("evaluate", "by-name", "--dataset", "named").stdout
    assert run("compare", "--solver", "newton", "--dataset", "named").returncode == 0
    assert run("download", "named", "copy.csv").returncode == 0
    assert run("split", "named", "--fraction", "0.5").returncode == 0
    for command in (("train", "by-name", "--dataset"), ("split",)):
        done = run(*command, "twice")
        assert (done.returncode, ids[2] in done.stderr, ids[1] in done.stderr) == (2, True, True)
        done = run(*command, "none")
        assert "no dataset has the id or name 'none'; `svm-service datasets` lists" in done.stderr


def test_resources_are_deleted(run: Run) -> None:
    """By id or name; what is in use, and a model with aliases, stay."""
    Path("few.csv").write_text("a,b,k\n1,2,u\n3,5,v\n4,6,v\n0,1,u\n")
    dataset = json.loads(run("upload", "few.csv", "--json").stdout)["id"]
    jobs = [json.loads(run("train", "gone", "--watch", "--json").stdout)["id"] for _ in range(2)]
    run("models", "gone", "--alias", "champion=1")
    assert run("delete", "gone").returncode == 3
    assert run("delete", "gone/1").returncode == 3
    done = run("delete", "gone/champion", "gone/1", *jobs, dataset)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"{dataset} deleted"
    assert [
        one["version"] for one in json.loads(run("models", "gone", "--json").stdout)["versions"]
    ] == [2]
    run("models", "gone", "--alias", "champion=2")
    done = run("delete", "gone", "--force", "--json")
    assert json.loads(done.stdout) == {"deleted": ["gone"]}
    for reference in ("gone", "gone/2", "gone/champion", jobs[0], dataset):
        assert run("delete", reference).returncode == 3, reference


def test_version_is_printed(run: Run) -> None:
    """The same as the service reports."""
    assert run("--version").stdout == f"svm-service {__version__}\n"


def test_compare_export_and_import(run: Run, tmp_path: Path) -> None:
    """A table with the best model first; a version as a file, imported again."""
    run("upload", "iris.csv")
    grid = ("--solver", "newton", "--solver", "pegasos", "--c", "0.1", "--c", "10")
    done = run("compare", *grid, "--scaling", "standardize", "--model", "best")
    assert done.returncode == 0, done.stderr
    assert "the best is best/1" in done.stdout
    assert done.stdout.count("newton") == 2
    entries = json.loads(run("compare", "--solver", "newton", "--json").stdout)["entries"]
    assert entries[0]["rank"] == 1
    assert run("export", "best", "best.npz").returncode == 0
    assert run("export", "best/latest", "best.joblib").returncode == 0
    assert "best/2" in run("import", "best", "best.npz").stdout
    assert run("export", "best/unknown", "best.npz").returncode == 2
    done = run("export", "best", "notes.md")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "notes.md: not one of .onnx" in " ".join(done.stderr.split())


def test_commands_show_numbers(run: Run) -> None:
    """Of a numeric target its range, and of its models errors beside those of a constant."""
    lines = [f"{x},{'ab'[x % 2]},{20_000 + 100 * x + 50 * (x % 3)}.5" for x in range(90)]
    Path("prices.csv").write_text("\n".join(["a,b,price", *lines]) + "\n")
    for options in ((), ("--validate-only",)):
        done = run("upload", "prices.csv", *options)
        assert "numbers from 20,000 to 29,000, median 24,500, mean 24,500" in done.stdout
    assert "numbers" in run("datasets").stdout.splitlines()[1].split()
    done = run("train", "prices", "--validation", "0.2", "--watch")
    assert done.returncode == 0, done.stderr
    [version] = json.loads(run("models", "prices", "--json").stdout)["versions"]
    errors = version["metrics"]["validation"]
    mae, constant = figure(errors["mae"]), figure(errors["baseline"]["mae"])
    low, high = map(figure, errors["intervals"]["mae"])
    between = f"{low} to {high} with 95 % confidence"
    assert f"{mae} on average ({between}); always the median: {constant}" in done.stdout
    assert "validation error" in done.stdout
    assert mae in run("models", "prices").stdout
    done = run("evaluate", "prices", "--importance")
    assert done.returncode == 0, done.stderr
    for words in ("mean absolute error", "median of errors", "95 % interval", "of a constant"):
        assert words in done.stdout
    assert "increase of the error" in done.stdout
    done = run("compare", "--solver", "newton", "--c", "0.1", "--c", "10")
    assert done.returncode == 0, done.stderr
    entries = json.loads(run("compare", "--solver", "newton", "--json").stdout)["entries"]
    assert figure(entries[0]["score"]) not in ("", None)
    assert "%" not in done.stdout.splitlines()[1].partition("C = ")[2].split()[1]


def test_refused_upload_shows_every_error(run: Run, tmp_path: Path) -> None:
    """Exit status 3, and a table of the errors; the same as JSON for programs."""
    bad = (tmp_path / "iris.csv").read_text().replace("5.1", "wide").replace("4.9", "")
    (tmp_path / "bad.csv").write_text(bad)
    done = run("upload", "bad.csv")
    assert done.returncode == 3
    assert done.stdout == ""
    for word in ("row", "sepal_length", "wide", "is not a number"):
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    done = run("upload", "bad.csv", "--json")
    assert json.loads(done.stdout)["errors"][0]["row"] == 1
    done = run("predict", "unknown", "rows.csv")
    assert (done.returncode, "unknown" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "m", "--set", "C"), "C: write name=value"),
        (
            ("train", "m", "--solver", "newton", "--set", "solver.name.x=1"),
            "solver.name.x: name is 'newton' already",
        ),
        (("train", "m", "--spec", "-"), "-: not a JSON object"),
        (("train", "m", "--spec", "notes.md"), "notes.md: not JSON"),
        (("train", "rows.csv"), "upload it first: `svm-service upload rows.csv`"),
        (("train", "my rows.XLSX"), "`svm-service upload 'my rows.XLSX'`"),
        (("train", "./notes.md"), "`svm-service upload ./notes.md`"),
        (("models", "--alias", "a=1"), "name the model"),
        (("watch", ""), "'' is not the id of a job"),
        (("cancel", "iris"), "`svm-service jobs` lists them"),
        (("audit", "--since", "yesterday"), "'yesterday' is not a time"),
        (("upload", "nothing.csv"), "does not exist"),
        (("predict", "iris", "notes.md"), "notes.md: not one of .csv"),
        (("predict", "iris", "rows.csv", "--output", "explanation"), "add --json"),
    ],
)
def test_wrong_usage_is_reported(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Exit status 2, and what to write instead."""
    (tmp_path / "notes.md").write_text("notes")
    done = run(*arguments, stdin="[]")
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_closed_pipe_ends_the_command_quietly(spawned: Run) -> None:
    """With the exit status of a program that SIGPIPE ends."""
    spawned("upload", "iris.csv")
    spawned("train", "piped", "--watch")
    rows = Path("rows.csv").read_text().splitlines()
    Path("many.csv").write_text("\n".join([rows[0], *rows[1:] * 200]))
    line = f"{started.COMMAND} predict piped many.csv | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (141, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("command", ["--help", "--version", "predict --help", "keys list"])
def test_closed_pipe_ends_commands_without_a_service(tmp_path: Path, command: str) -> None:
    """Wherever they print: no traceback, and the same exit status."""
    line = f"({started.COMMAND} {command}; echo $? >&2) | true"
    environment = os.environ | {"SVM_DATA_DIR": str(tmp_path)}
    shell = ["bash", "-c", line]
    done = subprocess.run(shell, capture_output=True, text=True, env=environment, timeout=60)
    assert done.stderr == "141\n"


def test_failed_job_has_its_own_status(run: Run) -> None:
    """Exit status 4, with the reason and what to do."""
    run("upload", "iris.csv")
    wild = ("--solver", "gradient-descent", "--set", "solver.learning_rate=1e6")
    done = run("train", "wild", *wild, "--watch")
    assert done.returncode == 4
    assert "diverged" in done.stderr


def test_unreachable_service_is_reported(run: Run) -> None:
    """Exit status 1, with the address."""
    done = run("models", "--url", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "no answer from http://127.0.0.1:9" in done.stderr


def test_commands_that_call_a_service_start_fast() -> None:
    """They do not import FastAPI or NumPy."""
    program = (
        "import sys, service.cli, service.client;"
        "print('fastapi' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_files_are_checked_without_a_service(spawned: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the options of an upload; the status says whether something is wrong."""
    monkeypatch.setenv("SVM_URL", "http://127.0.0.1:1")
    done = spawned("check", "iris.csv")
    assert done.returncode == 0
    assert "petal_width" in done.stdout
    assert "fact: The rows are sorted by `species`" in done.stdout
    lines = Path("iris.csv").read_text().splitlines()
    head, *rows = [f"{line},{line.rpartition(',')[2][-4:]}" for line in lines]
    Path("copy.csv").write_text("\n".join([head, *rows]).replace(",", ";"))
    done = spawned("check", "copy.csv", "--target", "species", "--delimiter", "semicolon", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [one["name"] for one in found["audit"]] == ["equal-to-label", "sorted-by-label"]
    assert (found["id"], found["name"]) == (None, "copy.csv")
    Path("broken.csv").write_text("a,b\n1,2\n3")
    done = spawned("check", "broken.csv")
    assert done.returncode == 1
    assert "ragged-row" in done.stderr
    assert sorted(path.name for path in Path().iterdir()) == [
        *("broken.csv", "copy.csv", "iris.csv", "rows.csv")
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(
    server: Server, spawned: Run, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands, options, and names that the service has; without a service nothing, at once."""
    with Client(server.url) as client:
        dataset = client.upload(Path("iris.csv"))
        client.train(dataset, "completed").wait(60)

    def completed(line: str) -> str:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        words |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        words["_SVM_SERVICE_COMPLETE"] = f"complete_{shell}"
        for name, value in words.items():
            monkeypatch.setenv(name, value)
        done = spawned()
        assert "Traceback" not in done.stderr
        return str(done.stdout)

    assert "predict" in completed("svm-service pre")
    assert "--coverage" in completed("svm-service predict --cov")
    assert "completed" in completed("svm-service predict compl")
    assert "completed/latest" in completed("svm-service predict completed/")
    assert str(dataset.id) in completed("svm-service split ds_")
    monkeypatch.setenv("SVM_URL", "http://127.0.0.1:9")
    assert "completed" not in completed("svm-service predict compl")
