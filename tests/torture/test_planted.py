"""Malicious model files are never executed or used, and names are never used in the file system."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import joblib
import pytest
from starlette.testclient import TestClient

from service.storage.database.tables import ModelVersion
from tests.seeds import seed_from
from tests.service.jobs.data import job_body, upload
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline, registered

__all__ = ["registered"]

ROW = {"instances": [[0.1, 0.2, 0.3]]}


class Exploit:
    """Unpickling it creates a directory."""

    def __init__(self, call: object, *arguments: object) -> None:
        self._reduced = call, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self._reduced


def malicious(good: bytes, other: bytes, marker: Path, chance: random.Random) -> Iterator[bytes]:
    """Contents for a model's file: code, flipped bits, truncated files, another model."""
    calls = [
        (os.mkdir, str(marker)),
        (os.system, f"mkdir {marker}"),
        (eval, f"__import__('os').mkdir({str(marker)!r})"),
    ]
    while True:
        exploit = Exploit(*calls[chance.randrange(len(calls))])
        yield pickle.dumps(exploit, protocol=chance.randrange(6))
        packed = io.BytesIO()
        joblib.dump({"classes": exploit}, packed, compress=chance.choice([0, 3]))
        yield packed.getvalue()
        yield good[:-1] + pickle.dumps(exploit)
        flipped = bytearray(good)
        flipped[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
        yield bytes(flipped)
        yield good[: chance.randrange(len(good))]
        yield other
        yield b""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [7, pytest.param(50, marks=pytest.mark.fuzz)])
def test_malicious_files_are_quarantined(
    client: TestClient, registered: RegisteredModels, tmp_path: Path, count: int
) -> None:
    """Each is refused every time; another model can predict meanwhile."""
    chance = random.Random(seed_from("FUZZ_SEED"))
    healthy = registered.add("healthy")
    expected = client.post("/v1/models/healthy/predict", json=ROW).content
    marker = tmp_path / "executed"
    good, other = (
        registered.content(registered.add("source", fitted_pipeline(seed=n))) for n in (1, 2)
    )
    planted: list[ModelVersion] = []
    for content in itertools.islice(malicious(good, other, marker, chance), count):
        version = registered.add("victim", fitted_pipeline(seed=3))
        registered.replace_file(version, content)
        planted.append(version)
        path = f"/v1/models/victim/versions/{version.version}"
        for _ in range(2):
            reply = client.post(f"{path}/predict", json=ROW)
            assert (reply.status_code, reply.json()["code"]) == (500, "model-corrupt")
        assert client.get(path).json()["quarantined_at"] is not None
        assert client.get(f"{path}/artifact").status_code == 500
        assert client.post("/v1/models/healthy/predict", json=ROW).content == expected
        assert not marker.exists()
    assert len(planted) == count
    assert registered.content(healthy)


def traversals(chance: random.Random) -> Iterator[str]:
    """Names that would be paths to other files."""
    parts = ["..", ".", "/", "\\", "~", "%2e%2e", "%2f", "..%00", "\0", "etc", "passwd", "a"]
    parts += ["C:", "//", "....//", "‥", "／", "model", ".joblib", "A", "|", "$(x)", "`x`"]
    while True:
        yield "".join(chance.choices(parts, k=chance.randrange(1, 7)))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.fuzz)])
def test_names_create_no_files(
    client: TestClient, registered: RegisteredModels, tmp_path: Path, count: int
) -> None:
    """In paths, bodies, queries and forms: refused, or stored only as text in the database."""
    registered.add("healthy")
    dataset_id = upload(client)
    before = _files(tmp_path)
    names = traversals(random.Random(seed_from("FUZZ_SEED")))
    for number, name in enumerate(itertools.islice(names, count)):
        quoted = quote(name, safe="/%\\")
        replies = [
            client.post("/v1/jobs", json=job_body(dataset_id, model_name=name)),
            client.post("/v1/jobs", json=job_body(dataset_id, set_alias=name)),
            client.get(f"/v1/models/{quoted}"),
            client.get(f"/v1/models/{quoted}/versions/1/artifact"),
            client.put(f"/v1/models/healthy/aliases/{quoted}", json={"version": 1}),
            client.post(f"/v1/models/{quoted}/predict", json=ROW),
            client.get(f"/v1/datasets/{quoted}/content"),
            client.post(
                "/v1/datasets",
                params={"name": name.replace("\0", "")},
                content=f"a,k\n{number},x\n2,y\n",
                headers={"Content-Type": "text/csv"},
            ),
            client.post(
                "/v1/datasets", files={"file": (name or "x", f"b,k\n{number},x\n2,y\n", "text/csv")}
            ),
        ]
        assert max(reply.status_code for reply in replies) < 500, (name, replies)
        for reply in replies[:2]:
            plain = name in ("a", "etc", "passwd", "model") or (name.isalpha() and name.islower())
            assert (
                reply.status_code == 202 if plain and name.isascii() else reply.status_code >= 400
            )
    assert {path for path in _files(tmp_path) - before if not _is_array(path, tmp_path)} == set()


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def _is_array(path: Path, tmp_path: Path) -> bool:
    """A file of a dataset in its folder, or of SQLite."""
    inside = path.relative_to(tmp_path / "var").parts
    return inside[:2] == ("blobs", "datasets") or inside[0].startswith("service.db")
