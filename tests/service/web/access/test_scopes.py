"""Scopes: every route with every scope, every path of predictions, keys created and revoked."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from service.app import create_app
from service.common.keys import SCOPES, KeyExists, Keys
from service.settings import Limits, Settings
from service.storage.database import Database
from service.web.access import authenticator
from service.web.access.scopes import authorized
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.data import csv_of, job_body
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline, registered
from tests.service.predictions.predict_paths import PATHS, PredictPath, opened, served
from tests.waiting import until

__all__ = ["registered"]

ROW = {"instances": [[0.1, 0.2, 0.3]]}
PREDICT = "/v1/models/iris/predict"
PUBLIC = {"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"auth": "on"})


@pytest.fixture
def keys(database: Database) -> Keys:
    return Keys(database)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticator, "REFRESH_S", 0.05)


@pytest.fixture(params=PATHS)
def predict_path(request: pytest.FixtureRequest, settings: Settings) -> Iterator[PredictPath]:
    with opened(request.param, settings) as predict_path:
        yield predict_path


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def operations(app: FastAPI) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in app.openapi()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_route_with_every_scope(settings: Settings, keys: Keys) -> None:
    """As in the document: 401 without a key, 403 without the required scope, else neither. Only
    health and problems require no key."""
    texts = {scope: bearer(keys.create(scope, [scope])[1]) for scope in SCOPES}
    app = create_app(settings)
    seen = 0
    with TestClient(app) as client:
        for method, template, operation in operations(app):
            path = re.sub(r"\{(\w+)\}", r"\1", template)
            needed = operation["security"]
            if not needed:
                assert path in PUBLIC or path.startswith("/problems")
                assert client.request(method, path).status_code != 401
                continue
            scopes = [scope for each in needed for scope in each["key"]]
            refused = client.request(method, path)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized"), path
            assert refused.headers["WWW-Authenticate"].startswith("Bearer")
            for given, headers in texts.items():
                status = client.request(method, path, headers=headers).status_code
                allowed = given in (*scopes, "admin")
                assert (status == 403) is not allowed, (method, path, given)
                assert status != 401
                seen += 1
    assert seen > 150


def test_irreversible_operations_require_admin(settings: Settings) -> None:
    """As does the audit trail, and a route without a decorator: add `@requires_scope` to one that
    must not be here."""
    admin = {
        operation["operationId"]
        for _, _, operation in operations(create_app(settings))
        if operation["security"] == [{"key": ["admin"]}]
    }
    deleting = {"delete_dataset", "delete_model", "delete_model_version"}
    assert admin == deleting | {"import_model_version", "list_changes"}


def test_key_can_watch_the_jobs_that_it_can_start(
    settings: Settings, keys: Keys, registered: RegisteredModels
) -> None:
    """A batch prediction with `predict`; a training, an evaluation and a comparison with `train`. A
    key with only `predict` cannot read trainings and datasets."""
    registered.add("clouds", fitted_pipeline(["c0", "c1"]))
    texts = {scope: bearer(keys.create(scope, [scope])[1]) for scope in SCOPES}
    predict, train = texts["predict"], texts["train"]
    with TestClient(create_app(settings)) as client:

        def start(path: str, body: dict[str, Any], headers: dict[str, str]) -> str:
            reply = client.post(path, json=body, headers=headers)
            assert reply.status_code == 202, reply.text
            return str(reply.json()["id"])

        csv = {**train, "Content-Type": "text/csv"}
        dataset = client.post("/v1/datasets", content=csv_of(), headers=csv).json()
        on_it = {"dataset_id": dataset["id"]}
        training = start("/v1/jobs", job_body(), train)
        evaluation = start("/v1/evaluations", {**on_it, "model": "clouds"}, train)
        grid = {"solver": [{"name": "newton"}]}
        comparison = start("/v1/comparisons", {**on_it, "grid": grid}, train)
        batch = start("/v1/batch-predictions", {**on_it, "model": "clouds"}, predict)

        def status(path: str, headers: dict[str, str]) -> int:
            accept = {"Accept": "*/*" if "results" in path else "application/json"}
            return client.get(path, headers=headers | accept).status_code

        batches = f"/v1/batch-predictions/{batch}"
        for path in ("/v1/batch-predictions", batches, f"/v1/jobs/{batch}"):
            assert status(path, predict) == 200, path
        assert status(f"/v1/jobs/{batch}/events", predict) == 200
        assert status(f"{batches}/results", predict) == 409  # not yet
        jobs = [f"/v1/jobs/{training}", f"/v1/evaluations/{evaluation}"]
        jobs += [f"/v1/comparisons/{comparison}", f"/v1/jobs/{comparison}"]
        jobs += [f"{job}/events" for job in jobs if "/jobs/" in job] + [f"{jobs[0]}/trace"]
        for path in ("/v1/jobs", "/v1/evaluations", "/v1/comparisons", *jobs):
            assert status(path, train) == status(path, texts["read"]) == 200, path
            assert status(path, predict) == 403, path
        for path in ("/v1/datasets", f"/v1/datasets/{dataset['id']}"):
            assert status(path, predict) == 403, path


def test_error_names_the_required_scope(settings: Settings, keys: Keys) -> None:
    headers = bearer(keys.create("reader", ["read"])[1])
    with TestClient(create_app(settings)) as client:
        reply = client.post("/v1/jobs", headers=headers)
        assert (reply.status_code, reply.json()["scope"]) == (403, "train")
        assert 'scope="train"' in reply.headers["WWW-Authenticate"]
        inference = client.post("/v2/models/iris/infer")
        assert (inference.status_code, inference.headers["content-type"]) == (
            401,
            "application/json",
        )
        assert "API key" in inference.json()["error"]


def test_page_requires_a_login(settings: Settings, keys: Keys) -> None:
    """The cookie is for browsers, and other sites cannot use it."""
    text = keys.create("someone", ["read", "train"])[1]
    with TestClient(create_app(settings), follow_redirects=False) as client:
        assert client.get("/docs").status_code == 200
        turned = client.get("/")
        assert (turned.status_code, turned.headers["Location"]) == (303, "/login")
        assert client.get("/login").status_code == 200
        assert client.post("/login", data={"key": "svm_no_key"}).status_code == 401
        entered = client.post("/login", data={"key": text})
        assert entered.status_code == 303
        cookie = entered.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert client.get("/").status_code == 200
        assert client.get("/v1/jobs").status_code == 200
        own = {"Origin": "http://testserver"}
        assert client.post("/v1/jobs", json={}, headers=own).status_code == 422
        for foreign in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            reply = client.post("/v1/jobs", json={}, headers=foreign)
            assert (reply.status_code, reply.json()["code"]) == (403, "cross-site-request")
            assert (
                client.post("/v1/jobs", json={}, headers=foreign | bearer(text)).status_code == 422
            )
        client.post("/logout")
        assert client.get("/v1/jobs").status_code == 401


def test_key_is_found_among_other_cookies(settings: Settings, keys: Keys) -> None:
    """Whatever the others are."""
    text = keys.create("someone", ["read"])[1]
    with TestClient(create_app(settings)) as client:
        for cookies, status in (
            (f"svm_key={text}", 200),
            (f'svm_key="{text}"', 200),
            (f'a="b\\"c;d={{}}; x=1;svm_key={text} ; svm_key=another', 200),
            (f"xsvm_key={text}; svm_key_={text}; a=svm_key={text}", 401),
            ("svm_key", 401),
            ("svm_key=", 401),
            ("=;;=svm_key", 401),
        ):
            reply = client.get("/v1/jobs", headers={"Cookie": cookies})
            assert reply.status_code == status, cookies
            if "svm_key=" in cookies and status == 401 and "xsvm" not in cookies:
                assert "unknown or revoked" in reply.json()["detail"]


@pytest.mark.parametrize(
    "cookies",
    [
        'a="' + '\\"' * 31_000 + '"',
        'svm_key="' + '\\"' * 31_000 + '"',
        "svm_key=" + "\\101" * 15_000,
        "a=b; " * 12_000,
        "svm_key" + " " * 60_000 + "=x",
        "=" * 60_000,
        ";" * 60_000,
    ],
    ids=["quotes", "key", "octal", "pairs", "spaces", "equals", "semicolons"],
)
def test_no_cookies_take_long(settings: Settings, cookies: str) -> None:
    """The library's parser would take 10 s for the first, on every path and without a key."""
    with TestClient(create_app(settings), follow_redirects=False) as client:
        client.get("/")
        started = time.process_time()
        for path in ("/", "/livez", "/login", "/v1/jobs", "/nowhere"):
            assert client.get(path, headers={"Cookie": cookies}).status_code < 500
        assert time.process_time() - started < 0.5


def test_page_of_another_site_cannot_predict(
    predict_path: PredictPath, registered: RegisteredModels, keys: Keys
) -> None:
    """The browser adds the cookie. A caller that sends the key itself is no such page."""
    registered.add("iris", fitted_pipeline(n_features=3))
    text = keys.create("someone", ["predict"])[1]
    cookie = {"Cookie": f"svm_key={text}"}
    own = str(predict_path.base_url).rstrip("/")
    foreign = [{"Origin": "https://other.example"}, {"Origin": "null"}, {"Origin": "http://["}]
    foreign += [{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "")]
    while predict_path.post(PREDICT, json=ROW, headers=cookie).status_code == 401:
        time.sleep(0.02)
    for path in (PREDICT, "/v2/models/iris/infer"):
        for headers in foreign:
            for _ in range(2):
                reply = predict_path.post(path, json=ROW, headers=headers | cookie)
                assert reply.status_code == 403, (path, headers)
        for headers in ({}, {"Origin": own}, {"Sec-Fetch-Site": "same-origin"}):
            reply = predict_path.post(path, json=ROW, headers=headers | cookie)
            assert reply.status_code == (200 if path == PREDICT else 422)
    for headers in foreign:
        reply = predict_path.post(PREDICT, json=ROW, headers=headers | bearer(text))
        assert reply.status_code == 200


def test_every_route_checks_the_key_first(settings: Settings) -> None:
    """Including routes that are not in the document."""
    routes = [route for route in create_app(settings).routes if isinstance(route, APIRoute)]
    assert len(routes) > 90
    for route in routes:
        assert route.dependencies[0].dependency is authorized, route.path


def test_every_path_of_predictions_checks_the_key(
    predict_path: PredictPath,
    registered: RegisteredModels,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other; a revoked key is refused."""
    registered.add()
    other = bearer(keys.create("reading", ["read"])[1])
    key, text = keys.create("asking", ["predict"])
    until(lambda: predict_path.post(PREDICT, json=ROW, headers=bearer(text)).status_code == 200)
    for _ in range(3):
        assert predict_path.post(PREDICT, json=ROW, headers=bearer(text)).status_code == 200
        assert predict_path.post(PREDICT, json=ROW, headers=other).status_code == 403
        assert predict_path.post(PREDICT, json=ROW).status_code == 401
        assert predict_path.post(PREDICT, json=ROW, headers=bearer(text + "x")).status_code == 401
    keys.revoke(key.id)
    until(lambda: predict_path.post(PREDICT, json=ROW, headers=bearer(text)).status_code != 200)
    assert predict_path.post(PREDICT, json=ROW, headers=bearer(text)).status_code == 401


def test_stream_of_a_revoked_key_ends(settings: Settings, keys: Keys) -> None:
    """Later events are not sent."""
    own = bearer(keys.create("own", SCOPES)[1])
    key, text = keys.create("listening", ["read"])
    with served(create_app(settings)) as url, httpx2.Client(base_url=url, timeout=20) as client:
        csv = {**own, "Content-Type": "text/csv"}
        client.post("/v1/datasets", content=csv_of(), headers=csv).raise_for_status()
        queued = client.post("/v1/jobs", json=job_body(), headers=own).raise_for_status()
        job = queued.headers["Location"]
        headers = {**bearer(text), "Accept": "text/event-stream"}
        with client.stream("GET", f"{job}/events", headers=headers) as stream:
            lines = stream.iter_lines()
            assert "event: state" in (next(lines) for _ in range(4))
            keys.revoke(key.id)
            until(lambda: client.get(job, headers=bearer(text)).status_code == 401)
            client.post(f"{job}/cancel", headers=own).raise_for_status()
            assert not [line for line in lines if line.startswith("event:")]


def test_without_keys_no_caller_needs_one(settings: Settings, keys: Keys) -> None:
    """`auto` on a local address: a key is required as soon as one was created, revoked or not."""
    with TestClient(create_app(settings.model_copy(update={"auth": "auto"}))) as client:
        assert client.get("/v1/jobs").status_code == 200
        _, text = keys.create("someone", ["read"])
        until(lambda: client.get("/v1/jobs").status_code != 200)
        assert client.get("/v1/jobs", headers=bearer(text)).status_code == 200
    keys.revoke("someone")
    with TestClient(create_app(settings.model_copy(update={"auth": "auto"}))) as client:
        assert client.get("/v1/jobs").status_code == 401
    with TestClient(create_app(settings.model_copy(update={"auth": "off"}))) as client:
        assert client.get("/v1/jobs").status_code == 200


@ON_ALL_BACKENDS
def test_first_key_is_created_once(settings: Settings, keys: Keys) -> None:
    """In a file that only its owner can read; not again after it was revoked."""
    path = keys.ensure_first(settings.data_dir)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text().strip()
    assert keys.ensure_first(settings.data_dir) is None
    with TestClient(create_app(settings)) as client:
        assert client.delete("/v1/models/iris", headers=bearer(text)).status_code == 404
    keys.revoke("first")
    assert keys.ensure_first(settings.data_dir) is None


@ON_ALL_BACKENDS
def test_keys_are_stored_as_hashes_with_unique_names(keys: Keys, database: Database) -> None:
    key, text = keys.create("someone", ["read"], 5)
    assert key == keys.all()[0]
    assert text.split("_", 2)[2] not in repr(keys.all())
    with pytest.raises(KeyExists):
        keys.create("someone", ["admin"])
    keys.revoke(key.id)
    again, _ = keys.create("someone", ["admin"])
    assert [each.revoked_at is None for each in keys.all()] == [False, True]
    assert keys.revoke("someone").id == again.id


@pytest.mark.parametrize("how", ["key", "address"])
def test_callers_have_a_rate_limit(settings: Settings, keys: Keys, how: str) -> None:
    """429 with Retry-After; probes have no limit, and each caller has its own."""
    limits = Limits(requests_per_s=1.0)
    if how == "address":
        headers, other = {}, None
        settings = settings.model_copy(update={"auth": "off", "limits": limits})
    else:
        headers = bearer(keys.create("busy", ["read"], 1.0)[1])
        other = bearer(keys.create("other", ["read"])[1])
    with TestClient(create_app(settings)) as client:
        assert client.get("/v1/jobs", headers=headers).status_code == 200
        refused = client.get("/v1/jobs", headers=headers)
        while refused.status_code == 200:  # a second has passed on a busy machine
            refused = client.get("/v1/jobs", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate-exceeded")
        wait_s = int(refused.headers["Retry-After"])
        assert wait_s == 1
        assert client.get("/livez").status_code == 200
        if other is not None:
            assert client.get("/v1/jobs", headers=other).status_code == 200
        time.sleep(wait_s)
        assert client.get("/v1/jobs", headers=headers).status_code == 200


def test_predictions_have_the_rate_limit_too(
    settings: Settings, registered: RegisteredModels, keys: Keys
) -> None:
    """In the protocol class: as many as the limit allows, each counted once."""
    registered.add()
    headers = bearer(keys.create("busy", ["predict"], 20)[1])
    with served(create_app(settings)) as url, httpx2.Client(base_url=url) as http:
        began = time.monotonic()
        statuses = []
        while 429 not in statuses or time.monotonic() - began < 1:
            statuses.append(http.post(PREDICT, json=ROW, headers=headers).status_code)
        allowed = 20 * (1 + time.monotonic() - began)
    assert set(statuses) == {200, 429}
    assert 20 <= statuses.count(200) <= allowed + 1


def test_callers_have_the_name_of_their_key(settings: Settings, keys: Keys) -> None:
    """Each caller has its own idempotency keys."""
    once = {"Idempotency-Key": "same"}
    content = "a,k\n1,x\n2,y\n"
    with TestClient(create_app(settings)) as client:
        for name in ("one", "two"):
            headers = bearer(keys.create(name, ["train"])[1]) | once | {"Content-Type": "text/csv"}
            time.sleep(0.2)
            reply = client.post("/v1/datasets", content=content, headers=headers)
            assert reply.status_code in (200, 201)
            assert "Idempotency-Replayed" not in reply.headers


@pytest.mark.parametrize("auth", ["auto", "on", "off"])
def test_only_host_names_of_the_service_are_allowed(
    settings: Settings, registered: RegisteredModels, keys: Keys, auth: str
) -> None:
    """With and without keys: a page whose host name resolves to this machine (DNS rebinding) reads
    nothing, on any path."""
    registered.add()
    headers = {} if auth == "off" else bearer(keys.create("someone", ["read", "predict"])[1])
    names = {"auth": auth, "hosts": "svm.example.com, *.Inside.example"}
    app = create_app(settings.model_copy(update=names), ("bound",))
    with served(app) as url, httpx2.Client(base_url=url, headers=headers) as http:
        for host in (
            *("localhost", "LOCALHOST:1", "svm.localhost", "127.0.0.1:8000", "[::1]:8000"),
            *("10.1.2.3", "[fe80::1]", "svm.example.com:443", "a.inside.example", "bound:80"),
        ):
            own = {"Host": host}
            for _ in range(2):
                assert http.post(PREDICT, json=ROW, headers=own).status_code == 200
            assert http.get("/v1/jobs", headers=own).status_code == 200
        paths = ("/", "/docs", "/openapi.json", "/login", "/livez", "/v1/jobs", "/nowhere")
        for host in (
            *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "x", "1.2.3"),
            *("example.com", "inside.example", "evilinside.example", "localhost@evil.example"),
        ):
            foreign = {"Host": host}
            replies = [http.post(PREDICT, json=ROW, headers=foreign) for _ in range(2)]
            replies += [http.get(path, headers=foreign) for path in paths]
            for reply in replies:
                assert (reply.status_code, reply.json()["code"]) == (421, "foreign-host")
                assert "SVM_HOSTS" in reply.json()["detail"]


def test_page_of_a_prediction_requires_read(
    settings: Settings, keys: Keys, registered: RegisteredModels
) -> None:
    """It has the model's metrics and data, too; the API's answer requires `predict` alone."""
    registered.add("clouds", fitted_pipeline(["c0", "c1"]))
    page, row = "/models/clouds/versions/1/predict", "?dataset_id=latest&row=1"
    file = {"file": ("rows.csv", "a,b,c\n1,2,3\n")}
    given = {
        403: bearer(keys.create("one", ["predict"])[1]),
        200: bearer(keys.create("both", ["predict", "read"])[1]),
    }
    with TestClient(create_app(settings)) as client:
        for status, headers in given.items():
            for reply in (
                client.post(page, data={"rows": "1,2,3"}, headers=headers),
                client.post(f"{page}-file", files=file, headers=headers),
                client.post(f"{page}-file?download=true", files=file, headers=headers),
            ):
                assert reply.status_code == status, reply.text
            origin = client.get(page + row, headers=headers)
            assert (origin.status_code == 403) is (status == 403)
            reply = client.post("/v1/models/clouds/predict", json=ROW, headers=headers)
            assert reply.status_code == 200
