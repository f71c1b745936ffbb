"""Model cards: the records of a version in sentences."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.common.figures import percent
from service.models.card import SECTIONS as SECTIONS_OF_CARD
from service.models.card import card_of, text
from tests.service.models.example_models import MODELS, NUMERIC, ExampleModels
from tests.service.models.registered_models import RegisteredModels

MARKDOWN = {"Accept": "text/markdown"}
SECTIONS = ("Intended use", "Limits", "Data", "Certificate", "Quality", "Settings", "Lineage")


def card(client: TestClient, model: str) -> dict[str, Any]:
    reply = client.get(f"/v1/models/{model}/versions/1/card")
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_card(examples: ExampleModels, model: str) -> None:
    """JSON and Markdown have the same sentences, with the figures of the version."""
    sections = card(examples.client, model)
    reply = examples.client.get(f"/v1/models/{model}/versions/1/card", headers=MARKDOWN)
    assert reply.headers["content-type"] == "text/markdown; charset=utf-8"
    lines = reply.text.splitlines()
    assert lines[0] == f"# {model} version 1"
    assert [line[3:] for line in lines if line.startswith("## ")] == list(SECTIONS)
    for section in ("data", "certificate", "quality", "intended_use", "limits"):
        for sentence in sections[section]:
            assert f"- {text(sentence)}" in lines
    version = examples.client.get(f"/v1/models/{model}/versions/1").json()
    assert sections["version"] == version
    assert sections["certificate"][0] == version["certificate"]["summary"]
    subset = "validation" if "validation" in version["metrics"] else "train"
    assert percent(version["metrics"][subset]["accuracy"]) in sections["quality"][0]


def test_limits_follow_from_the_records(examples: ExampleModels) -> None:
    """A missing validation set or calibration is stated, and only then."""
    measured, unmeasured = (
        " ".join(card(examples.client, model)["limits"]) for model in ("binary", "kernel")
    )
    assert "measured on its training rows" in unmeasured
    assert "measured on its training rows" not in measured
    assert "Decision values are not probabilities" in unmeasured
    assert "Probabilities were calibrated on the validation set." in measured
    assert "Far from all support vectors" in unmeasured


def test_card_of_numbers_has_errors_beside_those_of_a_constant(examples: ExampleModels) -> None:
    """Errors with intervals, ε, the scale of the cost, and what prediction intervals cover."""
    lines = [f"{x},{x % 7},{2 * x + (x % 7) ** 3}.5" for x in range(150)]
    dataset = examples.upload("\n".join(["a,b,price", *lines]) + "\n")
    quick = {"name": "auto", "effort": "quick"}
    examples.train("numbers", dataset, solver=quick, validation={"fraction": 0.2})
    sections = card(examples.client, "numbers")
    measured = sections["version"]["metrics"]["validation"]
    quality = " ".join(sections["quality"])
    assert sections["summary"].startswith("A linear model that predicts a number from 2 features")
    assert "It gives values and prediction intervals" in sections["summary"]
    half = f"half of its errors are below {measured['median_absolute_error']:.4g} (95 % interval"
    assert half in sections["quality"][0]
    assert f"the median of the training rows gives {measured['baseline']['mae']:.4g}" in quality
    assert "R² is" in quality
    assert "from the errors of n = 30 rows" in quality
    assert "k/(n + 1); 19 models of 20 reach" in quality
    certificate = " ".join(sections["certificate"])
    assert "half the robust spread (1.48 MAD)" in certificate
    assert "standardized target" in certificate
    said = json.dumps({name: sections[name] for name in SECTIONS_OF_CARD})
    assert "classifier" not in said
    assert "predicts one of its classes" not in said
    assert "Decision values" not in said


def test_card_says_what_auto_compared(examples: ExampleModels) -> None:
    """With what it expects on new rows, which then is not unknown."""
    lines = [f"{x},{x % 7},{'in' if x % 7 in (2, 3, 4) else 'out'}" for x in range(60)]
    dataset = examples.upload("\n".join(["a,b,where", *lines]) + "\n")
    examples.train("searched", dataset, solver={"name": "auto", "effort": "balanced"})
    sections = card(examples.client, "searched")
    summary = sections["version"]["search"]["summary"]
    cross_fitted = f"{summary}. That is cross-fitted: "
    assert [one for one in sections["quality"] if one.startswith(cross_fitted)]
    assert "not known" not in " ".join(sections["limits"])


def test_card_begins_with_what_is_expected_on_new_rows(examples: ExampleModels) -> None:
    """The metrics of folds are too good if their rows chose the setting."""
    lines = [f"{x},{x % 7},{'in' if x % 7 in (2, 3, 4) else 'out'}" for x in range(60)]
    dataset = examples.upload("\n".join(["a,b,where", *lines]) + "\n")
    auto = {"name": "auto", "effort": "balanced"}
    examples.train("folded", dataset, solver=auto, validation={"folds": 3})
    sections = card(examples.client, "folded")
    version, quality = sections["version"], sections["quality"]
    assert quality[0].startswith(f"{percent(version['search']['score'])} of new rows are expected")
    assert re.search(r"[0-9] % interval [0-9.]+ to [0-9.]+ %, from 60 rows", quality[0])
    assert not re.search("[0-9]%", " ".join(map(str, sections.values())))
    assert "cross-fitted" in quality[0]
    accuracy = percent(version["metrics"]["validation"]["accuracy"])
    assert quality[1].startswith(f"{accuracy} of 60 valid")
    assert "too good" in quality[2]
    assert f"{version['search']['summary']}." in quality


@pytest.mark.parametrize("model", NUMERIC)
def test_every_model_of_numbers_has_a_card(numeric: ExampleModels, model: str) -> None:
    """It speaks of errors, and of factors with logarithms."""
    sections = card(numeric.client, model)
    said = {name: " ".join(sections[name]) for name in SECTIONS_OF_CARD}
    assert "accuracy" not in " ".join(said.values())
    assert "errors are in standard deviations" in said["certificate"]
    assert "target is between" in said["data"]
    if model == "seen":
        assert "its errors on new rows are not known, and probably larger" in said["limits"]
        assert "no prediction intervals" in said["quality"]
        assert "Far from all support vectors every row gets the same number." in said["limits"]
    if model == "tails":
        measured = sections["version"]["metrics"]["validation"]
        (usual,) = (one for one in measured["conformal"]["coverages"] if one["coverage"] == 0.9)
        factor = f"{math.exp(usual['half_width']):.4g}"
        assert f"from 1/{factor} to {factor} times the prediction" in said["quality"]
        assert "ε = 0.01 of the logarithm cost nothing: as the settings say" in said["certificate"]
        assert "n = 36" in said["quality"]


def test_card_of_skewed_targets_offers_logarithms(numeric: ExampleModels) -> None:
    """By the rule of the job's warning; not if the model is of logarithms."""
    dataset = numeric.datasets["tails"]
    version = numeric.train("plain", dataset)
    assert version == 1
    offer = '"target_scale": "logarithmic"'
    assert offer in " ".join(card(numeric.client, "plain")["limits"])
    for model in NUMERIC:
        assert offer not in " ".join(card(numeric.client, model)["limits"])


@pytest.mark.parametrize("model", ["prices", "seen"])
def test_card_of_an_imported_model_of_numbers(numeric: ExampleModels, model: str) -> None:
    """Its ε is not known here, its intervals are those of the file."""
    client = numeric.client
    content = client.get(f"/v1/models/{model}/versions/1/export", params={"format": "npz"}).content
    headers = {"Content-Type": "application/x-npz"}
    reply = client.post(f"/v1/models/{model}-card/versions", content=content, headers=headers)
    assert reply.status_code == 201, reply.text
    sections = card(client, f"{model}-card")
    assert sections["quality"] == ["Nothing was measured."]
    assert "not known cost" not in " ".join(sections["certificate"])
    markdown = client.get(f"/v1/models/{model}-card/versions/1/card", headers=MARKDOWN)
    assert markdown.status_code == 200


def test_card_without_data_or_metrics(registered: RegisteredModels, client: TestClient) -> None:
    """The card states that the training data were deleted."""
    registered.set_metrics(registered.add("bare"), {})
    sections = card(client, "bare")
    assert "deleted" in sections["data"][0]
    assert sections["quality"] == ["Nothing was measured."]
    assert client.get("/v1/models/bare/versions/1/card", headers=MARKDOWN).status_code == 200


def test_card_names_calibration_by_folds(registered: RegisteredModels) -> None:
    """With folds there is no validation set: the scores are those of the folds' models."""
    folds = {"calibration": "sigmoid", "validation": {"folds": 3}}
    version = replace(registered.add("folded"), spec=folds, calibration="sigmoid")
    limits = " ".join(card_of(version, None).limits)
    assert "calibrated on the scores of the folds" in limits
    assert "validation set" not in limits


@pytest.mark.parametrize(
    ("features", "exact", "said"),
    [
        ("nystroem", {"excess": 0.05}, None),
        ("nystroem", {"excess": 0.5}, "a much lower cost may be possible: smo"),
        ("nystroem", {"excess": None}, "a much lower cost may be possible: smo"),
        ("nystroem", None, "was not bounded: smo"),
        ("random-fourier", None, "cannot be certified with the kernel itself: smo"),
    ],
)
def test_card_offers_smo_unless_it_could_gain_little(
    registered: RegisteredModels, features: str, exact: dict[str, Any] | None, said: str | None
) -> None:
    """By the excess with the kernel itself, if it is known."""
    version = registered.add("approximated")
    certificate = version.result["certificate"] | {"kernel": "approximated", "exact": exact}
    version = replace(version, spec={"features": {"name": features}, **version.spec})
    version = replace(version, result=version.result | {"certificate": certificate})
    sentences = " ".join(card_of(version, None).certificate)
    assert (said in sentences) if said else ("smo" not in sentences)


def test_names_from_callers_are_escaped(examples: ExampleModels) -> None:
    """`class <0>` is shown literally."""
    reply = examples.client.get("/v1/models/plane/versions/1/card", headers=MARKDOWN)
    assert r"class \<0\>" in reply.text
    assert "class <0>" not in reply.text.split("```")[0]
    assert text("a|b\n# c `d` [e](f)") == r"a\|b \# c \`d\` \[e\]\(f\)"


def test_card_is_conditional_and_negotiated(examples: ExampleModels) -> None:
    """Each format has its own ETag; other formats are refused."""
    url = "/v1/models/ten/versions/1/card"
    tags = set()
    for headers in ({}, MARKDOWN):
        reply = examples.client.get(url, headers=headers)
        assert "accept" in reply.headers["vary"].lower()
        tags.add(reply.headers["etag"])
        again = examples.client.get(
            url, headers={**headers, "If-None-Match": reply.headers["etag"]}
        )
        assert again.status_code == 304
    assert len(tags) == 2
    refused = examples.client.get(url, headers={"Accept": "text/html"})
    assert (refused.status_code, refused.json()["code"]) == (406, "not-acceptable")


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.00083, "0.083 %"), (0.5, "50.0 %"), (1e-9, "< 0.0001 %"), (0.0, "0 %"), (1.0, "100 %")],
)
def test_small_percentages_have_two_digits(share: float, shown: str) -> None:
    assert percent(share) == shown
