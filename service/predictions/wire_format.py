"""A call of the service's own predict routes: what its headers and query say of the formats."""

from __future__ import annotations

from service.errors import Fault, InvalidContent, InvalidRequest
from service.predictions import bodies, replies
from service.predictions.answers import Answer
from service.predictions.error_reader import Instances
from service.predictions.explanations import check_explainable
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import OUTPUTS
from service.settings import Limits
from service.web.access.fast_path import Headers, Reply
from service.web.http.content_negotiation import best_of
from service.web.http.encodings import inflate, media_type_of


class PlainExchange:
    """Rows in any of `bodies.MEDIA_TYPES`, answers in any of `replies.MEDIA_TYPES`."""

    def __init__(self, headers: Headers, outputs: str | None, limits: Limits) -> None:
        """Raises UnsupportedFormat, NotAcceptable, InvalidRequest."""
        self._limits = limits
        content_type, accept, self._encoding = bodies.JSON, "*/*", ""
        for name, value in headers:
            if name == b"content-type":
                content_type = media_type_of(value)
            elif name == b"accept":
                accept = (
                    value.decode("latin-1")
                    if accept == "*/*"
                    else f"{accept},{value.decode('latin-1')}"
                )
            elif name == b"content-encoding":
                self._encoding = value.decode("latin-1").strip().lower()
        self._content_type = content_type
        self._accept = best_of(accept, replies.MEDIA_TYPES)
        self._outputs = None if outputs is None else _split(outputs)
        self.is_binary = content_type == bodies.NPY and not self._encoding

    def read(self, body: bytes, model: LoadedModel) -> Instances:
        if self._encoding:
            body = inflate(body, self._encoding, self._limits.predict_body_bytes)
        instances = bodies.decode(self._content_type, body, model, self._limits)
        if self._outputs is not None:
            instances = instances._replace(outputs=self._outputs)
        if "explanation" in instances.outputs:
            check_explainable(model)
        if "probability" in instances.outputs and model.fitted.calibration is None:
            raise _not_calibrated()
        return instances

    def reply(self, asked: Instances, answer: Answer) -> Reply:
        return replies.write(self._accept, answer, asked.outputs)


def _not_calibrated() -> InvalidContent:
    message = "the model has no probabilities; train it with `calibration`"
    hint = "ask for `decision`, or train again with `calibration` and `validation`"
    fault = Fault(code="not-calibrated", message=message, pointer="/outputs", hint=hint)
    return InvalidContent("not-calibrated", message, (fault,))


def _split(outputs: str) -> tuple[str, ...]:
    """Raises InvalidRequest `invalid-parameter`."""
    names = tuple(dict.fromkeys(name.strip() for name in outputs.split(",")))
    for name in names:
        if name not in OUTPUTS:
            detail = (
                f"query parameter 'outputs': give some of {', '.join(OUTPUTS)}, separated by commas"
            )
            raise InvalidRequest("invalid-parameter", detail)
    return names
