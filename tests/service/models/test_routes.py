from __future__ import annotations

import base64
import hashlib
import io
from concurrent.futures import ThreadPoolExecutor

import joblib
import pytest
from fastapi.testclient import TestClient

from tests.service.models.registered_models import RESULT, RegisteredModels, Source, fitted_pipeline

pytestmark = pytest.mark.one_application

CREATE = {"If-None-Match": "*"}


def test_model_shows_versions_and_aliases(client: TestClient, registered: RegisteredModels) -> None:
    """The model itself, the list of models, and the list of its versions agree."""
    registered.add("iris")
    registered.add("iris", set_alias="default")
    model = client.get("/v1/models/iris").json()
    assert client.get("/v1/models").json() == {"models": [model], "next_page_token": None}
    assert model.pop("created_at").endswith("Z")
    assert model == {"name": "iris", "latest_version": 2, "aliases": {"default": 2}}
    versions = client.get("/v1/models/iris/versions").json()["versions"]
    assert [version["version"] for version in versions] == [2, 1]
    assert versions[0] == client.get("/v1/models/iris/versions/2").json()


def test_version_shows_lineage_metrics_and_certificate(
    client: TestClient, registered: RegisteredModels
) -> None:
    """All that a caller needs to check a model, or to train it again."""
    registered.add("iris", fitted_pipeline((1, 2)), columns=["a", "b", "c"])
    version = client.get("/v1/models/iris/versions/1").json()
    assert {name: version[name] for name in RESULT} == RESULT
    assert version["dataset_digest"] == Source.matrix_digest
    assert version["spec"] == {"solver": {"name": "pegasos"}}
    assert (version["seed"], version["n_support_vectors"]) == (42, 5)
    assert (version["classes"], version["columns"]) == ([1, 2], ["a", "b", "c"])
    assert version["quarantined_at"] is None


def test_unchanged_resource_gives_304(client: TestClient, registered: RegisteredModels) -> None:
    """If-None-Match gives 304 until the resource changes."""
    registered.add("iris")
    for path in ("/v1/models/iris", "/v1/models/iris/versions/1", "/v1/models/iris/aliases/latest"):
        tag = client.get(path).headers["ETag"]
        assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
    tag = client.get("/v1/models/iris").headers["ETag"]
    registered.add("iris")
    assert client.get("/v1/models/iris", headers={"If-None-Match": tag}).status_code == 200


def test_pages_follow_each_other(client: TestClient, registered: RegisteredModels) -> None:
    """`next_page_token` leads to all versions, each once."""
    for _ in range(3):
        registered.add("iris")
    page = client.get("/v1/models/iris/versions?page_size=2").json()
    seen = [version["version"] for version in page["versions"]]
    while (token := page["next_page_token"]) is not None:
        page = client.get(f"/v1/models/iris/versions?page_size=2&page_token={token}").json()
        seen += [version["version"] for version in page["versions"]]
    assert seen == [3, 2, 1]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/unknown",
        "/v1/models/unknown/versions",
        "/v1/models/unknown/aliases",
        "/v1/models/iris/versions/2",
        "/v1/models/iris/versions/2/artifact",
        "/v1/models/iris/aliases/unknown",
    ],
)
def test_unknown_is_not_found(client: TestClient, registered: RegisteredModels, path: str) -> None:
    """A problem 404, for each kind of resource."""
    registered.add("iris")
    reply = client.get(path)
    assert (reply.status_code, reply.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize(
    "name", ["Iris", "iris_2", "-iris", "iris-", "a" * 64, "..", "%2e%2e", "é"]
)
def test_bad_names_are_refused(client: TestClient, name: str) -> None:
    """Such a model cannot exist; the name is not used in the file system."""
    reply = client.get(f"/v1/models/{name}/versions")
    assert (reply.status_code, reply.json()["code"]) in [(400, "invalid-name"), (404, "not-found")]
    if "." not in name and "%" not in name:
        assert reply.json()["code"] == "invalid-name"


@pytest.mark.parametrize("version", ["0", "-1", "two", "1.5", str(2**31), str(2**80)])
def test_bad_version_numbers_are_refused(
    client: TestClient, registered: RegisteredModels, version: str
) -> None:
    """Also one that is too large for a database."""
    registered.add("iris")
    reply = client.get(f"/v1/models/iris/versions/{version}")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-parameter")


def test_artifact_is_the_file_with_its_digest(
    client: TestClient, registered: RegisteredModels
) -> None:
    """The download has the sha-256 of its header, and joblib reads it."""
    fitted = fitted_pipeline()
    version = registered.add("iris", fitted)
    reply = client.get("/v1/models/iris/versions/1/artifact")
    sha256 = hashlib.sha256(reply.content)
    assert sha256.hexdigest() == version.artifact_sha256
    encoded = base64.b64encode(sha256.digest()).decode()
    assert reply.headers["Repr-Digest"] == f"sha-256=:{encoded}:"
    assert reply.headers["Content-Disposition"] == 'attachment; filename="iris-1.joblib"'
    assert int(reply.headers["Content-Length"]) == version.size_bytes
    content = joblib.load(io.BytesIO(reply.content))
    assert content["coefficients"].tolist() == fitted.coefficients.tolist()
    again = client.get(
        "/v1/models/iris/versions/1/artifact", headers={"If-None-Match": reply.headers["ETag"]}
    )
    assert again.status_code == 304


def test_damaged_artifact_is_not_sent(client: TestClient, registered: RegisteredModels) -> None:
    """The version is quarantined, which its resource shows; other versions are sent."""
    version = registered.add("iris")
    registered.add("iris")
    registered.replace_file(version, b"x" * version.size_bytes)
    for _ in range(2):
        reply = client.get("/v1/models/iris/versions/1/artifact")
        assert (reply.status_code, reply.json()["code"]) == (500, "model-corrupt")
    assert client.get("/v1/models/iris/versions/1").json()["quarantined_at"] is not None
    assert client.get("/v1/models/iris/versions/2/artifact").status_code == 200


def test_alias_is_created_moved_and_removed(
    client: TestClient, registered: RegisteredModels
) -> None:
    """201, 200, 204; each with the ETag of the state before."""
    for _ in range(2):
        registered.add("iris")
    path = "/v1/models/iris/aliases/candidate"
    created = client.put(path, json={"version": 1}, headers=CREATE)
    assert (created.status_code, created.json()["version"]) == (201, 1)
    tag = created.headers["ETag"]
    moved = client.put(path, json={"version": 2}, headers={"If-Match": tag})
    assert (moved.status_code, moved.json()["version"]) == (200, 2)
    assert client.get(path).headers["ETag"] == moved.headers["ETag"] != tag
    assert client.get("/v1/models/iris/aliases").json() == {"aliases": [moved.json()]}
    assert client.delete(path, headers={"If-Match": tag}).status_code == 412
    assert client.delete(path, headers={"If-Match": moved.headers["ETag"]}).status_code == 204
    assert client.get(path).status_code == 404
    again = client.put(path, json={"version": 1}, headers=CREATE)
    assert again.headers["ETag"] != tag, "an old tag must not fit a new alias"


def test_alias_needs_a_true_precondition(client: TestClient, registered: RegisteredModels) -> None:
    """428 without one; 412 if the alias exists already, does not exist, or has moved."""
    registered.add("iris")
    path, body = "/v1/models/iris/aliases/candidate", {"version": 1}
    assert client.put(path, json=body).status_code == 428
    assert client.put(path, json=body, headers={"If-Match": "*"}).status_code == 412
    assert client.put(path, json=body, headers=CREATE).status_code == 201
    assert client.put(path, json=body, headers=CREATE).status_code == 412
    assert client.put(path, json=body, headers={"If-Match": '"other"'}).status_code == 412
    assert client.delete(path).status_code == 428


def test_only_one_of_many_callers_moves_an_alias(
    client: TestClient, registered: RegisteredModels
) -> None:
    """All send the same ETag: one gets 200, the others 412."""
    for _ in range(6):
        registered.add("iris")
    path = "/v1/models/iris/aliases/candidate"
    tag = client.put(path, json={"version": 1}, headers=CREATE).headers["ETag"]

    def move(version: int) -> int:
        return client.put(path, json={"version": version}, headers={"If-Match": tag}).status_code

    with ThreadPoolExecutor(6) as threads:
        assert sorted(threads.map(move, range(1, 7))) == [200] + [412] * 5


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_latest_is_reserved(client: TestClient, registered: RegisteredModels, method: str) -> None:
    """It can be read, but not set or removed."""
    registered.add("iris")
    path = "/v1/models/iris/aliases/latest"
    assert client.get(path).json()["version"] == 1
    reply = client.request(method, path, json={"version": 1}, headers=CREATE)
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid-name")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"version": 0},
        {"version": "1"},
        {"version": True},
        {"version": 9},
        {"version": 1, "x": 1},
        {"version": 2**40},
    ],
)
def test_bad_alias_bodies_are_refused(
    client: TestClient, registered: RegisteredModels, body: dict[str, object]
) -> None:
    """422 with a pointer to the field."""
    registered.add("iris")
    reply = client.put("/v1/models/iris/aliases/candidate", json=body, headers=CREATE)
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
    assert reply.json()["errors"][0]["pointer"] in ("/version", "/x")


@pytest.mark.parametrize("path", ["/v1/models/iris", "/v1/models/iris/versions/1"])
def test_deletion_checks_if_match(
    client: TestClient, registered: RegisteredModels, path: str
) -> None:
    """412 if If-Match has another ETag."""
    registered.add("iris")
    tag = client.get(path).headers["ETag"]
    reply = client.delete(path, headers={"If-Match": '"other"'})
    assert (reply.status_code, reply.json()["code"]) == (412, "precondition-failed")
    assert client.delete(path, headers={"If-Match": tag}).status_code == 204


def test_aliases_prevent_deletion(client: TestClient, registered: RegisteredModels) -> None:
    """409 if an alias points to the version; `force=true` deletes the whole model."""
    registered.add("iris", set_alias="default")
    for path in ("/v1/models/iris/versions/1", "/v1/models/iris"):
        reply = client.delete(path)
        assert (reply.status_code, reply.json()["code"]) == (409, "resource-in-use")
        assert "default" in reply.json()["detail"]
    assert client.delete("/v1/models/iris?force=true").status_code == 204
    assert client.delete("/v1/models/iris?force=true").status_code == 404
    assert client.get("/v1/models/iris").status_code == 404
