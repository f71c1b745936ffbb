"""Content-Digest is checked for uploads, control bodies and predictions."""

from __future__ import annotations

import base64
import hashlib

import pytest
from starlette.testclient import TestClient

from tests.service.models.registered_models import RegisteredModels, registered
from tests.service.predictions.predict_paths import PredictPath, predict_path

pytestmark = pytest.mark.one_application

__all__ = ["predict_path", "registered"]

CSV = b"a,k\n1,x\n2,y\n"
ROW = b'{"instances": [[1, 2, 3]]}'


def digest(content: bytes, name: str = "sha-256") -> str:
    hash = hashlib.new(name.replace("-", "")).name
    return f"{name}=:{base64.b64encode(hashlib.new(hash, content).digest()).decode()}:"


@pytest.mark.parametrize(
    "value",
    [
        digest(CSV),
        digest(CSV, "sha-512"),
        f"{digest(CSV)}, {digest(CSV, 'sha-512')}",
        f"md5=:AAAA:, {digest(CSV)}",
        f"sha-256=:AAAA:, {digest(CSV)}",
        f"{digest(CSV)};by=proxy, md5=:AAAA:;a;b=2",
    ],
)
def test_matching_digest_is_accepted(client: TestClient, value: str) -> None:
    headers = {"Content-Type": "text/csv", "Content-Digest": value}
    assert client.post("/v1/datasets", content=CSV, headers=headers).status_code == 201


@pytest.mark.parametrize("path", ["/v1/datasets", "/v1/jobs"])
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (digest(b"another"), "digest-mismatch"),
        (f"{digest(CSV)}, {digest(b'another', 'sha-512')}", "digest-mismatch"),
        ("sha-256=abc", "invalid-header"),
        ("sha-256=:abc:", "invalid-header"),
    ],
)
def test_wrong_digest_is_refused(client: TestClient, path: str, value: str, code: str) -> None:
    """Nothing is stored."""
    kind = "text/csv" if path == "/v1/datasets" else "application/json"
    headers = {"Content-Type": kind, "Content-Digest": value}
    reply = client.post(path, content=CSV, headers=headers)
    assert (reply.status_code, reply.json()["code"]) == (400, code)
    assert client.get("/v1/datasets").json()["datasets"] == []


def test_digest_is_checked_on_every_path_of_predictions(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """Also after the same header without a digest was cached."""
    registered.add()
    kind = {"Content-Type": "application/json"}
    path = "/v1/models/iris/predict"
    for _ in range(3):
        assert predict_path.post(path, content=ROW, headers=kind).status_code == 200
        right = kind | {"Content-Digest": digest(ROW)}
        assert predict_path.post(path, content=ROW, headers=right).status_code == 200
        wrong = kind | {"Content-Digest": digest(CSV)}
        reply = predict_path.post(path, content=ROW, headers=wrong)
        assert (reply.status_code, reply.json()["code"]) == (400, "digest-mismatch")
