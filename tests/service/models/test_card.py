"""Model cards: what the records of a version tell, in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.models.card import card_of, percent
from service.models.card_markdown import text
from tests.service.models.example_models import MODELS, Gallery
from tests.service.models.registered_models import Shelf

MARKDOWN = {"Accept": "text/markdown"}
SECTIONS = ("Intended use", "Limits", "Data", "Certificate", "Quality", "Settings", "Lineage")


def card(client: TestClient, model: str) -> dict[str, Any]:
    reply = client.get(f"/v1/models/{model}/versions/1/card")
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_card(gallery: Gallery, model: str) -> None:
    """JSON and Markdown say the same, and the figures are those of the version."""
    said = card(gallery.client, model)
    reply = gallery.client.get(f"/v1/models/{model}/versions/1/card", headers=MARKDOWN)
    assert reply.headers["content-type"] == "text/markdown; charset=utf-8"
    lines = reply.text.splitlines()
    assert lines[0] == f"# {model} version 1"
    assert [line[3:] for line in lines if line.startswith("## ")] == list(SECTIONS)
    for section in ("data", "certificate", "quality", "intended_use", "limits"):
        for sentence in said[section]:
            assert f"- {text(sentence)}" in lines
    version = gallery.client.get(f"/v1/models/{model}/versions/1").json()
    assert said["version"] == version
    assert percent(version["certificate"]["relative_gap"]) in said["certificate"][0]
    part = "validation" if "validation" in version["metrics"] else "train"
    assert f"{version['metrics'][part]['accuracy']:.1%}" in said["quality"][0]


def test_limits_follow_from_the_records(gallery: Gallery) -> None:
    """What was not held back or not calibrated is said, and only then."""
    measured, unmeasured = (
        " ".join(card(gallery.client, model)["limits"]) for model in ("binary", "kernel")
    )
    assert "measured on rows that it was trained on" in unmeasured
    assert "measured on rows that it was trained on" not in measured
    assert "Decision values are no probabilities" in unmeasured
    assert "held-out rows that they are measured on" in measured
    assert "Far from all support vectors" in unmeasured


def test_card_without_data_or_metrics(shelf: Shelf, client: TestClient) -> None:
    """A version whose data are gone has a card that says so."""
    shelf.set_metrics(shelf.add("bare"), {})
    said = card(client, "bare")
    assert "deleted" in said["data"][0]
    assert said["quality"] == ["Nothing was measured."]
    assert client.get("/v1/models/bare/versions/1/card", headers=MARKDOWN).status_code == 200


def test_probabilities_learnt_by_folds_are_said_so(shelf: Shelf) -> None:
    """With folds no row was held back: the scores come from other trainings than the model's."""
    folds = {"calibration": "sigmoid", "validation": {"folds": 3}}
    version = replace(shelf.add("folded"), spec=folds, calibration="sigmoid")
    limits = " ".join(card_of(version, None).limits)
    assert "learnt from the trainings of the folds" in limits
    assert "held-out rows" not in limits


def test_names_of_callers_are_no_markup(gallery: Gallery) -> None:
    """`class <0>` is shown as it is."""
    reply = gallery.client.get("/v1/models/plane/versions/1/card", headers=MARKDOWN)
    assert r"class \<0\>" in reply.text
    assert "class <0>" not in reply.text.split("```")[0]
    assert text("a|b\n# c `d` [e](f)") == r"a\|b \# c \`d\` \[e\]\(f\)"


def test_card_is_conditional_and_negotiated(gallery: Gallery) -> None:
    """Each form has a tag of its own; what is neither is refused."""
    url = "/v1/models/ten/versions/1/card"
    tags = set()
    for headers in ({}, MARKDOWN):
        reply = gallery.client.get(url, headers=headers)
        assert "accept" in reply.headers["vary"].lower()
        tags.add(reply.headers["etag"])
        again = gallery.client.get(url, headers={**headers, "If-None-Match": reply.headers["etag"]})
        assert again.status_code == 304
    assert len(tags) == 2
    refused = gallery.client.get(url, headers={"Accept": "text/html"})
    assert (refused.status_code, refused.json()["code"]) == (406, "not-acceptable")


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.00083, "0.083 %"), (0.5, "50 %"), (1e-9, "0.00000010 %"), (0.0, "0.0 %"), (1.0, "100 %")],
)
def test_percentages_have_two_digits(share: float, shown: str) -> None:
    assert percent(share) == shown
