"""The lists of datasets, jobs and models without scripts: orders, filters, deletions of several."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from service.storage.database.pages import PageRequest
from tests.service.dashboard.browser import Browser
from tests.service.models.registered_models import RegisteredModels, registered

__all__ = ["registered"]

pytestmark = pytest.mark.one_application

HOSTILE = {
    "percent": "%",
    "underscore": "_",
    "escape": "/",
    "quotes": "'\" or 1=1 --",
    "markup": "<b>",
    "emoji": "🌧️",
    "control": "\x00\x07",
    "blank": "   ",
}


def _listed(browser: Browser) -> list[str]:
    return re.findall(r'<th scope="row"><a href="[^"]*">([^<]*?) *<', browser.page.html)


def _uploaded(client: TestClient, name: str, number: int = 0) -> str:
    text = "".join(f"{i}.{number},{'ab'[i % 2]}\n" for i in range(12))
    reply = client.post(
        "/v1/datasets", files={"file": ("a.csv", f"x,y\n{text}")}, data={"name": name}
    )
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


def test_headings_turn_the_order(browser: Browser, registered: RegisteredModels) -> None:
    """By time and by name, in both directions; the heading says which."""
    for name in ("clouds", "apples", "bread"):
        registered.add(name)
    assert _listed_at(browser, "/models") == ["bread", "apples", "clouds"]
    assert 'class="num" aria-sort="descending"><a href="/models?sort=oldest">' in browser.page.html
    assert "aria-sort" in browser.follow("Created").html
    assert _listed(browser) == ["clouds", "apples", "bread"]
    browser.follow("Model")
    assert _listed(browser) == ["apples", "bread", "clouds"]
    assert '<th scope="col" aria-sort="ascending"><a href="/models?sort=name-down">' in (
        browser.page.html
    )
    browser.follow("Model")
    assert _listed(browser) == ["clouds", "bread", "apples"]


def test_data_are_ordered_by_each_heading(browser: Browser, client: TestClient) -> None:
    """The largest first, names in any case; pages show each once, also those without a name."""
    for n, name in enumerate(("Zoo", "apples", "", "bread", "bread")):
        text = "".join(f"{i},{n},{'ab'[i % 2]}\n" for i in range(12 + n % 3))
        upload = client.post(
            "/v1/datasets",
            params={"name": name} if name else {},
            content=text,
            headers={"Content-Type": "text/csv"},
        )
        assert upload.status_code == 201, upload.text
    for heading, first, turned in (
        ("Data", ["unnamed", "apples", "bread", "bread", "Zoo"], "descending"),
        ("Rows", ["unnamed", "bread", "apples", "bread", "Zoo"], "ascending"),
    ):
        browser.go("/datasets?page_size=2")
        browser.follow(heading)
        shown = _listed(browser)
        while "Next page" in browser.page.links:
            browser.follow("Next page")
            shown += _listed(browser)
        assert shown == first
        browser.go("/datasets")
        browser.follow(heading)
        browser.follow(heading)
        assert f'aria-sort="{turned}"' in browser.page.html
        assert sorted(_listed(browser)) == sorted(first)
        assert _listed(browser)[::4] == first[::-4]


def _listed_at(browser: Browser, path: str) -> list[str]:
    browser.go(path)
    return _listed(browser)


@pytest.mark.parametrize("sort", ["newest", "oldest", "name", "name-down"])
def test_pages_in_any_order_show_each_once(
    browser: Browser, registered: RegisteredModels, sort: str
) -> None:
    """The links to the next pages keep the order, and a token is of one order."""
    for name in "edcab":
        registered.add(name)
    shown = _listed_at(browser, f"/models?q=&page_size=2&sort={sort}")  # as the form sends it
    token = re.search('page_token=([^&"]+)', browser.page.links["Next page"])
    assert token is not None
    assert browser.go(f"/models?sort=name&page_token={token[1]}").status == (
        200 if sort == "name" else 400
    )
    browser.go(f"/models?q=&page_size=2&sort={sort}")
    while "Next page" in browser.page.links:
        browser.follow("Next page")
        assert "First page" in browser.page.links
        shown += _listed(browser)
    expected = {"newest": "bacde", "oldest": "edcab", "name": "abcde", "name-down": "edcba"}
    assert shown == list(expected[sort])


def test_names_are_found_by_a_part(browser: Browser, client: TestClient) -> None:
    """In any case, as the text is, with its place in the form kept."""
    for number, name in enumerate(("Clouds 10 %.csv", "clouds_2.csv", "rain.csv")):
        _uploaded(client, name, number)
    for text, expected in {
        "CLOUD": ["clouds_2.csv", "Clouds 10 %.csv"],
        "%": ["Clouds 10 %.csv"],
        "_": ["clouds_2.csv"],
        " rain": ["rain.csv"],
        "snow": [],
    }.items():
        browser.go(f"/datasets?{urlencode({'q': text})}")
        assert _listed(browser) == expected, text
    assert "None of the newest 10,000 datasets" in browser.page.text
    assert browser.page.links["Show all"] == "/datasets"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("path", ["/datasets", "/jobs", "/models"])
def test_any_text_can_be_searched(
    client: TestClient, registered: RegisteredModels, path: str, text: str
) -> None:
    """It is compared as it is, and shown as it was given."""
    registered.add("rain")
    reply = client.get(path, params={"q": text})
    assert reply.status_code == 200
    assert "<b>" not in reply.text
    if path == "/models":
        assert ("/models/rain" in reply.text) == (text in (HOSTILE["blank"], HOSTILE["control"]))


@pytest.mark.parametrize(
    "query",
    [{"q": "a" * 10_000}, {"sort": "size"}, {"q": "a", "page_token": "x"}],
    ids=["long text", "unknown order", "bad token"],
)
def test_bad_queries_are_refused(client: TestClient, query: dict[str, str]) -> None:
    reply = client.get("/datasets", params=query)
    assert reply.status_code == 400
    assert "This did not work" in reply.text


def test_jobs_are_filtered_by_kind_and_state(browser: Browser) -> None:
    """Together; each link keeps the other filters."""
    browser.send("/samples/iris")
    browser.go("/train")
    browser.send("/train", model_name="iris")
    assert _listed_at(browser, "/jobs?kind=train&state=queued&q=iri") == ["iris"]
    assert browser.page.links["failed 0"] == "/jobs?kind=train&state=failed&q=iri"
    assert _listed_at(browser, "/jobs?kind=evaluate") == []
    assert _listed_at(browser, "/jobs?kind=&q=") == ["iris"]


def _delete(browser: Browser, of: str, ids: list[str]) -> None:
    browser.go(f"/{of}")
    browser.send(f"/{of}/delete", id=ids)


def test_several_datasets_are_deleted_after_a_question(
    browser: Browser, client: TestClient
) -> None:
    """The page says what goes and what stays; nothing is deleted before."""
    ids = [_uploaded(client, name, k) for k, name in enumerate(("one", "two", "three"))]
    _delete(browser, "datasets", ids[:2])
    assert "<h1>Delete 2 datasets?</h1>" in browser.page.html
    assert "models and jobs that used the data" in browser.page.text
    assert "one" in browser.page.text
    assert len(client.get("/v1/datasets").json()["datasets"]) == 3
    browser.send("/datasets/delete")
    assert browser.page.path == "/datasets"
    assert _listed(browser) == ["three"]


def test_what_is_not_deleted_is_told_by_row(browser: Browser, client: TestClient) -> None:
    """One that is in use stays, one that is gone is passed over, the others are deleted."""
    ids = [_uploaded(client, name, k) for k, name in enumerate(("used <b>", "gone", "free"))]
    browser.go(f"/train?dataset_id={ids[0]}")
    browser.send("/train", model_name="clouds")
    job = browser.page.path.rpartition("/")[2]
    browser.go("/datasets")
    client.delete(f"/v1/datasets/{ids[1]}")
    browser.send("/datasets/delete", id=ids)
    assert "already deleted" in browser.page.text
    browser.send("/datasets/delete")
    assert "1 of 3 datasets was not deleted" in browser.page.text
    assert f"{job} needs the dataset" in browser.page.text
    assert "used <b>" in browser.page.text
    assert _listed_at(browser, "/datasets") == ["used &lt;b&gt;"]
    _delete(browser, "jobs", [job])
    browser.send("/jobs/delete")
    assert "the job is queued; cancel it first" in browser.page.text


def test_models_with_an_alias_are_kept(browser: Browser, registered: RegisteredModels) -> None:
    """As versions are to which one points."""
    registered.add("iris", set_alias="default")
    registered.add("iris")
    registered.add("moons")
    _delete(browser, "models", ["iris", "moons"])
    browser.send("/models/delete")
    assert "default points to iris" in browser.page.text
    assert _listed_at(browser, "/models") == ["iris"]
    browser.go("/models/iris")
    browser.send("/models/delete", id=["iris/1", "iris/2"])
    assert "<h1>Delete 2 versions?</h1>" in browser.page.html
    browser.send("/models/delete")
    assert "1 of 2 versions was not deleted" in browser.page.text
    assert [one.version for one in registered.registry.versions("iris", PageRequest()).items] == [1]


@pytest.mark.parametrize("of", ["datasets", "jobs", "models"])
@pytest.mark.parametrize(
    "ids",
    [[], ["x' or 1=1"], ["../../etc"], ["a" * 10_000], [""]],
    ids=["none", "quote", "path", "long", "empty"],
)
def test_nonsense_is_not_deleted(client: TestClient, of: str, ids: list[str]) -> None:
    for more in ({}, {"confirmed": "yes"}):
        reply = client.post(f"/{of}/delete", data={"id": ids, **more})
        assert reply.status_code == 400
        assert "This did not work" in reply.text


def test_a_thousand_are_deleted_at_once(client: TestClient) -> None:
    """One more is refused."""
    kept = _uploaded(client, "kept")
    ids = [f"ds_{i:032x}" for i in range(999)] + [kept]
    reply = client.post("/datasets/delete", data={"id": ids})
    assert "Delete 1,000 datasets?" in reply.text
    assert "and 980 more" in reply.text
    reply = client.post("/datasets/delete", data={"id": ids, "confirmed": "yes"})
    assert reply.url.path == "/datasets"
    assert client.get("/v1/datasets").json()["datasets"] == []
    assert client.post("/datasets/delete", data={"id": [*ids, f"ds_{999:032x}"]}).status_code == 400


@pytest.mark.parametrize("path", ["/datasets", "/jobs", "/models"])
def test_empty_lists_say_what_to_do(browser: Browser, path: str) -> None:
    page = browser.go(path)
    assert "There are no" in page.text
    samples: Any = [form.action for form in page.forms if form.action.startswith("/samples/")]
    assert samples or "Upload data" in page.links
