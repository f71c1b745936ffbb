"""What a real kernel of Jupyter shows: a bar that moves, and resources as tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from service.client import notebook
from service.client.fields import DatasetFields
from tests.docs.test_pages import blocks
from tests.journeys.server import Server
from tests.journeys.uploads.test_upload_to_predictions import iris_csv
from tools.make_tables import DOCS

CELLS = """\
from service.client import Client
client = Client()
dataset = client.upload("iris.csv", name="flowers <1>")
dataset
---
slow = {"duality_gap": 1e-12, "max_epochs": 10**7, "time_budget_s": 1.5}
job = client.train(dataset, "noted", "pegasos", validation={"fraction": .25}, stopping=slow, seed=1)
job.wait()
---
client.evaluate("noted", dataset).wait().results()
---
client.compare(dataset, ["newton", "smo"], seed=1).wait().results()
---
job.model_version()
---
client.model("noted")
---
print(*client.predict("noted", [[5.1, 3.5, 1.4, 0.2]]))
"""
"""The whole journey, comparison and tables included."""
FIRST_BLOCK = blocks(DOCS / "notebooks.md")[0].code


class Watched(NotebookClient):
    """Keeps every bar that was shown, not only the last one."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.bars: list[str] = []

    @property
    def outputs(self) -> list[Any]:
        """Of each cell."""
        return [cell.outputs for cell in self.nb.cells]

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "update_display_data":
            self.bars.append(msg["content"]["data"]["text/html"])
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def cells(server: Server, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The outputs of each cell, and of the page's first block after them."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "iris.csv").write_bytes(iris_csv() + b"5,3,1,0.2,setosa\n")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SVM_URL", server.url)
        environment.setenv("IPYTHONDIR", str(folder / "ipython"))
        executed = _executed([*CELLS.split("---\n"), FIRST_BLOCK], folder)
    assert len(set(executed.bars)) > 3
    return executed.outputs


def _executed(cells: Sequence[str], folder: Path) -> Watched:
    code = [{"cell_type": "code", "source": cell} for cell in cells]
    empty: dict[str, Any] = {"metadata": {}, "outputs": [], "execution_count": None}
    made: Any = nbformat.from_dict
    document = made(
        {
            "cells": [{**cell, **deepcopy(empty), "id": f"c{i}"} for i, cell in enumerate(code)],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
    client = Watched(
        document, timeout=90, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return client


def _html(outputs: list[Any]) -> list[str]:
    shown = [one.get("data", {}) for one in outputs]
    return ["".join(data["text/html"]) for data in shown if "text/html" in data]


def test_journey_in_a_kernel(cells: list[Any]) -> None:
    """Upload, train, wait, evaluate, predict in at most twelve lines; no text on standard error."""
    assert len([line for line in CELLS.splitlines() if line != "---"]) <= 12
    assert not [one for outputs in cells for one in outputs if one.get("name") == "stderr"]
    upload, train, evaluation, comparison, version, model, predicted, _ = cells
    bar, table = _html(upload)
    assert 'value="100"' in bar
    assert all(text in table for text in ("flowers &lt;1&gt;", "setosa (51)", "<td"))
    bar, table = _html(train)
    assert re.search(r'noted succeeded <progress value="100".* s</small>', bar)
    assert re.search(r"reading [\d.]+ s, .*training [\d.]+ s, measuring .*, saving", bar)
    assert "<th" in table.partition("phases")[0]
    assert any(f"<strong>{word}</strong>" in table for _, word in notebook.STATUS.values())
    assert "validation accuracy" in table
    assert "versicolor" in _html(evaluation)[-1]
    assert all(text in _html(comparison)[-1] for text in ("newton", "smo", "certified, gap"))
    assert "<strong>Model noted/1</strong>" in _html(version)[-1]
    assert "latest version" in _html(model)[-1]
    assert predicted[0]["text"] == "setosa\n"


def test_page_about_notebooks_takes_twelve_lines(cells: list[Any]) -> None:
    """Its first block says whether the model is any good, which class is worst, and predicts."""
    assert len(list(filter(str.strip, FIRST_BLOCK.splitlines()))) <= 12
    outputs = cells[-1]
    assert not [one for one in outputs if one.get("name") == "stderr"]
    said = "".join(one["text"] for one in outputs if one["output_type"] == "stream")
    assert re.fullmatch(r"[01][.\d]* Certified: .*\n[a-z]+ [01][.\d]*\n\['setosa'\]\n", said), said


def test_values_are_escaped_and_small() -> None:
    """Names come from callers."""
    data: dict[str, Any] = {
        "id": "ds_1",
        "name": "<script>alert(1)</script>",
        "n_samples": 10**6,
        "n_features": 3,
        "sparse": True,
        "target": "<b>",
        "classes": [f"<i>{i}" for i in range(100)],
        "class_counts": [1] * 100,
        "warnings": [{"message": "<u>"}],
    }
    html = DatasetFields(None, data)._repr_html_()
    assert "1,000,000" in html
    assert "and 80 more" in html
    assert not re.search(r"<(script|b|i|u)>", html)
    assert "&lt;script&gt;" in html
    assert len(html) < 4000


def test_bar_of_a_narrow_terminal_has_the_state(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the time; what does not fit beside them has further lines."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    detail = "epoch 1,234 of 10,000, gap 0.12 %, a certificate in about 12 seconds, 3 of 4 problems"
    with notebook.show_bar(True, "irisw queued") as show:
        show("iriswide succeeded", 1.0, detail)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "iriswide succeeded" in shown
    assert "100%" in shown
    assert "…" not in shown


def test_no_kernel_no_bar() -> None:
    """In a program whose output is a file."""
    assert not notebook.in_kernel()
