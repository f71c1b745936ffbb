"""A prediction from the bytes of a request to the bytes of its reply.

The documented routes use it, and the server's HTTP protocol class, which answers most requests.
Both give the target, the headers and the body.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from time import perf_counter
from typing import TypeAlias

import numpy as np
from pydantic import ValidationError

from service.common.answerer import RawHeaders, Reply
from service.common.names import NAME
from service.common.shared import Shared
from service.models.schemas import MAX_VERSION
from service.predictions.batcher import INLINE_WORK, Batcher, Instances, Prediction, score_rows
from service.predictions.inference.tensors import HEAD_BYTES
from service.predictions.inference.wire_format import Heads, InferenceExchange
from service.predictions.loaded_models import LoadedModel, LoadedModels, Reference
from service.predictions.metrics import PredictionMetrics
from service.predictions.schemas import NO_QUERY, PredictionQuery
from service.predictions.wire_format import PlainExchange
from service.rows.parser import Parser
from service.settings import Limits
from service.storage.blobs import Blobs
from svm.kernel.kernels import GaussianKernel
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling

INLINE_BYTES = 64 * 1024
"""Texts larger than this, which may take milliseconds to read, are read in a thread."""
INLINE_BINARY_BYTES = 4 * 1024 * 1024
"""The same for numbers in binary, which are only checked to be finite."""

_NAME = NAME.pattern.encode()
_PATH = re.compile(
    rb"/(?:v1/models/(?P<name>%b)(?:/versions/(?P<version>[1-9][0-9]{0,17})|/aliases/(?P<alias>%b))?/predict"
    rb"|v2/models/(?P<model>%b)(?:/versions/(?P<number>[1-9][0-9]{0,17}))?/infer)"
    % (_NAME, _NAME, _NAME)
)

_PLAIN = {
    b"application/json": b'{"instances": [[0.5]], "outputs": ["label", "decision"]}',
    b"text/csv": b"0.5\n",
}
_TENSOR = b'{"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP64", "data": [0.5]}]}'
"""Requests by which the readers and replies are warmed up."""

Deliver: TypeAlias = Callable[[Reply | Exception], None]


@dataclass(frozen=True, slots=True)
class Target:
    """A model as a request names it, and the route that it came by."""

    name: str
    reference: Reference
    route: str
    """The route's template, as metrics show it."""
    inference: bool = False
    """By the Open Inference Protocol."""


Exchange: TypeAlias = PlainExchange | InferenceExchange
"""How requests with some headers are read and answered. Both raise ServiceError."""


@dataclass(frozen=True, slots=True)
class PredictionCall:
    """What the head of a request says: a model, and formats."""

    target: Target
    exchange: Exchange

    @property
    def route(self) -> str:
        return self.target.route


class Predictor:
    """Answers requests for any model: an `Answerer`. Belongs to one event loop."""

    def __init__(
        self,
        models: LoadedModels,
        limits: Limits,
        parser: Parser,
        blobs: Blobs,
        shared: Shared | None = None,
    ) -> None:
        self._models = models
        self._parser, self._blobs = parser, blobs
        self._limits = limits
        self.body_limit_bytes = limits.predict_body_bytes
        """See `Answerer`."""
        self._batcher = Batcher()
        self._heads: Heads = {}
        self.metrics = PredictionMetrics(shared or Shared())
        """Register it with the metrics."""

    def call(
        self, path: bytes, query: Mapping[str, str], headers: RawHeaders
    ) -> PredictionCall | None:
        """What is asked of which model; None if the path is for no prediction, or the query wrong.

        Raises UnsupportedFormat, NotAcceptable, InvalidRequest.
        """
        target = _target_of(path)
        if target is None or (query and target.inference):
            return None
        try:
            return self.call_of(target, headers, PredictionQuery.model_validate(query))
        except ValidationError:
            return None

    def call_of(
        self, target: Target, headers: RawHeaders, query: PredictionQuery = NO_QUERY
    ) -> PredictionCall:
        """The same. Raises UnsupportedFormat, NotAcceptable, InvalidRequest."""
        if target.inference:
            return PredictionCall(target, InferenceExchange(headers, self._limits, self._heads))
        return PredictionCall(target, PlainExchange(headers, query, self._limits))

    def knows(self, call: PredictionCall) -> bool:
        """Whether the model is at hand."""
        try:
            return self._models.at_hand(call.target.name, call.target.reference) is not None
        except Exception:  # `check` meets it again and reports it
            return False

    async def check(self, call: PredictionCall) -> None:
        """Check before the body is read that the model exists. Raises as `LoadedModels.get`."""
        await self._models.get(call.target.name, call.target.reference)

    async def answer(self, call: PredictionCall, body: bytes, *, converted: bool = False) -> Reply:
        """`converted`: the rows are CSV already, made of a file that is packed.

        Raises ServiceError: see `LoadedModels.get`, `Exchange`, `Batcher.score`.
        """
        model = await self._models.get(call.target.name, call.target.reference)
        try:
            return await self._answer_of(model, call.exchange, body, converted=converted)
        except Exception:
            self.metrics.count_refusal(model)
            raise

    async def _answer_of(
        self, model: LoadedModel, exchange: Exchange, body: bytes, *, converted: bool = False
    ) -> Reply:
        started, in_thread = perf_counter(), self._batcher.in_thread
        if isinstance(exchange, PlainExchange) and exchange.is_packed and not converted:
            with self._blobs.temporary_folder() as folder:
                body = await exchange.unpack(body, model, self._parser, folder)
        soon = _is_read_inline(exchange, body, model)
        if soon:
            asked = exchange.read(body, model)
        else:
            asked = await in_thread(partial(exchange.read, body, model))
        answer = await self._batcher.score(model, asked.X)
        if soon and _is_written_inline(model, asked):
            reply = exchange.reply(asked, answer)
        else:
            reply = await in_thread(partial(exchange.reply, asked, answer))
        self.metrics.count_answer(model, asked.X.shape[0], asked.unknown, started)
        return reply

    def submit(
        self, call: PredictionCall, body: bytes, deliver: Deliver, *, alone: bool
    ) -> asyncio.Task[None] | None:
        """See `Answerer`. It takes long if the model is not loaded, the body large, or if the rows
        are not soon scored and written."""
        started = perf_counter()
        target, exchange = call.target, call.exchange
        try:
            model = self._models.at_hand(target.name, target.reference)
            if model is not None and _is_read_inline(exchange, body, model):
                asked = exchange.read(body, model)
                if not self._batcher.is_long(model, asked.X) and _is_written_inline(model, asked):
                    answered = partial(
                        self._deliver_answer, model, exchange, asked, started, deliver
                    )
                    if not alone:
                        self._batcher.submit(model, asked.X, answered)
                    else:
                        answered(score_rows(model, asked.X))
                    return None
        except Exception as error:
            deliver(error)
            return None
        return asyncio.create_task(self._answer_later(call, body, deliver))

    def _deliver_answer(
        self,
        model: LoadedModel,
        exchange: Exchange,
        asked: Instances,
        started: float,
        deliver: Deliver,
        answer: Prediction | Exception,
    ) -> None:
        if isinstance(answer, Exception):
            deliver(answer)
            return
        try:
            reply = exchange.reply(asked, answer)
            self.metrics.count_answer(model, asked.X.shape[0], asked.unknown, started)
        except Exception as error:
            deliver(error)
        else:
            deliver(reply)

    async def _answer_later(self, call: PredictionCall, body: bytes, deliver: Deliver) -> None:
        try:
            model = await self._models.get(call.target.name, call.target.reference)
            reply = await self._answer_of(model, call.exchange, body)
        except Exception as error:  # `answer` meets it again and counts it
            deliver(error)  # a variable that outlives this block would keep the body with it
        else:
            deliver(reply)


def _target_of(path: bytes) -> Target | None:
    """What a path below `/v1/models` or `/v2/models` asks to predict; None for any other path."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    part = {name: value.decode() for name, value in match.groupdict().items() if value is not None}
    number = int(part.get("version") or part.get("number") or 1)
    if number > MAX_VERSION:
        return None
    if "model" in part:
        below = "/versions/{version}" if "number" in part else ""
        reference: Reference = number if "number" in part else None
        return Target(part["model"], reference, f"/v2/models/{{name}}{below}/infer", True)
    if "version" in part:
        return Target(part["name"], number, "/v1/models/{name}/versions/{version}/predict")
    if "alias" in part:
        return Target(part["name"], part["alias"], "/v1/models/{name}/aliases/{alias}/predict")
    return Target(part["name"], None, "/v1/models/{name}/predict")


def _is_written_inline(model: LoadedModel, asked: Instances) -> bool:
    return int(asked.X.shape[0]) * model.reply_work(asked.outputs) <= INLINE_WORK


def _is_read_inline(exchange: Exchange, body: bytes, model: LoadedModel) -> bool:
    if isinstance(exchange, PlainExchange) and (exchange.is_packed or exchange.must_import):
        return False
    if len(body) <= INLINE_BYTES:
        return True
    are_numbers = exchange.is_binary and not model.features.not_numbers
    return are_numbers and len(body) <= INLINE_BINARY_BYTES and b'"BYTES"' not in body[:HEAD_BYTES]


@cache
def warm_up() -> None:
    """Predict by small linear models in the usual forms, so that first predictions do not wait for
    imports and first uses."""
    limits = Limits()
    for model in _models():
        for media_type, body in _PLAIN.items():
            exchange = PlainExchange([(b"content-type", media_type)], NO_QUERY, limits)
            asked = exchange.read(body, model)
            exchange.reply(asked, score_rows(model, asked.X))
        inference = InferenceExchange([], limits, {})
        tensor = inference.read(_TENSOR, model)
        inference.reply(tensor, score_rows(model, tensor.X))


@cache
def warm_up_compiled() -> None:
    """Import what scores rows by kernels, Numba above all, and load its loops: a second, and some
    120 MB."""
    FittedPipeline(
        classes=np.array(["no", "yes"]),
        scaling=Scaling(),
        features=FeatureMap(Identity(), 1),
        kernel=GaussianKernel(gamma=1.0),
        support_vectors=np.ones((1, 1)),
        coefficients=np.ones((1, 1)),
        intercepts=np.zeros(1),
    ).prepare()


def _models() -> Iterator[LoadedModel]:
    """A model of two classes, and one of three."""
    for classes in (["no", "yes"], ["a", "b", "c"]):
        n_problems = len(classes) * (len(classes) - 1) // 2
        fitted = FittedPipeline(
            classes=np.array(classes),
            scaling=Scaling(),
            features=FeatureMap(Identity(), 1),
            coefficients=np.ones((n_problems, 1)),
            intercepts=np.zeros(n_problems),
        )
        fitted.prepare()
        yield LoadedModel(
            key="",
            name="warm-up",
            version=1,
            digest="",
            classes=list(classes),
            columns=None,
            n_features=1,
            fitted=fitted,
            nbytes=0,
        )
