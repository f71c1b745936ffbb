"""Plots by URL, rendered by a real process from real versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any, get_args
from xml.etree import ElementTree

import numpy as np
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from service.app import create_app
from service.charts.palette import DARK, LIGHT
from service.models.plots import ONLY_OF, PlotKind, file_name
from service.storage.blobs import open_blobs
from service.storage.database import Database
from service.storage.database.tables import derived_files, job_trace
from service.storage.ownership import sweep
from tests.service.models.example_models import MODELS, ExampleModels, csv_of, rows_of
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline

SVG = "{http://www.w3.org/2000/svg}"
KINDS = [kind for kind in get_args(PlotKind) if ONLY_OF.get(kind) != "numbers"]
OF_NUMBERS = [kind for kind in get_args(PlotKind) if ONLY_OF.get(kind) != "classes"]
CALIBRATED = {model for model, spec in MODELS.items() if "calibration" in spec}


@pytest.fixture(scope="module")
def more_models(examples: ExampleModels) -> Iterator[RegisteredModels]:
    """For versions without a job."""
    registered = RegisteredModels(examples.settings)
    yield registered
    registered.database.close()


def url(model: str, kind: str, version: int = 1) -> str:
    return f"/v1/models/{model}/versions/{version}/plots/{kind}.svg"


def drawn(client: TestClient, model: str, kind: str, version: int = 1) -> bytes:
    reply = client.get(url(model, kind, version))
    assert reply.status_code == 200, reply.text
    return reply.content


def problem(client: TestClient, model: str, kind: str, version: int = 1) -> tuple[int, str, str]:
    """(status, code, detail)"""
    reply = client.get(url(model, kind, version))
    body: dict[str, Any] = reply.json()
    return reply.status_code, body["code"], body["detail"]


@pytest.mark.spread(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_every_kind_of_every_model(examples: ExampleModels, model: str, kind: PlotKind) -> None:
    """A small picture with a description, or a problem with the reason why there is none."""
    if kind in ("reliability", "none-of-these") and model not in CALIBRATED:
        status, code, detail = problem(examples.client, model, kind)
        assert (status, code) == (422, "not-calibrated")
        assert "`validation`" in detail
        return
    reply = examples.client.get(url(model, kind))
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "image/svg+xml"
    assert len(reply.content) <= 200_000
    root = ElementTree.fromstring(reply.content)
    assert [child.tag for child in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
    assert f"{model} version 1" in (root[0].text or "")
    assert len(root[1].text or "") > 40
    assert root.get("role") == "img"
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert root[0].text in texts
    assert not list(root.iter(f"{SVG}image"))
    assert b"<script" not in reply.content
    assert b'href="http' not in reply.content


@pytest.fixture(scope="module", params=["linear", "logarithmic"])
def of_numbers(examples: ExampleModels, request: pytest.FixtureRequest) -> str:
    """The name of a model of numbers, with validation rows."""
    X, _ = rows_of(150, 3, 2, seed=7)
    prices = np.exp(X @ np.array([0.2, -0.1, 0.3]) + 8.0)
    dataset = examples.upload(csv_of(X, [f"{price:.2f}" for price in prices], ["a", "b", "c"]))
    options = {"target_scale": request.param, "solver": {"name": "newton"}}
    model = f"prices-{request.param}"
    examples.train(model, dataset, validation={"fraction": 0.2}, **options)
    return model


@pytest.mark.spread(5)
@pytest.mark.parametrize("kind", get_args(PlotKind))
def test_plots_of_numbers(examples: ExampleModels, of_numbers: str, kind: PlotKind) -> None:
    """A picture of the errors, or one sentence that says what the plot is of."""
    if kind not in OF_NUMBERS:
        expected = f"`{kind}` is a plot of classes, and {of_numbers} version 1 predicts numbers"
        assert problem(examples.client, of_numbers, kind) == (404, "plot-unavailable", expected)
        return
    svg = drawn(examples.client, of_numbers, kind).decode()
    assert len(svg) <= 200_000
    said = ElementTree.fromstring(svg)[1].text or ""
    if kind in ONLY_OF:
        assert "30 validation rows" in said
        assert "ε = " in said
        assert ("logarithm" in said) == of_numbers.endswith("logarithmic")
    elif kind != "learning-curve":
        assert "mean absolute error, in the unit of the target" in said
    colors = set(re.findall(r'(?:fill|stroke)="(#\w+)"', svg))
    assert {LIGHT["card"], LIGHT["ink"]} <= colors <= set(LIGHT.values())


def test_plots_of_numbers_are_not_those_of_classes(examples: ExampleModels) -> None:
    """The reason says it."""
    expected = "`residuals` is a plot of numbers, and binary version 1 predicts classes"
    assert problem(examples.client, "binary", "residuals")[2] == expected


def test_plot_is_deterministic(examples: ExampleModels) -> None:
    """Two processes render the same bytes."""
    first = {kind: drawn(examples.client, "ten", kind) for kind in KINDS}
    database = Database(examples.settings.database_url)
    with database.write() as connection:
        connection.execute(derived_files.delete())
    database.close()
    with TestClient(create_app(examples.settings)) as client:
        assert {kind: drawn(client, "ten", kind) for kind in KINDS} == first


def test_plot_is_rendered_once(examples: ExampleModels) -> None:
    """The second reply is the stored file with the same ETag; `If-None-Match` gives 304."""
    first = examples.client.get(url("binary", "roc"))
    database = Database(examples.settings.database_url)
    with database.read() as connection:
        rows = sa.select(derived_files.c.file_key).where(derived_files.c.model_name == "binary")
        keys = list(connection.scalars(rows))
    again = examples.client.get(url("binary", "roc"))
    assert (again.headers["etag"], again.content) == (first.headers["etag"], first.content)
    with database.read() as connection:
        assert list(connection.scalars(rows)) == keys
    database.close()
    seen = {"If-None-Match": first.headers["etag"]}
    unchanged = examples.client.get(url("binary", "roc"), headers=seen)
    assert unchanged.status_code == 304
    policy = "content-security-policy"
    assert unchanged.headers[policy] == first.headers[policy]


def test_damaged_plot_is_rendered_again(examples: ExampleModels) -> None:
    """Without an error for the caller."""
    before = drawn(examples.client, "binary", "margins")
    blobs = open_blobs(examples.settings)
    for key in list(blobs.keys("derived")):
        blobs.write(key, b"<svg/>")
    assert drawn(examples.client, "binary", "margins") == before


def test_plots_do_not_show_deleted_data(examples: ExampleModels) -> None:
    """Plots that show the data are deleted; a boundary of two features is rendered without them."""
    client = examples.client
    dataset_id = examples.upload("a,b,k\n1,2,x\n2,1,x\n5,6,y\n6,5,y\n5.5,5,y\n1,1.5,x\n")
    spec = {"solver": {"name": "newton", "C": 1.0}, "scaling": "standardize"}
    version = examples.train("gone", dataset_id, **spec)
    with_points = drawn(client, "gone", "boundary", version)
    assert b"6 training rows" in with_points
    drawn(client, "gone", "roc", version)
    drawn(client, "gone", "confusion", version)
    assert client.delete(f"/v1/datasets/{dataset_id}").status_code == 204
    for kind in ("roc", "margins"):
        status, code, detail = problem(client, "gone", kind, version)
        assert (status, code) == (404, "plot-unavailable")
        assert "deleted" in detail
    without = drawn(client, "gone", "boundary", version)
    assert b"the training data were deleted" in without
    assert len(without) < len(with_points)
    assert b"6 of 6 training rows" in drawn(client, "gone", "confusion", version)
    database = Database(examples.settings.database_url)
    with database.read() as connection:
        names = sa.select(derived_files.c.name).where(derived_files.c.model_name == "gone")
        assert sorted(connection.scalars(names)) == [
            file_name("boundary"),
            file_name("confusion"),
        ]
    database.close()


def test_plots_are_deleted_with_their_version(examples: ExampleModels) -> None:
    """The rows at once, the files by the next sweep; those of other versions are kept."""
    version = examples.train("plane", examples.datasets["plane"], **MODELS["plane"])
    kept, dropped = (drawn(examples.client, "plane", "confusion", v) for v in (1, version))
    assert kept.replace(b"version 1", b"") == dropped.replace(f"version {version}".encode(), b"")
    reply = examples.client.delete(f"/v1/models/plane/versions/{version}")
    assert reply.status_code == 204
    assert problem(examples.client, "plane", "confusion", version)[:2] == (404, "not-found")
    database, blobs = Database(examples.settings.database_url), open_blobs(examples.settings)
    sweep(database, blobs, min_age_s=0, again_s=0)
    with database.read() as connection:
        named = set(connection.scalars(sa.select(derived_files.c.file_key)))
    database.close()
    assert set(blobs.keys("derived")) == named
    assert drawn(examples.client, "plane", "confusion") == kept


def test_learning_curve_needs_the_trace(examples: ExampleModels) -> None:
    """Histories are deleted after a while; the problem says why there is no plot."""
    version = examples.train("plane", examples.datasets["plane"], **MODELS["plane"])
    database = Database(examples.settings.database_url)
    job_id = examples.client.get(f"/v1/models/plane/versions/{version}").json()["job_id"]
    with database.write() as connection:
        connection.execute(job_trace.delete().where(job_trace.c.job_id == job_id))
    database.close()
    status, code, detail = problem(examples.client, "plane", "learning-curve", version)
    assert (status, code) == (404, "plot-unavailable")
    assert "trace" in detail


def test_version_without_anything_to_show(
    examples: ExampleModels, more_models: RegisteredModels
) -> None:
    """No data, no trace, no metrics: each kind of plot is a problem with its reason."""
    more_models.add("bare", fitted_pipeline(n_features=3))
    for kind in KINDS:
        status, code, _ = problem(examples.client, "bare", kind)
        unmeasured = kind in ("reliability", "none-of-these")
        expected = (422, "not-calibrated") if unmeasured else (404, "plot-unavailable")
        assert (status, code) == expected


@pytest.mark.parametrize("scaled", [False, True])
def test_boundary_of_two_features_needs_no_data(
    examples: ExampleModels, more_models: RegisteredModels, scaled: bool
) -> None:
    """It is drawn over a range from the model's parameters."""
    fitted = fitted_pipeline(("a", "b", "c"), 2, scaled=scaled)
    version = more_models.add("flat", fitted).version
    svg = drawn(examples.client, "flat", "boundary", version)
    assert b"the training data were deleted" in svg


def test_sixty_classes_fit(examples: ExampleModels, more_models: RegisteredModels) -> None:
    """The largest plots are smaller than 200 kB."""
    classes = [f"class {k:03}" for k in range(60)]
    version = more_models.add("many", fitted_pipeline(classes, 2))
    random = np.random.default_rng(0)
    matrix = random.integers(0, 5, size=(60, 60)) + 200 * np.eye(60, dtype=np.int64)
    more_models.set_metrics(version, {"validation": {"confusion_matrix": matrix.tolist()}})
    for kind in ("boundary", "confusion"):
        assert len(drawn(examples.client, "many", kind)) <= 200_000


def test_wrong_addresses_are_problems(examples: ExampleModels) -> None:
    """Unknown kinds and versions."""
    assert problem(examples.client, "ten", "heatmap")[:2] == (400, "invalid-parameter")
    assert problem(examples.client, "ten", "roc", 99)[:2] == (404, "not-found")
    assert problem(examples.client, "unknown", "roc")[:2] == (404, "not-found")
    assert problem(examples.client, "No", "roc")[:2] == (400, "invalid-name")


def test_colors_are_those_of_the_dashboard() -> None:
    """In light and in dark mode."""
    style = (resources.files("service.web") / "assets" / "frame.css").read_text()
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w+);", part)) for part in style.split("@media")[:2]
    )
    assert light.pop("card") == "#fff"
    own = {"card", "faint"}
    assert LIGHT.items() - {(name, LIGHT[name]) for name in own} <= light.items()
    assert DARK.items() - {("faint", DARK["faint"])} <= dark.items()


@pytest.mark.parametrize("kind", KINDS)
def test_every_color_has_one_for_dark_mode(examples: ExampleModels, kind: PlotKind) -> None:
    """As an attribute, which a rule replaces; the background, too."""
    svg = drawn(examples.client, "ten" if kind != "reliability" else min(CALIBRATED), kind).decode()
    colors = set(re.findall(r'(?:fill|stroke)="(#\w+)"', svg))
    assert {LIGHT["card"], LIGHT["ink"]} <= colors <= set(LIGHT.values())
    assert not re.findall(r'style="[^"]*#\w+', svg)
    assert "DejaVu" not in svg
    card = f'="{LIGHT["card"]}"]', f":{DARK['card']}}}"
    assert all(f"[{name}{card[0]}{{{name}{card[1]}" in svg for name in ("fill", "stroke"))
