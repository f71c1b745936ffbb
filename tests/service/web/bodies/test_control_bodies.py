"""JSON bodies: strict syntax, strict types, and errors that point at the field."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import re
import time
import zlib
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, create_model
from starlette.testclient import TestClient

from service.common.strict_json import parse_json
from service.errors import InvalidContent, InvalidRequest, ServiceError
from service.jobs.comparisons.schemas import ComparisonCreate
from service.web.bodies.control_bodies import json_request, validated
from tests.service.web.conftest import EXAMPLE

GOOD = json.dumps(EXAMPLE)


def _post(caller: TestClient, body: str | bytes) -> tuple[int, Any]:
    reply = caller.post("/drawings", content=body, headers={"Content-Type": "application/json"})
    return reply.status_code, reply.json()


@pytest.mark.parametrize(
    "body",
    [
        " ",
        "{",
        GOOD + "x",
        GOOD + GOOD,
        '{"title": "a", "title": "b"}',
        '{"title": NaN}',
        '{"title": -Infinity}',
        '{"title": "\\ud800"}',
        '{"\\udfff": 1}',
        "[" * 17 + "]" * 17,
        "[" * 900 + "]" * 900,
        "{'title': 1}",
        '{"title": ' + "1" * 1500 + "e}",
    ],
)
def test_bad_syntax_is_malformed_json(caller: TestClient, body: str | bytes) -> None:
    """Bodies that are not strict JSON are refused with 400."""
    status, problem = _post(caller, body)
    assert (status, problem["code"]) == (400, "malformed-json")


@pytest.mark.parametrize("body", [b"\xff\xfe{}", b'{"title": "\xff"}', GOOD.encode() + b"\0"])
def test_invalid_text_is_bad_encoding(caller: TestClient, body: bytes) -> None:
    """Bytes that are not UTF-8, and NUL, as in data."""
    status, problem = _post(caller, body)
    assert (status, problem["code"]) == (400, "bad-encoding")


def test_wrong_byte_is_shown_after_a_byte_order_mark(caller: TestClient) -> None:
    """A byte order mark does not shift the position."""
    _, problem = _post(caller, b'\xef\xbb\xbf{"title": "\xff"}')
    assert "byte 0xff" in problem["detail"]


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_bodies(caller: TestClient, coding: str) -> None:
    """Their decompressed size is limited; invalid data are an error."""
    pack = gzip.compress if coding == "gzip" else zlib.compress
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    for content, status, code in (
        (pack(GOOD.encode()), 200, None),
        (pack(b"\xef\xbb\xbf" + GOOD.encode()), 200, None),
        (pack(b" " * 3000), 413, "decompression-limit"),
        (pack(GOOD.encode())[:-1], 415, "format-mismatch"),
        (b"nonsense", 415, "format-mismatch"),
    ):
        reply = caller.post("/drawings", content=content, headers=headers)
        assert (reply.status_code, reply.json().get("code")) == (status, code)


def test_a_number_of_any_length_is_a_number(caller: TestClient) -> None:
    """A number beyond float64 is an invalid field, with any number of digits."""
    for digits in (400, 1500):
        status, problem = _post(caller, GOOD.replace("1.5", "1" * digits))
        assert (status, problem["code"]) == (422, "invalid-field")
        assert problem["errors"][0]["pointer"] == "/shape/radius"


def test_empty_body_is_an_empty_object(caller: TestClient) -> None:
    """A route whose fields all have defaults needs no body; others name the missing fields."""
    status, problem = _post(caller, "")
    assert (status, problem["code"]) == (422, "invalid-field")
    assert [error["pointer"] for error in problem["errors"]] == ["/title", "/shape"]


def test_good_body_passes(caller: TestClient) -> None:
    """The example of the documentation works unchanged."""
    assert _post(caller, GOOD) == (200, {"shape": "circle"})


@pytest.mark.parametrize(
    ("change", "pointer", "value"),
    [
        ({"title": 1}, "/title", "1"),
        ({"title": None}, "/title", "null"),
        ({"shape": {"name": "circle", "radius": "1"}}, "/shape/radius", '"1"'),
        ({"shape": {"name": "circle", "radius": True}}, "/shape/radius", "true"),
        ({"shape": {"name": "circle", "radius": -1}}, "/shape/radius", "-1"),
        ({"shape": {"name": "circle"}}, "/shape/radius", None),
        ({"shape": {"name": "star"}}, "/shape/name", '"star"'),
        ({"shape": {"radius": 1.0}}, "/shape/name", None),
        ({"shape": {"name": "circle", "radius": 1.0, "circle": 2}}, "/shape/circle", "2"),
        ({"shape": 3}, "/shape", "3"),
        ({"surplus/~": [1]}, "/surplus~1~0", None),
        ({"tags": {"a": 1.5}}, "/tags/a", "1.5"),
        ({"points": [[1, 2], [3, "x"]]}, "/points/1/1", '"x"'),
        ({"title": ["a"] * 3}, "/title", None),
    ],
)
def test_error_points_at_the_invalid_field(
    caller: TestClient, change: dict[str, Any], pointer: str, value: str | None
) -> None:
    """The pointer is that of the field in the body, without names of internal types."""
    status, problem = _post(caller, json.dumps(EXAMPLE | change))
    assert (status, problem["code"]) == (422, "invalid-field")
    assert [(error["pointer"], error.get("value")) for error in problem["errors"]] == [
        (pointer, value)
    ]


def test_unknown_variant_lists_the_known_ones(caller: TestClient) -> None:
    """The error for a wrong `name` lists the known names."""
    _, problem = _post(caller, json.dumps(EXAMPLE | {"shape": {"name": "star"}}))
    assert problem["errors"][0]["hint"] == "one of 'circle', 'square'"


def test_number_beyond_the_floats_is_an_invalid_field(caller: TestClient) -> None:
    """1e999 is valid JSON, but not a finite float64."""
    status, problem = _post(caller, GOOD.replace("1.5", "1e999"))
    assert (status, problem["errors"][0]["pointer"]) == (422, "/shape/radius")


def test_bad_name_in_a_body_is_an_invalid_name(caller: TestClient) -> None:
    """The same problem as for a bad name in a path, with the pointer to the field."""
    status, problem = _post(caller, json.dumps(EXAMPLE | {"model_name": "../etc"}))
    assert (status, problem["code"]) == (400, "invalid-name")
    assert problem["errors"][0]["pointer"] == "/model_name"


def test_large_body_is_refused(caller: TestClient) -> None:
    """With or without Content-Length; the reply has the limit."""
    body = json.dumps(EXAMPLE | {"title": "x" * 2000}).encode()
    status, problem = _post(caller, body)
    assert (status, problem["code"], problem["limit_bytes"]) == (413, "body-too-large", 2000)
    assert "SVM_LIMITS__CONTROL_BODY_BYTES" in problem["detail"]
    chunks = iter([body[:1000], body[1000:]])
    reply = caller.post("/drawings", content=chunks, headers={"Content-Type": "application/json"})
    assert reply.status_code == 413


def test_other_media_type_is_unsupported(caller: TestClient) -> None:
    """A control request is JSON; parameters of the media type do not matter."""
    reply = caller.post("/drawings", content=GOOD, headers={"Content-Type": "text/plain"})
    assert (reply.status_code, reply.json()["code"]) == (415, "unsupported-format")
    utf8 = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert caller.post("/drawings", content=GOOD, headers=utf8).status_code == 200
    gzip = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert caller.post("/drawings", content=GOOD, headers=gzip).status_code == 415


def test_document_has_schema_and_example(probe: FastAPI) -> None:
    """The body's schema is in the components, so that replies can share it."""
    document = probe.openapi()
    body = document["paths"]["/drawings"]["post"]["requestBody"]["content"]["application/json"]
    reply = document["paths"]["/drawings/first"]["get"]["responses"]["200"]["content"]
    assert body == {"schema": {"$ref": "#/components/schemas/Drawing"}, "example": EXAMPLE}
    assert reply["application/json"]["schema"] == body["schema"]
    references = re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(document))
    assert {"Drawing", "Circle", "Square"} <= set(references)
    assert set(references) <= set(document["components"]["schemas"])
    assert "$defs" not in json.dumps(document)


def test_two_schemas_of_one_name_are_an_error(probe: FastAPI) -> None:
    """A body's schema must not replace another one."""
    other = create_model("Circle", size=(int, 0))
    probe.post("/other", openapi_extra=json_request(other, {}))(lambda: None)
    with pytest.raises(ValueError, match="two schemas are called Circle"):
        probe.openapi()


def _refused(model: type[BaseModel], body: bytes) -> tuple[ServiceError, float]:
    """The error for a body, and the processor time that it took; the schema is made before."""
    with pytest.raises(ServiceError):
        validated(model, b"{}")
    gc.disable()  # a full collection takes seconds in a process of thousands of tests
    try:
        began = time.thread_time()
        with pytest.raises(ServiceError) as caught:
            validated(model, body)
        return caught.value, time.thread_time() - began
    finally:
        gc.enable()


def _numbered(item: str, count: int) -> str:
    return ",".join(item.replace("#", str(i)) for i in range(count))


@pytest.mark.parametrize(
    ("begin", "item", "end"),
    [
        ("{", '"f#":1', "}"),
        ('{"tags":{', '"t#":1', "}}"),
        ('{"classes":[', "{}", "]}"),
        ('{"class_weight":{', '"c#":[]', "}}"),
        ('{"features":{"name":"terms","terms":[', '{"x":0}', "]}}"),
        ('{"features":{"name":"terms","terms":[{', '"x#":0', "}]}}"),
        ('{"grid":{"solver":[{"name":"newton"}],"gamma":[', "{}", "]}}"),
        ('{"grid":{"solver":[', '{"name":"#"}', "]}}"),
        ('{"specs":[', '{"solver":{"name":"smo","kernel":{"name":"#"}}}', "]}"),
    ],
)
def test_many_faults_cost_little_and_a_hundred_are_listed(begin: str, item: str, end: str) -> None:
    """Fields, tags, terms, values of a grid: in time that is linear in the body."""
    body = f"{begin}{_numbered(item, 1900)}{end}".encode()
    error, seconds = _refused(ComparisonCreate, body)
    assert 98 <= len(error.faults) <= 100
    assert error.faults_total >= 1900
    assert seconds < 2


def test_a_body_of_very_many_values_is_refused_by_their_number() -> None:
    """Before they are looked at, also in lists in lists."""
    for item in ("1", "{}", "[]", "[[]]", '{"a":[]}'):
        error, seconds = _refused(ComparisonCreate, f"[{_numbered(item, 200_000)}]".encode())
        assert (error.code, error.detail) == (
            "malformed-json",
            "the body has more than 10,000 values",
        )
        assert seconds < 0.2
    assert parse_json(b'["%b"]' % (rb",[{\"\\" * 20_000), 10_000)


def test_a_long_name_is_not_repeated() -> None:
    """The pointer ends above it."""
    error, _ = _refused(
        ComparisonCreate, b'{"specs":[{"solver":{"name":"newton"},"%b":1}]}' % (b"x" * 500_000)
    )
    assert "/specs/0" in [fault.pointer for fault in error.faults]
    assert max(len(fault.pointer or "") for fault in error.faults) < 100
    assert len(error.detail) < 300


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    """All bytes result in a value or an error of the service."""
    with contextlib.suppress(InvalidRequest, InvalidContent):
        parse_json(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)  # fmt: skip


@given(JSON)
def test_every_json_value_comes_back(value: Any) -> None:
    """Output of the standard library is read back, equal bit for bit."""
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value
