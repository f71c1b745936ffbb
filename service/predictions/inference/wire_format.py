"""An `infer` request and its reply, with `binary_tensor_data`, gzip and deflate."""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from service.common.answerer import RawHeaders, Reply
from service.common.encodings import inflate
from service.common.strict_json import MAX_DEPTH, decode_json
from service.errors import (
    InvalidContent,
    InvalidRequest,
    ServiceError,
    pointer,
    pointer_to_member,
)
from service.models.outputs import (
    CALIBRATED,
    SHARE_OF,
    USUAL,
    Shares,
    arrays_of,
    check_offered,
    check_shares,
    shares_in,
)
from service.predictions.batcher import Instances, Prediction
from service.predictions.datatypes import NUMBERS, datatype_of, to_bytes
from service.predictions.inference.column_tensors import BYTES, described, raw_rows
from service.predictions.inference.tensors import (
    HEAD_BYTES,
    MARK,
    Tensor,
    check_shape,
    cut_data,
    cut_span,
    from_bytes,
    from_json,
    from_numbers,
    from_span,
    invalid,
)
from service.predictions.loaded_models import LoadedModel
from service.rows.columns import Columns
from service.rows.faults import invalid_field, too_many
from service.rows.json_reading.stream import check_object_bytes
from service.rows.spec import CellsAgain, longest_text
from service.settings import Limits

HEAD_LENGTH = "Inference-Header-Content-Length"
MAX_DIGITS = 18
"""Of a length in a header."""
REMEMBERED_BYTES = 2048
"""The longest JSON part, without numbers that are cut out, whose meaning is remembered."""
MOST_REMEMBERED = 128
"""They take at most 1 MiB in all."""

Numbers: TypeAlias = (
    NDArray[np.float64] | Callable[[str, tuple[int, int], Columns], NDArray[Any]] | None
)
_NOTHING = memoryview(b"")
_SIZE = re.compile(rb'"binary_data_size"[ \t\r\n]*:[ \t\r\n]*(0|[1-9][0-9]{0,17})')
_TOO_LARGE = (
    "the JSON part has too many tensors or values; send fewer tensors or rows, or their data in "
    "binary"
)
_REQUEST = frozenset({"id", "inputs", "outputs", "parameters"})
_INPUT = frozenset({"name", "shape", "datatype", "data", "parameters"})
_OUTPUT = frozenset({"name", "parameters"})


class Head(NamedTuple):
    """The JSON part of a request, checked against a model."""

    id: str | None
    outputs: tuple[str, ...]
    binary: frozenset[str]
    """Outputs that are sent as bytes."""
    shares: Shares
    tensors: tuple[Tensor, ...]
    """A matrix of all numbers, or one for each column."""


Heads: TypeAlias = dict[tuple[bytes, int, str], Head]
"""Those that were read, by their text without sizes, how many it had, and the model, for all
exchanges: clients send the same JSON part with other numbers and texts."""


class InferenceExchange:
    """Reads by the length of the JSON part alone: clients send any Content-Type, or none."""

    def __init__(self, headers: RawHeaders, limits: Limits, heads: Heads) -> None:
        """Raises InvalidRequest `invalid-header`."""
        self._limits = limits
        self._heads = heads
        self._encoding = self._reply_encoding = ""
        self._head_bytes: int | None = None
        for name, value in headers:
            if name == b"content-encoding":
                self._encoding = value.decode("latin-1").strip().lower()
            elif name == b"inference-header-content-length":
                if not value.isdigit() or len(value) > MAX_DIGITS:
                    raise InvalidRequest("invalid-header", f"{HEAD_LENGTH} is a whole number")
                self._head_bytes = int(value)
            elif name == b"accept-encoding" and value.strip() in (b"gzip", b"deflate"):
                # A client that names one coding wants it. HTTP libraries list all they know:
                # without it they get the reply sooner.
                self._reply_encoding = value.strip().decode()
        self.is_binary = self._head_bytes is not None and not self._encoding

    def read(self, body: bytes, model: LoadedModel) -> Instances:
        """Raises InvalidRequest, InvalidContent, TooLarge, UnsupportedFormat."""
        if self._encoding:
            body = inflate(body, self._encoding, self._limits.predict_body_bytes)
        end = len(body) if self._head_bytes is None else self._head_bytes
        if end > len(body):
            detail = f"{HEAD_LENGTH} is {end}, the body has {len(body)} bytes"
            raise InvalidRequest("invalid-header", detail)
        are_numbers = not model.features.not_numbers
        if are_numbers and end == len(body):
            cut = cut_data(body, model.n_features, self._limits.predict_rows)
            with suppress(ServiceError):  # found and reported again in the whole text
                if cut is not None:
                    return self._request(*cut, _NOTHING, model)
        text, rest = bytes(body[:end]), memoryview(body)[end:]
        if len(text) > HEAD_BYTES:
            if are_numbers and text.count(b'"datatype"') < 2 and b'"BYTES"' not in text:
                head, span = cut_span(text)
                return self._request(head, partial(from_span, text, span), rest, model)
            check_object_bytes(text, _TOO_LARGE)
        return self._request(text, None, rest, model)

    def _request(
        self, text: bytes, numbers: Numbers, data: memoryview, model: LoadedModel
    ) -> Instances:
        """`numbers` are those of a matrix, which MARK replaces in the text, or read them."""
        short = len(text) <= REMEMBERED_BYTES
        fixed, sizes = _without_sizes(text) if short else (text, [None])
        key = fixed, len(sizes), model.key
        head = known = self._heads.get(key)
        if head is None:
            head, sizes = self._head(text, model)
        again: CellsAgain | None = None
        if head.tensors[0].column is None:
            given = self._values(head.tensors[0], sizes[0], numbers, data, model.features)
        elif numbers is not None:
            raise invalid(("inputs",), "these are not the numbers read")
        else:
            given, again = raw_rows(head.tensors, sizes, data, model.features.of_tensors)
            longest = longest_text(self._limits.line_bytes)
            if len(text) + len(data) > longest:
                model.features.check_texts(given, longest)
        if known is None and short and _may_be_remembered(head, text, sizes):
            if len(self._heads) >= MOST_REMEMBERED:
                self._heads.clear()
            self._heads[key] = head
        X, unknown = model.mark(given, again)
        return Instances(
            X, head.outputs, unknown, binary=head.binary, id=head.id, shares=head.shares
        )

    def _head(self, text: bytes, model: LoadedModel) -> tuple[Head, list[Any]]:
        """And the `binary_data_size` of each tensor, None if it is not given."""
        features, most_rows = model.features, self._limits.predict_rows
        document = _members(_parse(text, with_nan=not features.is_plain), _REQUEST, ())
        inputs = document.get("inputs")
        if not isinstance(inputs, list) or not inputs:
            message = "give a list of tensors: one for each column, or a single one of numbers"
            raise invalid(("inputs",), message)
        for i, tensor in enumerate(inputs):
            _parameters(_members(tensor, _INPUT, ("inputs", i)), ("inputs", i))
        if _are_columns(inputs, features):
            tensors = described(inputs, features, most_rows)
        else:
            tensors = (_matrix(inputs[0], features, most_rows),)
        sizes = [_parameters(tensor, ()).get("binary_data_size") for tensor in inputs]
        return Head(*_asked(document, model), tensors), sizes

    def _values(
        self,
        tensor: Tensor,
        size: Any,
        numbers: Numbers,
        data: memoryview,
        columns: Columns,
    ) -> NDArray[np.float64]:
        if size is not None or (self._head_bytes is not None and not tensor.has_data):
            if tensor.has_data:
                raise invalid(("inputs", 0, "data"), "the data are behind the JSON part already")
            if size not in (None, len(data)):
                path = ("inputs", 0, "parameters", "binary_data_size")
                raise invalid(path, f"there are {len(data)} bytes behind the JSON part")
            values = from_bytes(data, tensor.datatype, tensor.shape)
        elif data:
            detail = "there are bytes behind the JSON part that no tensor claims"
            raise InvalidRequest("malformed-request", detail)
        elif numbers is not None:
            if tensor.data != MARK:
                raise invalid(("inputs", 0, "data"), "these are not the numbers read")
            if isinstance(numbers, np.ndarray):
                values = from_numbers(numbers, tensor.datatype, tensor.shape)
            else:
                values = numbers(tensor.datatype, tensor.shape, columns)
        else:
            values = from_json(tensor.data, tensor.datatype, tensor.shape, columns)
        return columns.checked(np.ascontiguousarray(values, np.float64))

    def reply(self, asked: Instances, answer: Prediction) -> Reply:
        model = answer.model
        tensors, parts, parameters = [], [], []
        if asked.unknown is not None:
            parameters.append(b'"unknown":%b' % orjson.dumps(asked.unknown.document))
        if (words := answer.unknown_words) is not None:
            parameters.append(b'"unknown_words":%b' % orjson.dumps(words.document))
        for name in asked.outputs:
            binary = name in asked.binary
            if name == "label":
                labels = model.tensor_labels if binary else model.json_labels
                cells = [labels[code] for code in answer.codes]
                shape, datatype = str(len(cells)), model.label_datatype
                data = b"".join(cells) if binary else b"[%b]" % b",".join(cells)
            else:
                values = answer.array(name, asked.shares)
                shape, datatype = ",".join(map(str, values.shape)), datatype_of(values)
                data = to_bytes(values) if binary else _flat(values)
                if name == "probability" and (rows := answer.unlikely_labels):
                    parameters.append(b'"unlikely_labels":%d' % len(rows))
                if name in SHARE_OF:
                    share = SHARE_OF[name]
                    given = orjson.dumps(getattr(asked.shares, share))
                    parameters.append(b'"%b":%b' % (share.encode(), given))
            tensor = f'{{"name":"{name}","datatype":"{datatype}","shape":[{shape}],'.encode()
            if binary:
                parts.append(data)
                tensors.append(b'%b"parameters":{"binary_data_size":%d}}' % (tensor, len(data)))
            else:
                tensors.append(b'%b"data":%b}' % (tensor, data))
        id_ = b"" if asked.id is None else b',"id":%b' % orjson.dumps(asked.id)
        said = b',"parameters":{%b}' % b",".join(parameters) if parameters else b""
        head = b"".join((model.tensors_head, id_, said))
        body = b'%b,"outputs":[%b]}' % (head, b",".join(tensors))
        headers: tuple[tuple[str, str], ...] = ()
        media_type = "application/json"
        if parts:
            headers = ((HEAD_LENGTH, str(len(body))),)
            media_type = "application/octet-stream"
            body = b"".join((body, *parts))
        if self._reply_encoding:
            pack = gzip.compress if self._reply_encoding == "gzip" else zlib.compress
            body = pack(body, 1)
            headers += (("Content-Encoding", self._reply_encoding),)
        return Reply(body, media_type, headers)


def _are_columns(inputs: list[dict[str, Any]], features: Columns) -> bool:
    """Whether tensors are columns, not one of all numbers."""
    is_text = features.n_features == 1 and inputs[0].get("datatype") == BYTES
    return len(inputs) > 1 or bool(features.not_numbers) or is_text


def _matrix(given: dict[str, Any], features: Columns, most_rows: int) -> Tensor:
    datatype = given.get("datatype")
    if not isinstance(datatype, str) or datatype not in NUMBERS:
        raise invalid(("inputs", 0, "datatype"), f"give one of {', '.join(NUMBERS)}")
    shape = check_shape(given.get("shape"), features)
    if shape[0] > most_rows:
        raise too_many("rows to predict", most_rows)
    return Tensor(None, datatype, shape, "data" in given, given.get("data"))


def _without_sizes(text: bytes) -> tuple[bytes, list[Any]]:
    """The JSON part with a byte that UTF-8 has not for each size of a tensor, and these."""
    parts = _SIZE.split(text)
    return b"\xff".join(parts[::2]), [*map(int, parts[1::2])] or [None]


def _may_be_remembered(head: Head, text: bytes, sizes: list[Any]) -> bool:
    """Whether it has no cells, and all sizes were found in its text: the same text with others then
    means the same with these. Without a quote in a text, no text has what looks like a size."""
    found = _without_sizes(text)[1]
    has_cells = any(tensor.data not in (None, MARK) for tensor in head.tensors)
    return not has_cells and found == sizes and b'\\"' not in text


def _flat(values: NDArray[Any]) -> bytes:
    if values.dtype.kind == "U":
        return orjson.dumps(values.tolist())
    return orjson.dumps(values.ravel(), option=orjson.OPT_SERIALIZE_NUMPY)


def _parse(head: bytes, *, with_nan: bool) -> Any:
    """`with_nan`: NaN is null, as clients in Python write it."""
    with suppress(ValueError):
        document = orjson.loads(head)
        # orjson takes a name twice and any depth. Each member has its colon, and so has each one
        # that was lost. Without a backslash, every second part between quotes is a text.
        n_members = _n_members(document)
        if n_members == head.count(b":") or (
            b"\\" not in head and n_members == b"".join(head.split(b'"')[::2]).count(b":")
        ):
            return document
    return decode_json(head, with_nan=with_nan)  # which says what is wrong, or reads more


def _n_members(document: Any) -> float:
    """Of all objects in a document; NaN if it is deeper than MAX_DEPTH."""
    count, level = 0, [document]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            if type(value) is dict:
                count += len(value)
                inner += value.values()
            elif type(value) is list:
                inner += value
        level = [value for value in inner if type(value) is dict or type(value) is list]
        if not level:
            return count
    return math.nan


def _members(value: Any, known: frozenset[str], path: tuple[str | int, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid(path, "give an object")
    if unknown := value.keys() - known:
        place = pointer_to_member(path, min(unknown))
        raise invalid_field(place, f"unknown; known are {', '.join(sorted(known))}")
    return value


def _parameters(value: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    """Those of a request or a tensor; there need be none."""
    parameters = value.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise invalid((*path, "parameters"), "give an object")
    return parameters or {}


def _flag(
    parameters: dict[str, Any], name: str, path: tuple[str | int, ...], default: bool
) -> bool:
    flag = parameters.get(name, default)
    if type(flag) is not bool:
        raise invalid((*path, "parameters", name), "give true or false")
    return flag


def _asked(
    document: dict[str, Any], model: LoadedModel
) -> tuple[str | None, tuple[str, ...], frozenset[str], Shares]:
    """What a request says beside its inputs: id, outputs, those sent as bytes, shares."""
    id_ = document.get("id")
    if id_ is not None and not isinstance(id_, str):
        raise invalid(("id",), "give a text")
    outputs, shares = _outputs(document, model)
    return id_, tuple(outputs), frozenset(name for name in outputs if outputs[name]), shares


def _outputs(document: dict[str, Any], model: LoadedModel) -> tuple[dict[str, bool], Shares]:
    """The outputs to answer, by default all without a share, and whether each is sent as bytes; the
    shares."""
    binary = _flag(_parameters(document, ()), "binary_data_output", (), False)
    wanted = document.get("outputs")
    if wanted is not None and not isinstance(wanted, list):
        raise invalid(("outputs",), "give a list of tensors")
    known, shares = arrays_of(model.offer), USUAL
    if not wanted:
        return {name: binary for name in known if name not in SHARE_OF}, shares
    outputs = {}
    for i, output in enumerate(wanted):
        tensor = _members(output, _OUTPUT, ("outputs", i))
        if tensor.get("name") not in known:
            if tensor.get("name") in [*CALIBRATED]:
                check_offered([tensor["name"]], model.offer)  # says what to do
            raise invalid(("outputs", i, "name"), f"give one of {', '.join(known)}")
        own = _parameters(tensor, ("outputs", i))
        if own.get("classification"):
            raise InvalidContent("invalid-field", "the classification extension is not offered")
        outputs[tensor["name"]] = _flag(own, "binary_data", ("outputs", i), binary)
        if (share := SHARE_OF.get(tensor["name"])) in own:
            given = shares_in(own, "outputs", i, "parameters")
            shares = shares._replace(**{share: getattr(given, share)})
        check_shares(model.fitted, [tensor["name"]], shares, pointer(("outputs", i)))
    return outputs, shares
