"""A dataset parted in two."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.errors import InvalidContent
from service.jobs.engine.worker_process import Worker
from service.rows.spec import (
    CSV,
    LIBSVM,
    NPY,
    Parsed,
    ReadLimits,
    SplitSpec,
    decode,
    encode,
)
from service.rows.table.splitting import divide
from service.settings import Settings
from svm.data.splitting import split
from tests.service.datasets.test_routes import IRIS, UNKNOWN, made, post, problem
from tests.service.files import damage, incoming
from tests.service.jobs.data import csv_of, trained
from tests.service.rows.arrays import npy
from tests.service.rows.reading import LIMITS, Result, stored, upload

pytestmark = pytest.mark.one_application


def parts(result: Result, fraction: float, stratify: bool = True, seed: int = 0) -> list[Result]:
    """The rows of the two parts. Raises InvalidContent.

    They are parted twice, as after the death of the first process: that must change nothing.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = SplitSpec(
            stored=stored(result, folder / "whole"),
            fraction=fraction,
            stratify=stratify,
            seed=seed,
            gap=0.0,
            train=str(folder / "train"),
            test=str(folder / "test"),
            limits=ReadLimits(**LIMITS),
        )
        for _ in range(2):
            divided = divide(decode(encode(spec)))
        assert decode(encode(divided)) == divided
        return [_read(divided.train, folder / "train"), _read(divided.test, folder / "test")]


def _read(parsed: Parsed, folder: Path) -> Result:
    arrays: dict[str, npt.NDArray[Any]]
    arrays = {array: np.load(folder / f"{array}.npy") for array in parsed.arrays}
    return Result(parsed, arrays)


labels = st.sampled_from([["x", "y"], ["3", "1", "2"]])


@hypothesis.settings(max_examples=50)
@given(
    kind=labels,
    n_samples=st.integers(2, 30),
    fraction=st.floats(0.1, 0.9),
    stratify=st.booleans(),
    sparse=st.booleans(),
    seed=st.integers(0, 2**53 - 1),
)
def test_each_part_is_as_if_uploaded(
    kind: list[str], n_samples: int, fraction: float, stratify: bool, sparse: bool, seed: int
) -> None:
    """The rows that `svm` chooses, in their order; classes, digest and statistics follow them."""
    if sparse:
        kind = ["3", "1", "2"]
    rows = [
        f"{kind[i * i % len(kind)]} 1:{i} {'' if i % 3 else '4:2'}\n"
        if sparse
        else f"{i},{i % 4},{kind[i * i % len(kind)]}\n"
        for i in range(n_samples)
    ]
    options: dict[str, Any] = (
        {"n_features": 5, "dense": "never"} if sparse else {"header": "absent"}
    )
    media_type = LIBSVM if sparse else CSV
    whole = upload("".join(rows), media_type, **options)
    try:
        found = parts(whole, fraction, stratify, seed)
    except InvalidContent:  # a class is too small
        assume(False)
    chosen = split(whole.arrays["y"], fraction, stratify=stratify, seed=seed)
    for part, numbers in zip(found, chosen, strict=True):
        expected = upload("".join(rows[i] for i in numbers), media_type, **options)
        assert repr(replace(part.parsed, reading=None)) == repr(
            replace(expected.parsed, reading=None, media_type="")
        )
        for name, array in expected.arrays.items():
            assert part.arrays[name].tobytes() == array.tobytes()


def test_measurements_and_no_labels() -> None:
    """They cannot be stratified, but they can be split; a part of numbers is numbers, too."""
    measurements = upload("".join(f"{i},{i}.5\n" for i in range(1200)))
    unlabeled = upload(npy(np.arange(40.0).reshape(20, 2)), NPY, target="none")
    train, test = parts(measurements, 0.05, stratify=False)
    assert train.arrays["values"].size == 1140
    assert test.arrays["values"].size == 60
    train, test = parts(upload("1,0.5\n2,7\n3,7\n4,0.5\n"), 0.25, stratify=False)
    assert (train.parsed.target_kind, test.parsed.target_kind) == ("numbers", "numbers")
    train, test = parts(unlabeled, 0.25, stratify=False)
    together = np.concatenate((train.arrays["X"], test.arrays["X"]))
    assert sorted(together[:, 0]) == list(range(0, 40, 2))
    for whole, code in ((measurements, "target-continuous"), (unlabeled, "target-missing")):
        with pytest.raises(InvalidContent) as caught:
            parts(whole, 0.25)
        assert (caught.value.code, caught.value.faults[0].pointer) == (code, "/stratify")


@pytest.mark.parametrize(
    ("text", "fraction", "stratify", "said"),
    [
        ("1,x\n2,x\n3,x\n4,y\n", 0.1, True, "too few rows to hold out 0.1 of them"),
        ("1,x\n2,y\n", 0.5, False, "a class has no row left"),
        ("1,x\n", 0.5, False, "one row"),
    ],
)
def test_classes_that_are_too_small(text: str, fraction: float, stratify: bool, said: str) -> None:
    """No class may vanish from the train part, nor may a part be empty."""
    with pytest.raises(InvalidContent, match=said) as caught:
        parts(upload(text, header="absent"), fraction, stratify)
    assert caught.value.code == "class-too-small"


def test_split_makes_two_datasets(client: TestClient, settings: Settings) -> None:
    """Named after the whole, which they have as parent; the same again is nothing new."""
    whole = made(post(client, csv_of(n_classes=3), name="x" * 198))
    path = f"/v1/datasets/{whole['id']}"
    body = {"fraction": 0.25, "seed": 7}
    both = made(client.post(f"{path}/split", json=body))
    for part, rows in (("train", 45), ("test", 15)):
        dataset = both[part]
        assert client.get(f"/v1/datasets/{dataset['id']}").json() == dataset
        assert (dataset["n_samples"], dataset["class_counts"]) == (rows, [rows // 3] * 3)
        assert (dataset["parent"], dataset["inherited_rows"]) == (whole["id"], None)
        assert len(dataset["name"]) <= 200
        assert dataset["name"].endswith(f"x-{part}")
        assert dataset["target"] == "label"
    again = client.post(f"{path}/split", json=body)
    assert (again.status_code, again.json()) == (200, both)
    other = made(client.post(f"{path}/split", json=body | {"seed": 8}))
    assert other["train"]["matrix_digest"] != both["train"]["matrix_digest"]
    assert client.delete(f"/v1/datasets/{both['test']['id']}").status_code == 204
    third = made(client.post(f"{path}/split", json=body))
    assert third["train"] == both["train"]
    assert third["test"]["matrix_digest"] == both["test"]["matrix_digest"]
    assert list(incoming(settings).iterdir()) == []


@pytest.mark.parametrize("stratify", [True, False])
def test_split_is_that_of_a_job(client: TestClient, settings: Settings, stratify: bool) -> None:
    """A model of the part `train` is the one of a job that holds `test` back, to the bit, but for
    what it learned from these rows: when to withhold a label."""
    whole = made(post(client, csv_of()))
    validation = {"fraction": 0.3, "stratify": stratify}
    both = made(client.post(f"/v1/datasets/{whole['id']}/split", json=validation | {"seed": 5}))
    worker = Worker(settings, threading.Event())
    decisions = set()
    for dataset, fields in ((whole, {"validation": validation}), (both["train"], {})):
        job = trained(client, worker, dataset["id"], **{"seed": 5, **fields})
        path = f"/v1/models/clouds/versions/{job['model']['version']}/predict"
        rows = {
            "instances": [[0.1, -2.0, 1.0], [3.0, 0.7, 0.2], [1e-3, 5.5, -4.0]],
            "outputs": ["decision"],
        }
        decisions.add(str(client.post(path, json=rows).json()["decision"]))
    assert len(decisions) == 1


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/fraction"),
        ({"fraction": 0}, "/fraction"),
        ({"fraction": 1.0}, "/fraction"),
        ({"fraction": "0.5"}, "/fraction"),
        ({"fraction": 0.5, "stratify": 1}, "/stratify"),
        ({"fraction": 0.5, "seed": -1}, "/seed"),
        ({"fraction": 0.5, "seed": 2**53}, "/seed"),
        ({"fraction": 0.5, "size": 3}, "/size"),
    ],
)
def test_wrong_bodies(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    """Each field is checked against its range."""
    path = post(client).headers["Location"]
    refused = problem(client.post(f"{path}/split", json=body), 422, "invalid-field")
    assert refused["errors"][0]["pointer"] == pointer


def test_splits_that_are_refused(client: TestClient, settings: Settings) -> None:
    """Unknown datasets, damaged ones, and classes that are too small."""
    body = {"fraction": 0.1}
    problem(client.post(f"{UNKNOWN}/split", json=body), 404, "not-found")
    path = post(client, IRIS).headers["Location"]
    problem(client.post(f"{path}/split", json=body), 422, "class-too-small")
    damage(settings, "X")
    problem(client.post(f"{path}/split", json=body), 500, "dataset-corrupt")
    assert len(client.get("/v1/datasets").json()["datasets"]) == 1
